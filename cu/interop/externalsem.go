package interop

import (
	"fmt"
	"runtime"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/extsem"
	"github.com/purecu/purecu/internal/subject"
)

// This file has semaphores of other APIs, which put work of streams and of the other API in order.

// SemaphoreType is the type of a handle of another API's semaphore
// (CUexternalSemaphoreHandleType).
type SemaphoreType int32

// The types of handles of semaphores. All but those of file descriptors are for Windows. A binary
// semaphore is signalled or not, and a wait for it ends the signal. A timeline semaphore or a fence has
// a value.
const (
	// SemaphoreFD is a file descriptor of a binary semaphore of Vulkan
	// (VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT).
	SemaphoreFD SemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD
	// SemaphoreWin32 is an NT handle of a binary semaphore of Vulkan.
	SemaphoreWin32 SemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32
	// SemaphoreWin32KMT is a globally shared handle of a binary semaphore of Vulkan.
	SemaphoreWin32KMT SemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT
	// SemaphoreD3D12Fence is a shared handle of an ID3D12Fence.
	SemaphoreD3D12Fence SemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE
	// SemaphoreD3D11Fence is a shared handle of an ID3D11Fence (CUDA 11.2).
	SemaphoreD3D11Fence SemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_FENCE
	// SemaphoreTimelineFD is a file descriptor of a timeline semaphore of Vulkan (CUDA 11.2).
	SemaphoreTimelineFD SemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
	// SemaphoreTimelineWin32 is an NT handle of a timeline semaphore of Vulkan (CUDA 11.2).
	SemaphoreTimelineWin32 SemaphoreType = driver.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32
)

// known reports whether the package has the type.
func (t SemaphoreType) known() bool {
	return t >= SemaphoreFD && t <= SemaphoreD3D11Fence ||
		t == SemaphoreTimelineFD || t == SemaphoreTimelineWin32
}

// file reports whether a handle of the type is a file descriptor.
func (t SemaphoreType) file() bool {
	return t == SemaphoreFD || t == SemaphoreTimelineFD
}

// SemaphoreHandle names a semaphore of another API, such as Vulkan or D3D12, for
// [ImportSemaphore].
type SemaphoreHandle struct {
	Type SemaphoreType
	// Handle is the file descriptor, or the HANDLE of Windows. It stays the caller's.
	Handle uintptr
	// Name is the name of an object of Windows, for which Handle is 0.
	Name string
}

// Semaphore is a semaphore of another API. Streams of its context signal it, and wait for it:
// [Signal], [Wait]. It is safe for concurrent use, and must not be copied.
type Semaphore struct {
	_       core.NoCopy
	core    *extsem.Semaphore
	cleanup runtime.Cleanup
}

// ImportSemaphore gives streams of the context a semaphore of another API, on the same device
// (cuImportExternalSemaphore, CUDA 10.0). The handle stays the caller's, who may close it afterwards.
// Compare [cu.Device.UUID] with that of the other API to find the device. ImportSemaphore does not wait
// for the GPU. Make the call before a capture, which it may invalidate.
//
// The driver does not recognize a handle of another object of its own: it also imports a semaphore of
// another type, or the file of memory. What signals and waits do is then undefined.
func ImportSemaphore(c *cu.Context, h SemaphoreHandle) (*Semaphore, error) {
	const op = drivercall.ImportSemaphoreOp
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	if !h.Type.known() {
		return nil, drivercall.BadValue(op, cc,
			fmt.Sprintf("there is no interop.SemaphoreType(%d): see interop.SemaphoreFD", h.Type))
	}
	passed, err := passHandle(op, h.Type.file(), h.Handle, h.Name)
	if err != nil {
		return nil, drivercall.About(cc, err)
	}
	raw, res := cc.Drv.Table().ImportExternalSemaphore(driver.At{Context: cc.Raw},
		driver.ExternalSemaphoreHandleDesc{Type: int32(h.Type), Handle: passed.words})
	passed.taken(drivercall.TookEffect(res))
	if res != driver.ResultSuccess {
		return nil, cc.CallError(op, h.Handle, res)
	}
	x := &Semaphore{core: &extsem.Semaphore{Raw: raw, Binary: h.Type <= SemaphoreWin32KMT,
		ID: cc.Drv.Physical.Add(1)}}
	x.core.FreeWaits, x.core.UsedStreams = true, new(core.StreamSet)
	x.cleanup = core.Owned(x, &x.core.Resource, x.core, cc)
	return x, nil
}

