package cu

import (
	"fmt"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// This file has semaphores of other APIs, which put work of streams and of the other API in order.

// ExternalSemaphoreType is the type of a handle of another API's semaphore
// (CUexternalSemaphoreHandleType).
type ExternalSemaphoreType int32

// The types of handles of semaphores. All but those of file descriptors are for Windows. A binary
// semaphore is signalled or not, and a wait for it ends the signal. A timeline semaphore or a fence has
// a value.
const (
	// ExternalSemaphoreFD is a file descriptor of a binary semaphore of Vulkan
	// (VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT).
	ExternalSemaphoreFD ExternalSemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD
	// ExternalSemaphoreWin32 is an NT handle of a binary semaphore of Vulkan.
	ExternalSemaphoreWin32 ExternalSemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32
	// ExternalSemaphoreWin32KMT is a globally shared handle of a binary semaphore of Vulkan.
	ExternalSemaphoreWin32KMT ExternalSemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT
	// ExternalSemaphoreD3D12Fence is a shared handle of an ID3D12Fence.
	ExternalSemaphoreD3D12Fence ExternalSemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE
	// ExternalSemaphoreD3D11Fence is a shared handle of an ID3D11Fence (CUDA 11.2).
	ExternalSemaphoreD3D11Fence ExternalSemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_FENCE
	// ExternalSemaphoreTimelineFD is a file descriptor of a timeline semaphore of Vulkan (CUDA 11.2).
	ExternalSemaphoreTimelineFD ExternalSemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
	// ExternalSemaphoreTimelineWin32 is an NT handle of a timeline semaphore of Vulkan (CUDA 11.2).
	ExternalSemaphoreTimelineWin32 ExternalSemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32
)

// known reports whether the package has the type.
func (t ExternalSemaphoreType) known() bool {
	return t >= ExternalSemaphoreFD && t <= ExternalSemaphoreD3D11Fence ||
		t == ExternalSemaphoreTimelineFD || t == ExternalSemaphoreTimelineWin32
}

// file reports whether a handle of the type is a file descriptor.
func (t ExternalSemaphoreType) file() bool {
	return t == ExternalSemaphoreFD || t == ExternalSemaphoreTimelineFD
}

// ExternalSemaphoreHandle names a semaphore of another API, such as Vulkan or D3D12, for
// [Context.ImportSemaphore].
type ExternalSemaphoreHandle struct {
	Type ExternalSemaphoreType
	// Handle is the file descriptor, or the HANDLE of Windows. It stays the caller's.
	Handle uintptr
	// Name is the name of an object of Windows, for which Handle is 0.
	Name string
}

// ExternalSemaphore is a semaphore of another API. Streams of its context signal it, and wait for it:
// [Stream.SignalExternal], [Stream.WaitExternal]. It is safe for concurrent use, and must not be copied.
type ExternalSemaphore struct {
	_       core.NoCopy
	core    *core.ExternalSemaphore
	cleanup runtime.Cleanup
}

// ImportSemaphore gives streams of the context a semaphore of another API, on the same device
// (cuImportExternalSemaphore, CUDA 10.0). The handle stays the caller's, who may close it afterwards.
// Compare [Device.UUID] with that of the other API to find the device. ImportSemaphore does not wait
// for the GPU. Make the call before a capture, which it may invalidate.
//
// The driver does not recognize a handle of another object of its own: it also imports a semaphore of
// another type, or the file of memory. What signals and waits do is then undefined.
func (c *Context) ImportSemaphore(h ExternalSemaphoreHandle) (*ExternalSemaphore, error) {
	const op = core.ImportSemaphoreOp
	cc, err := c.enter(op)
	if err != nil {
		return nil, err
	}
	defer c.leave()
	if !h.Type.known() {
		return nil, core.BadValue(op, cc, fmt.Sprintf("there is no ExternalSemaphoreType(%d): see ExternalSemaphoreFD", h.Type))
	}
	passed, err := passHandle(op, h.Type.file(), h.Handle, h.Name)
	if err != nil {
		return nil, core.About(cc, err)
	}
	raw, res := cc.Drv.Table().ImportExternalSemaphore(driver.At{Context: cc.Raw},
		driver.ExternalSemaphoreHandleDesc{Type: int32(h.Type), Handle: passed.words})
	passed.taken(core.TookEffect(res))
	if res != driver.ResultSuccess {
		return nil, cc.CallError(op, h.Handle, res)
	}
	x := &ExternalSemaphore{core: &core.ExternalSemaphore{Raw: raw, Binary: h.Type <= ExternalSemaphoreWin32KMT,
		ID: cc.Drv.Physical.Add(1)}}
	x.core.FreeWaits, x.core.UsedStreams = true, new(core.StreamSet)
	x.cleanup = core.Owned(x, &x.core.Resource, x.core, cc)
	return x, nil
}

// Handle returns the CUexternalSemaphore, for code that calls the driver directly. It is valid until the
// ExternalSemaphore is closed or collected. For nil and for a closed semaphore it is 0.
func (x *ExternalSemaphore) Handle() uintptr {
	if x == nil || x.core == nil || x.core.Closed() {
		return 0
	}
	return uintptr(x.core.Raw)
}

// Close ends the use of the semaphore, which stays the other API's (cuDestroyExternalSemaphore). It
// waits for all work in the context, also for work that waits for a signal of the other API:
// [DeviceMem.Close] says more. Further calls return nil.
//
// If calls that use the semaphore are in flight, or a graph uses it, Close returns at once. The
// semaphore is then destroyed by the program's next freeing call: see docs/blocking.md. The same holds
// for one that was abandoned.
func (x *ExternalSemaphore) Close() error {
	if x == nil || x.core == nil {
		return core.NilError("cuDestroyExternalSemaphore", "external semaphore")
	}
	return x.core.CloseOwned("ExternalSemaphore.Close", x.cleanup)
}

// At returns a signal or a wait with a value. A signal gives a timeline semaphore or a fence the value,
// even a smaller one than before. A wait ends when the semaphore has at least the value. For a binary
// semaphore the value means nothing: pass 0.
func (x *ExternalSemaphore) At(value uint64) ExternalOp {
	var op ExternalOp
	if x != nil {
		core.SetExternalOp(&op, core.ExternalOp{Sem: x.core, Owner: x, Value: value})
	}
	return op
}

const (
	signalExternalOp = "cuSignalExternalSemaphoresAsync"
	waitExternalOp   = "cuWaitExternalSemaphoresAsync"
)

// SignalExternal signals semaphores of other APIs after all work that is enqueued on the stream now
// (cuSignalExternalSemaphoresAsync, CUDA 10.0): s.SignalExternal(x.At(1)). Work of the other API that
// waits for a signal then sees what the stream's work has written. The semaphores must be of the
// stream's context. A call without operations does nothing. SignalExternal waits while the stream's
// queue is full: see docs/blocking.md.
//
// A binary semaphore must not be signalled twice without a wait between: two signals count as one.
func (s *Stream) SignalExternal(ops ...ExternalOp) error {
	return s.external(signalExternalOp, ops, false)
}

// WaitExternal makes the stream wait until semaphores of other APIs have been signalled
// (cuWaitExternalSemaphoresAsync, CUDA 10.0): s.WaitExternal(x.At(2)). Work that is enqueued later on
// the stream begins after that, and sees what the other API has written. The semaphores must be of the
// stream's context. A call without operations does nothing. The call itself waits only while the
// stream's queue is full: see docs/blocking.md.
//
// If the signal never comes, the stream's work never ends. Then each call that waits for the stream
// does not return, such as the Close of memory and of contexts.
func (s *Stream) WaitExternal(ops ...ExternalOp) error { return s.external(waitExternalOp, ops, true) }

func (s *Stream) external(op string, ops []ExternalOp, wait bool) error {
	if s.core() == nil {
		return core.NilError(op, "stream")
	}
	if len(ops) == 0 {
		return nil
	}
	err := core.EnqueueExternal(s.core(), op, ops, wait)
	runtime.KeepAlive(s)
	runtime.KeepAlive(ops)
	return err
}
