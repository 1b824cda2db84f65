package interop

import (
	"fmt"
	"math"
	"runtime"
	"unicode/utf16"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/descriptor"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/subject"
)

// This file has memory of other APIs, and what handles of memory and of semaphores have in common.

// externalMemory is memory of another API.
var externalMemory = memstate.Kind{
	Traits: memstate.Traits{FreeWaits: true, Tracked: true, Others: true},
	Funcs: &memstate.Funcs{
		Name:     "external memory",
		Free:     (*memstate.Mem).FreeByEnd,
		Unshared: "the memory is of another API: pass on the handle that it was imported by",
	},
}

// MemType is the type of a handle of another API's memory (CUexternalMemoryHandleType).
type MemType int32

// The types of handles of memory. All but those of file descriptors are for Windows.
const (
	// MemOpaqueFD is a file descriptor of Vulkan (VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT), or
	// of memory.Physical.Export.
	MemOpaqueFD MemType = driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
	// MemOpaqueWin32 is an NT handle of Vulkan.
	MemOpaqueWin32 MemType = driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32
	// MemOpaqueWin32KMT is a globally shared handle of Vulkan.
	MemOpaqueWin32KMT MemType = driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_KMT
	// MemD3D12Heap is a shared handle of an ID3D12Heap.
	MemD3D12Heap MemType = driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP
	// MemD3D12Resource is a shared handle of a committed ID3D12Resource.
	MemD3D12Resource MemType = driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE
	// MemD3D11Resource is a shared handle of an ID3D11Resource.
	MemD3D11Resource MemType = driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE
	// MemD3D11ResourceKMT is a globally shared handle of an ID3D11Resource.
	MemD3D11ResourceKMT MemType = driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE_KMT
	// MemDMABufFD is a file descriptor of a DMA-BUF, which few drivers import.
	MemDMABufFD MemType = driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD
)

// file reports whether a handle of the type is a file descriptor.
func (t MemType) file() bool { return t == MemOpaqueFD || t == MemDMABufFD }

// dedicated reports whether a handle of the type is always of a dedicated allocation.
func (t MemType) dedicated() bool {
	return t == MemD3D12Resource || t == MemD3D11Resource || t == MemD3D11ResourceKMT
}

// MemHandle names memory of another API, such as Vulkan or D3D12, for [ImportMem].
type MemHandle struct {
	Type MemType
	// Handle is the file descriptor, or the HANDLE of Windows. It stays the caller's.
	Handle uintptr
	// Name is the name of an object of Windows, for which Handle is 0.
	Name string
	// Dedicated says that the other API has allocated the memory for one buffer or image only, with
	// VkMemoryDedicatedAllocateInfo. Resources of D3D are always dedicated.
	Dedicated bool
}