// Handle returns the CUexternalSemaphore, for code that calls the driver directly. It is valid
// until the Semaphore is closed or collected. For nil and for a closed semaphore it is 0.
func (x *Semaphore) Handle() uintptr {
	if x == nil || x.core == nil || x.core.Closed() {
		return 0
	}
	return uintptr(x.core.Raw)
}

// Close ends the use of the semaphore, which stays the other API's (cuDestroyExternalSemaphore). It
// waits for all work in the context, also for work that waits for a signal of the other API:
// [cu.DeviceMem.Close] says more. Further calls return nil.
//
// If calls that use the semaphore are in flight, or a graph uses it, Close returns at once. The
// semaphore is then destroyed by the program's next freeing call: see docs/blocking.md. The same holds
// for one that was abandoned.
func (x *Semaphore) Close() error {
	if x == nil || x.core == nil {
		return drivercall.NilError("cuDestroyExternalSemaphore", "external semaphore")
	}
	return x.core.CloseOwned("interop.Semaphore.Close", x.cleanup)
}

// At returns a signal or a wait with a value. A signal gives a timeline semaphore or a fence the value,
// even a smaller one than before. A wait ends when the semaphore has at least the value. For a binary
// semaphore the value means nothing: pass 0.
func (x *Semaphore) At(value uint64) cu.ExternalOp {
	var op cu.ExternalOp
	if x != nil {
		extsem.SetOp(&op, extsem.Op{Sem: x.core, Owner: x, Value: value})
	}
	return op
}

const (
	signalOp = "cuSignalExternalSemaphoresAsync"
	waitOp   = "cuWaitExternalSemaphoresAsync"
)

// Signal signals semaphores of other APIs after all work that is enqueued on the stream now
// (cuSignalExternalSemaphoresAsync, CUDA 10.0): interop.Signal(s, x.At(1)). Work of the other API that
// waits for a signal then sees what the stream's work has written. The semaphores must be of the
// stream's context. A call without operations does nothing. Signal waits while the stream's
// queue is full: see docs/blocking.md.
//
// A binary semaphore must not be signalled twice without a wait between: two signals count as one.
func Signal(s *cu.Stream, ops ...cu.ExternalOp) error {
	return enqueue(s, signalOp, ops, false)
}

// Wait makes the stream wait until semaphores of other APIs have been signalled
// (cuWaitExternalSemaphoresAsync, CUDA 10.0): interop.Wait(s, x.At(2)). Work that is enqueued later on
// the stream begins after that, and sees what the other API has written. The semaphores must be of the
// stream's context. A call without operations does nothing. The call itself waits only while the
// stream's queue is full: see docs/blocking.md.
//
// If the signal never comes, the stream's work never ends. Then each call that waits for the stream
// does not return, such as the Close of memory and of contexts.
func Wait(s *cu.Stream, ops ...cu.ExternalOp) error { return enqueue(s, waitOp, ops, true) }

func enqueue(s *cu.Stream, op string, ops []cu.ExternalOp, wait bool) error {
	sc := subject.Stream(s)
	if sc == nil {
		return drivercall.NilError(op, "stream")
	}
	if len(ops) == 0 {
		return nil
	}
	err := extsem.Enqueue(sc, op, ops, wait)
	runtime.KeepAlive(s)
	runtime.KeepAlive(ops)
	return err
}
