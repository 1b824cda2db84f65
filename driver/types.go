package driver

import (
	"math"
	"unsafe"
)

// Graphs returns the bodies of a conditional node that cuGraphAddNode has added. They belong to the
// node: cuGraphDestroy refuses them.
func (p *ConditionalNodeParams) Graphs() []Graph {
	if p.PhGraphOut == nil {
		return nil
	}
	return unsafe.Slice(p.PhGraphOut, p.Size)
}

// Operations returns the operations of a node. For a node that cuGraphBatchMemOpNodeGetParams was asked
// about, they are valid until the node's operations change.
func (p *BatchMemOpNodeParams) Operations() []StreamBatchMemOpParams {
	return elements(p.ParamArray, p.Count)
}

// Semaphores returns the semaphores of a node. For a node that the driver was asked about, they are valid
// until the node's parameters change.
func (p *ExtSemSignalNodeParams) Semaphores() []ExternalSemaphore {
	return elements(p.ExtSemArray, p.NumExtSems)
}

// Params returns what the node does with each of the semaphores.
func (p *ExtSemSignalNodeParams) Params() []ExternalSemaphoreSignalParams {
	return elements(p.ParamsArray, p.NumExtSems)
}

// Semaphores returns the semaphores of a node. For a node that the driver was asked about, they are valid
// until the node's parameters change.
func (p *ExtSemWaitNodeParams) Semaphores() []ExternalSemaphore {
	return elements(p.ExtSemArray, p.NumExtSems)
}

// Params returns what the node does with each of the semaphores.
func (p *ExtSemWaitNodeParams) Params() []ExternalSemaphoreWaitParams {
	return elements(p.ParamsArray, p.NumExtSems)
}

// elements returns the elements of an array of C.
func elements[T any](p *T, n uint32) []T {
	if p == nil {
		return nil
	}
	return unsafe.Slice(p, n)
}

// Frames and handles have 64-bit words. This line does not compile on 32-bit platforms.
const _ = uint(unsafe.Sizeof(uintptr(0)) - 8)

// Handles of the driver. All but Device are addresses of the driver's own objects, which Go's
// garbage collector ignores.
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
	// LibraryHandle is a CUlibrary.
	LibraryHandle uintptr
	// Kernel is a CUkernel.
	Kernel uintptr
	// Array is a CUarray.
	Array uintptr
	// MipmappedArray is a CUmipmappedArray.
	MipmappedArray uintptr
	// TexRef is a CUtexref.
	TexRef uintptr
	// SurfRef is a CUsurfref.
	SurfRef uintptr
	// TexObject is a CUtexObject.
	TexObject uint64
	// SurfObject is a CUsurfObject.
	SurfObject uint64
	// MemoryPool is a CUmemoryPool.
	MemoryPool uintptr
	// MemGenericAllocationHandle is a CUmemGenericAllocationHandle: physical memory, or a multicast
	// object.
	MemGenericAllocationHandle uint64
	// LinkState is a CUlinkState.
	LinkState uintptr
	// GraphicsResource is a CUgraphicsResource.
	GraphicsResource uintptr
	// ExternalMemory is a CUexternalMemory.
	ExternalMemory uintptr
	// ExternalSemaphore is a CUexternalSemaphore.
	ExternalSemaphore uintptr
	// UserObject is a CUuserObject.
	UserObject uintptr
	// GraphConditionalHandle is a CUgraphConditionalHandle.
	GraphConditionalHandle uint64
	// GraphDeviceNode is a CUgraphDeviceNode.
	GraphDeviceNode uintptr
	// AsyncCallbackHandle is a CUasyncCallbackHandle.
	AsyncCallbackHandle uintptr
	// LogsCallbackHandle is a CUlogsCallbackHandle.
	LogsCallbackHandle uintptr
	// CoredumpCallbackHandle is a CUcoredumpCallbackHandle of CUDA 13.2.
	CoredumpCallbackHandle uintptr
	// CheckpointOperationHandle is a CUcheckpointOperationHandle of CUDA 13.4.
	CheckpointOperationHandle uintptr
	// LogicalEndpointID is a CUlogicalEndpointId of CUDA 13.3.
	LogicalEndpointID uint32
	// DevicePtr is a CUdeviceptr: an address on the device.
	DevicePtr uint64
	// HostPtr is an address of host memory that Go does not manage.
	HostPtr uintptr
)

// Structures that the driver copies.
type (
	// UUID is a CUuuid.
	UUID [16]byte
	// IPCEventHandle is a CUipcEventHandle, which C passes by value.
	IPCEventHandle [64]byte
	// IPCMemHandle is a CUipcMemHandle, which C passes by value.
	IPCMemHandle [64]byte
	// MemPoolPtrExportData is a CUmemPoolPtrExportData.
	MemPoolPtrExportData [64]byte
	// DevResource is a CUdevResource: its type, 92 bytes for the driver, and 48 bytes whose meaning
	// depends on the type. Since CUDA 13.1 the last 8 of them are the driver's nextResource
	// (unverified).
	DevResource [18]uint64
)

// ShareableHandle is a handle of memory that the operating system or another process knows. How much
// of it is used depends on the type of the handle: 4 bytes of a file descriptor, 8 bytes of a handle
// of Windows, or all of a CUmemFabricHandle or CUlogicalEndpointFabricHandle.
type ShareableHandle [8]uint64

// FD returns the file descriptor that the handle is.
func (h ShareableHandle) FD() int32 { return int32(h[0]) }

