package driver

import "unsafe"

// Frames and handles have 64-bit words: nothing else compiles.
const _ = uint(unsafe.Sizeof(uintptr(0)) - 8)

// Handles, as the driver hands them out. All but Device are addresses of the
// driver's own objects: they mean nothing to Go's garbage collector.
type (
	// Device is a CUdevice: an ordinal, not an address.
	Device int32
	// Context is a CUcontext.
	Context uintptr
	// Stream is a CUstream; small values name the default streams.
	Stream uintptr
	// Event is a CUevent.
	Event uintptr
	// Module is a CUmodule.
	Module uintptr
	// Function is a CUfunction.
	Function uintptr
	// Graph is a CUgraph.
	Graph uintptr
	// GraphExec is a CUgraphExec.
	GraphExec uintptr
	// GraphNode is a CUgraphNode.
	GraphNode uintptr
	// GreenCtx is a CUgreenCtx.
	GreenCtx uintptr
	// DevResourceDesc is a CUdevResourceDesc.
	DevResourceDesc uintptr
	// DevicePtr is a CUdeviceptr: an address on the device.
	DevicePtr uint64
	// HostPtr is an address of host memory that is not Go's.
	HostPtr uintptr
)

// Values that the driver copies.
type (
	// UUID is a CUuuid.
	UUID [16]byte
	// IPCEventHandle is a CUipcEventHandle, which C passes by value.
	IPCEventHandle [64]byte
	// IPCMemHandle is a CUipcMemHandle, which C passes by value.
	IPCMemHandle [64]byte
	// DevResource is a CUdevResource: its type, 92 bytes of the driver's own, and 48 for
	// what the type says.
	DevResource [18]uint64
)

// SMCount returns how many multiprocessors the resource is, 0 if it is something else.
func (r *DevResource) SMCount() uint32 {
	if int32(r[0]) != CU_DEV_RESOURCE_TYPE_SM {
		return 0
	}
	return uint32(r[smCountAt])
}

// SetSMCount makes the resource so many multiprocessors.
func (r *DevResource) SetSMCount(n uint32) {
	r[0], r[smCountAt] = CU_DEV_RESOURCE_TYPE_SM, uint64(n)
}

// smCountAt is where the count is, in words of 8 bytes.
const smCountAt = (4 + 92) / 8

// KernelParams are the arguments of a kernel: for each, where its value is and
// how many bytes it has. The driver copies the values during the call.
type KernelParams struct {
	Ptrs  []unsafe.Pointer
	Sizes []uint32
	// Array takes the place of Ptrs where a software driver is called from C: it
	// is where the pointers are, as many as the kernel has parameters.
	Array unsafe.Pointer
	// Extra is the other form, in place of the one above: what cuLaunchKernel takes as
	// its last argument, an array of CU_LAUNCH_PARAM_… that begins here, or nil.
	Extra unsafe.Pointer
}

// LaunchConfig is a CUlaunchConfig: the shape of a launch, its stream, and Count
// attributes, the first of which Attributes points to.
type LaunchConfig struct {
	GridX, GridY, GridZ    uint32
	BlockX, BlockY, BlockZ uint32
	SharedMemBytes         uint32
	Stream                 Stream
	Attributes             *LaunchAttribute
	Count                  uint32
}

// LaunchAttribute is a CUlaunchAttribute: its CU_LAUNCH_ATTRIBUTE_…, and the value in the
// layout of C, which depends on that.
type LaunchAttribute struct {
	ID    int32
	_     int32
	Value [64]byte
}

// Callback is a function that the driver calls when a stream reaches it: Addr
// is a C function and Data its argument. A software driver calls Go instead, or GoStatus
// with the status that C passes to a callback of cuStreamAddCallback. It calls them on a
// goroutine that is locked to its thread, and knows by that which calls they make.
type Callback struct {
	Addr     uintptr
	Data     uintptr
	Go       func()
	GoStatus func(status Result)
	// Apart says that Go stands for a function that C's callback runs on another thread,
	// and waits for: all calls may be made there.
	Apart bool
}

// goString returns a copy of a NUL-terminated C string, "" for NULL.
func goString(p unsafe.Pointer) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