// ImportMem gives access to memory of another API, on the same device (cuImportExternalMemory,
// cuExternalMemoryGetMappedBuffer, CUDA 10.0). size is the size of the allocation in bytes, which the
// handle does not say: VkMemoryAllocateInfo.allocationSize for Vulkan. A smaller one gives access to
// the beginning. The handle stays the caller's, who may close it afterwards. Compare [cu.Device.UUID]
// with that of the other API to find the device. ImportMem does not wait for the GPU. Make the call
// before a capture, which it may invalidate.
//
// The DeviceMem is used like other device memory. [cu.DeviceMem.Span] returns a part of it, such as a
// buffer within the allocation. Close ends the access, and does not free the memory (cuMemFree,
// cuDestroyExternalMemory): as for other device memory it waits for all work in the context. The
// other API's work is not waited for: [ImportSemaphore] puts work of both in order.
//
// If the host can access the memory, too, it must write before the GPU accesses the memory for the
// first time: afterwards the GPU may read old bytes from its cache.
//
// The driver does not recognize a handle of another object of its own: it also imports a semaphore's
// file. The content of the memory is then undefined.
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func ImportMem(c *cu.Context, h MemHandle, size uint64) (*cu.DeviceMem, error) {
	const op = drivercall.ImportMemOp
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	switch {
	case h.Type < MemOpaqueFD || h.Type > MemDMABufFD ||
		h.Type == driver.CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF:
		return nil, drivercall.BadValue(op, cc,
			fmt.Sprintf("interop.MemType(%d) does not exist: see interop.MemOpaqueFD", h.Type))
	case size == 0:
		return nil, drivercall.BadValue(op, cc, "the size is 0 bytes: pass the size of the other API's allocation")
	}
	passed, err := passHandle(op, h.Type.file(), h.Handle, h.Name)
	if err != nil {
		return nil, drivercall.About(cc, err)
	}
	desc := driver.ExternalMemoryHandleDesc{Type: int32(h.Type), Handle: passed.words, Size: size}
	if h.Dedicated || h.Type.dedicated() {
		desc.Flags = driver.CUDA_EXTERNAL_MEMORY_DEDICATED
	}
	at, t := driver.At{Context: cc.Raw}, cc.Drv.Table()
	ext, res, collection := core.Allocated(cc, func() (driver.ExternalMemory, driver.Result) {
		return t.ImportExternalMemory(at, desc)
	})
	passed.taken(drivercall.TookEffect(res))
	if res != driver.ResultSuccess {
		return nil, collection.Explain(cc.CallError(op, h.Handle, res))
	}
	raw, res := t.ExternalMemoryGetMappedBuffer(at, ext, driver.ExternalMemoryBufferDesc{Size: size})
	if res != driver.ResultSuccess {
		e := cc.CallError("cuExternalMemoryGetMappedBuffer", uintptr(ext), res)
		if res == driver.ResultInvalidValue {
			e.Detail = drivercall.JoinText(fmt.Sprintf("the memory may have less than %d bytes", size), e.Detail)
		}
		t.DestroyExternalMemory(driver.At{Context: cc.Raw, Relaxed: true}, ext)
		return nil, e
	}
	mc := &memstate.Mem{Is: externalMemory, Raw: raw, Size: size, Capacity: size}
	mc.End = func(at driver.At) (string, driver.Result) {
		mc.ObserveFree()
		op, res := "cuMemFree", t.MemFree(at, raw)
		if end := t.DestroyExternalMemory(at, ext); res == driver.ResultSuccess && end != res {
			op, res = "cuDestroyExternalMemory", end
		}
		return op, res
	}
	return subject.NewDeviceMem(cc, mc), nil
}

// passedHandle is a handle of another API as the driver gets it.
type passedHandle struct {
	words [2]uint64 // the union of C
	file  bool
	fd    int32  // a duplicate, as the driver keeps the descriptor
	name  []byte // is here so that it is not on a stack, which may move
}

// passHandle checks a handle. The caller calls taken after the call of the driver.
//
//go:noinline
func passHandle(op string, file bool, handle uintptr, name string) (*passedHandle, error) {
	p := &passedHandle{words: [2]uint64{uint64(handle)}, file: file}
	switch {
	case handle != 0 && name != "", file && name != "":
		return nil, drivercall.BadValue(op, nil,
			"there is a name beside the handle: pass one of them, and only the handle of a file")
	case file && handle > math.MaxInt32:
		return nil, drivercall.BadValue(op, nil, fmt.Sprintf("%#x is not the descriptor of an open file", handle))
	case file:
		var err error
		if p.fd, err = descriptor.Duplicate(int32(handle)); err != nil {
			return nil, drivercall.NewError(op, nil, cu.ResultUnknown, err,
				fmt.Sprintf("the file descriptor %d cannot be duplicated: pass that of an open file", handle))
		}
		p.words[0] = uint64(p.fd)
	case name != "":
		for _, u := range append(utf16.Encode([]rune(name)), 0) {
			p.name = append(p.name, byte(u), byte(u>>8))
		}
		p.words[1] = uint64(memstate.HostAddress(p.name))
	case handle == 0:
		return nil, drivercall.Misuse(op, nil, cu.ErrNil, "the handle is zero: set Handle or Name")
	}
	return p, nil
}

// taken ends the use of a handle. done says that the driver has imported it.
func (p *passedHandle) taken(done bool) {
	if p.file && !done {
		descriptor.Close(p.fd)
	}
	runtime.KeepAlive(p)
}
