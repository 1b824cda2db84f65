package driver

import "unsafe"

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
	// MemoryPool is a CUmemoryPool.
	MemoryPool uintptr
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
	// depends on the type.
	DevResource [18]uint64
)

// MemLocation is a CUmemLocation, which C passes by value. Type is a CU_MEM_LOCATION_TYPE_…
// constant, and ID an ordinal of that type.
type MemLocation struct{ Type, ID int32 }

// word returns the location as the word in which C passes it.
func (l MemLocation) word() uintptr {
	return uintptr(uint64(uint32(l.Type)) | uint64(uint32(l.ID))<<32)
}

// MemAccessDesc is a CUmemAccessDesc: what a location may do with memory. Flags is a
// CU_MEM_ACCESS_FLAGS_… constant.
type MemAccessDesc struct {
	Location MemLocation
	Flags    int32
}

// MemPoolProps is a CUmemPoolProps.
type MemPoolProps struct {
	AllocType               int32
	HandleTypes             int32
	Location                MemLocation
	Win32SecurityAttributes uintptr
	MaxSize                 uint64
	Usage                   uint16
	Reserved                [54]byte
}

// Memcpy2D is a CUDA_MEMCPY2D: the copy of a rectangle. The memory types are CU_MEMORYTYPE_…
// constants, and say which of the addresses count.
type Memcpy2D struct {
	SrcXInBytes, SrcY uint64
	SrcMemoryType     int32
	SrcHost           HostPtr
	SrcDevice         DevicePtr
	SrcArray          uintptr
	SrcPitch          uint64

	DstXInBytes, DstY uint64
	DstMemoryType     int32
	DstHost           HostPtr
	DstDevice         DevicePtr
	DstArray          uintptr
	DstPitch          uint64

	WidthInBytes, Height uint64
}

// MemPoolAttributeSize returns the size of the value of a CU_MEMPOOL_ATTR_… constant, in bytes.
func MemPoolAttributeSize(attr int32) uint64 {
	if attr >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD {
		return 8
	}
	return 4
}

// PointerAttributeSize returns the size of the value of a CU_POINTER_ATTRIBUTE_… constant, in
// bytes.
func PointerAttributeSize(attribute int32) uint64 {
	switch attribute {
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return 16
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
		CU_POINTER_ATTRIBUTE_MAPPED, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
		CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return 4
	}
	return 8
}

// ShareableHandleSize returns the size of a handle of a CU_MEM_HANDLE_TYPE_… constant, in bytes.
func ShareableHandleSize(handleType int32) uint64 {
	switch handleType {
	case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
		return 4
	case CU_MEM_HANDLE_TYPE_FABRIC:
		return 64
	}
	return 8
}

// SMCount returns how many multiprocessors the resource has, or 0 if it is of another type.
func (r *DevResource) SMCount() uint32 {
	if int32(r[0]) != CU_DEV_RESOURCE_TYPE_SM {
		return 0
	}
	return uint32(r[smCountAt])
}

// SetSMCount makes the resource one of n multiprocessors.
func (r *DevResource) SetSMCount(n uint32) {
	r[0], r[smCountAt] = CU_DEV_RESOURCE_TYPE_SM, uint64(n)
}

// smCountAt is the index of the word that contains the count.
const smCountAt = (4 + 92) / 8

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

// CheckpointLockArgs is a CUcheckpointLockArgs. A timeout of 0 is none.
type CheckpointLockArgs struct {
	TimeoutMs uint32
	_         uint32
	_         [7]uint64
}

// LaunchAttribute is a CUlaunchAttribute. ID is a CU_LAUNCH_ATTRIBUTE_… constant, and the layout of
// Value depends on it, as in C.
type LaunchAttribute struct {
	ID    int32
	_     int32
	Value LaunchAttributeValue
}

// LaunchAttributeValue is a CUlaunchAttributeValue, the value of an attribute of a launch or of a
// kernel node.
type LaunchAttributeValue [64]byte

// KernelNodeParams is a CUDA_KERNEL_NODE_PARAMS_v2: a kernel, its dimensions and its arguments.
// KernelParams and Extra are as in cuLaunchKernel. The fields before Kern are a
// CUDA_KERNEL_NODE_PARAMS_v1, so the first versions of the functions take the struct, too.
type KernelNodeParams struct {
	Func                            Function
	GridDimX, GridDimY, GridDimZ    uint32
	BlockDimX, BlockDimY, BlockDimZ uint32
	SharedMemBytes                  uint32
	KernelParams                    unsafe.Pointer
	Extra                           unsafe.Pointer
	Kern                            uintptr
	Ctx                             Context
}

// Memcpy3D is a CUDA_MEMCPY3D_v2: see [Memcpy2D].
type Memcpy3D struct {
	SrcXInBytes, SrcY, SrcZ, SrcLOD uint64
	SrcMemoryType                   int32
	SrcHost                         HostPtr
	SrcDevice                       DevicePtr
	SrcArray                        uintptr
	Reserved0                       uintptr
	SrcPitch, SrcHeight             uint64
	DstXInBytes, DstY, DstZ, DstLOD uint64
	DstMemoryType                   int32
	DstHost                         HostPtr
	DstDevice                       DevicePtr
	DstArray                        uintptr
	Reserved1                       uintptr
	DstPitch, DstHeight             uint64
	WidthInBytes, Height, Depth     uint64
}

// MemsetNodeParams is a CUDA_MEMSET_NODE_PARAMS_v1: the setting of Width elements in each of Height
// rows, which begin every Pitch bytes. An element has ElementSize bytes: 1, 2 or 4.
type MemsetNodeParams struct {
	Dst                DevicePtr
	Pitch              uint64
	Value, ElementSize uint32
	Width, Height      uint64
}

// GraphInstantiateParams is a CUDA_GRAPH_INSTANTIATE_PARAMS. The driver sets ErrNode and Result, a
// CUDA_GRAPH_INSTANTIATE_… constant.
type GraphInstantiateParams struct {
	Flags        uint64
	UploadStream Stream
	ErrNode      GraphNode
	Result       int32
}

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