// SMCount returns how many multiprocessors the resource has, or 0 if it is of another type.
func (r *DevResource) SMCount() uint32 {
	if int32(r[0]) != CU_DEV_RESOURCE_TYPE_SM {
		return 0
	}
	return uint32(r[resourceAt])
}

// SetSM makes the resource one of multiprocessors. The driver's words stay as they are.
//
// Unverified: see [DevSmResource].
func (r *DevResource) SetSM(s DevSmResource) {
	const upper = ^uint64(math.MaxUint32)
	r[0] = r[0]&upper | CU_DEV_RESOURCE_TYPE_SM
	w := r[resourceAt:]
	w[0] = uint64(s.SmCount) | uint64(s.MinSmPartitionSize)<<32
	w[1] = uint64(s.SmCoscheduledAlignment) | uint64(s.Flags)<<32
	w[2] = w[2]&upper | uint64(s.LocalityDomainId)
}

// SM returns the multiprocessors that the resource is. It reports false if the resource is of another
// type.
//
// Unverified: see [DevSmResource].
func (r *DevResource) SM() (s DevSmResource, is bool) {
	if int32(r[0]) != CU_DEV_RESOURCE_TYPE_SM {
		return s, false
	}
	w := r[resourceAt:]
	return DevSmResource{
		SmCount: uint32(w[0]), MinSmPartitionSize: uint32(w[0] >> 32),
		SmCoscheduledAlignment: uint32(w[1]), Flags: uint32(w[1] >> 32),
		LocalityDomainId: uint32(w[2]),
	}, true
}

// WorkqueueConfig returns the configuration of work queues that the resource is. It reports false
// if the resource is of another type.
//
// Unverified: see [DevWorkqueueConfigResource].
func (r *DevResource) WorkqueueConfig() (c DevWorkqueueConfigResource, is bool) {
	if int32(r[0]) != CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG {
		return c, false
	}
	c.Device, c.WqConcurrencyLimit = Device(r[resourceAt]), uint32(r[resourceAt]>>32)
	c.SharingScope = int32(r[resourceAt+1])
	return c, true
}

// SetWorkqueueConfig makes the resource a configuration of work queues. The driver's words stay as
// they are.
func (r *DevResource) SetWorkqueueConfig(c DevWorkqueueConfigResource) {
	const upper = ^uint64(math.MaxUint32)
	r[0] = r[0]&upper | CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG
	r[resourceAt] = uint64(uint32(c.Device)) | uint64(c.WqConcurrencyLimit)<<32
	r[resourceAt+1] = r[resourceAt+1]&upper | uint64(uint32(c.SharingScope))
}

// resourceAt is the index of the first word whose meaning depends on the type.
const resourceAt = (4 + 92) / 8

// LocalizedID returns the ID of a [MemLocation] of the type
// CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN, which stands for C's member localized: a device and one
// of its locality domains.
//
// Unverified: the layout is from public sources, and no driver was called so far.
func LocalizedID(dev Device, domain uint8) int32 { return int32(uint8(dev)) | int32(domain)<<8 }

// KernelParams are the arguments of a kernel: the address and the size of each value. The driver
// copies the values during the call.
type KernelParams struct {
	Ptrs  []unsafe.Pointer
	Sizes []uint32
	// Array replaces Ptrs if C code calls a software driver. It is the address of an array with one
	// pointer for each parameter of the kernel.
	Array unsafe.Pointer
	// Extra is the alternative to the fields above, or nil: the last argument of cuLaunchKernel,
	// which is the address of an array of CU_LAUNCH_PARAM_… and values.
	Extra unsafe.Pointer
}

// LaunchConfig is a CUlaunchConfig: the dimensions of a launch, its stream, and Count attributes.
// Attributes points to the first one.
type LaunchConfig struct {
	GridX, GridY, GridZ    uint32
	BlockX, BlockY, BlockZ uint32
	SharedMemBytes         uint32
	Stream                 Stream
	Attributes             *LaunchAttribute
	Count                  uint32
}

// LaunchAttribute is a CUlaunchAttribute. ID is a CU_LAUNCH_ATTRIBUTE_… constant, and the layout of
// Value depends on it, as in C.
type LaunchAttribute struct {
	_     [0]uint64 // aligns it as in C
	ID    int32
	_     int32
	Value LaunchAttributeValue
}

// LaunchAttributeValue is a CUlaunchAttributeValue, the value of an attribute of a launch, a stream or
// a kernel node.
type LaunchAttributeValue [64]byte

// Callback is a function that the driver calls when a stream reaches it. NVIDIA's driver calls the
// C function at Addr with the argument Data. A software driver calls Go, or GoStatus with the
// status that cuStreamAddCallback passes to its callback. It calls them on a goroutine that is
// locked to its thread, so that it can find out which driver calls they make.
type Callback struct {
	Addr     uintptr
	Data     uintptr
	Go       func()
	GoStatus func(status Result)
	// Apart says that the function behind Go runs on another thread, and that the callback waits
	// for it. Such a function may make all driver calls.
	Apart bool
}

// aligned returns the address of one of the two values, at a multiple of align bytes. The values must
// be on the heap, where they do not move, and align must not be more than their size.
func aligned[T any](p *[2]T, align uintptr) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(p), -uintptr(unsafe.Pointer(p))&(align-1)))
}

// goString returns a copy of a NUL-terminated C string, or "" for NULL.
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
