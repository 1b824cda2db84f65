//go:build linux && !cu_static

package main

// These are constants and structs of vulkan_core.h, much under their names there. The structs have
// C's layout on 64 bits. They may point to Go's heap: purego keeps the arguments of a call alive,
// and the heap does not move.

const (
	typeApplicationInfo                 = 0 // values of SType
	typeInstanceCreateInfo              = 1
	typeDeviceQueueCreateInfo           = 2
	typeDeviceCreateInfo                = 3
	typeSubmitInfo                      = 4
	typeMemoryAllocateInfo              = 5
	typeSemaphoreCreateInfo             = 9
	typeBufferCreateInfo                = 12
	typeCommandPoolCreateInfo           = 39
	typeCommandBufferAllocateInfo       = 40
	typeCommandBufferBeginInfo          = 42
	typeBufferMemoryBarrier             = 44
	typePhysicalDeviceProperties2       = 1000059001
	typePhysicalDeviceIDProperties      = 1000071004
	typeExternalMemoryBufferCreateInfo  = 1000072000
	typeExportMemoryAllocateInfo        = 1000072002
	typeMemoryGetFdInfoKHR              = 1000074002
	typeExportSemaphoreCreateInfo       = 1000077000
	typeSemaphoreGetFdInfoKHR           = 1000079001
	typePhysicalDeviceTimelineSemaphore = 1000207000
	typeSemaphoreTypeCreateInfo         = 1000207002
	typeTimelineSemaphoreSubmitInfo     = 1000207003
	apiVersion12                        = 1<<22 | 2<<12
	errorIncompatibleDriver             = -9
	queueFamilyExternal                 = 1<<32 - 2
	handleOpaqueFd                      = 1 // of memory and of semaphores
	bufferUsageTransfer                 = 1 | 2
	memoryDeviceLocal                   = 1
	memoryHostVisible                   = 2
	memoryHostCoherent                  = 4
	semaphoreBinary                     = 0
	semaphoreTimeline                   = 1
	commandBufferSimultaneousUse        = 4
	stageTransfer                       = 0x1000
	accessTransfer                      = 0x800 | 0x1000
	wholeSize                           = 1<<64 - 1
)

type applicationInfo struct {
	SType              uint32
	PNext              uintptr
	PApplicationName   uintptr
	ApplicationVersion uint32
	PEngineName        uintptr
	EngineVersion      uint32
	APIVersion         uint32
}

type instanceCreateInfo struct {
	SType                   uint32
	PNext                   uintptr
	Flags                   uint32
	PApplicationInfo        *applicationInfo
	EnabledLayerCount       uint32
	PpEnabledLayerNames     uintptr
	EnabledExtensionCount   uint32
	PpEnabledExtensionNames uintptr
}

type physicalDeviceProperties2 struct {
	SType         uint32
	PNext         *physicalDeviceIDProperties
	APIVersion    uint32
	DriverVersion uint32
	VendorID      uint32
	DeviceID      uint32
	DeviceType    uint32
	DeviceName    [256]byte
	_             [548]byte // limits and more
}

type physicalDeviceIDProperties struct {
	SType           uint32
	PNext           uintptr
	DeviceUUID      [16]byte
	DriverUUID      [16]byte
	DeviceLUID      [8]byte
	DeviceNodeMask  uint32
	DeviceLUIDValid uint32
}

type physicalDeviceMemoryProperties struct {
	MemoryTypeCount uint32
	MemoryTypes     [32]struct{ PropertyFlags, HeapIndex uint32 }
	MemoryHeapCount uint32
	MemoryHeaps     [16]struct {
		Size  uint64
		Flags uint32
	}
}

type deviceQueueCreateInfo struct {
	SType            uint32
	PNext            uintptr
	Flags            uint32
	QueueFamilyIndex uint32
	QueueCount       uint32
	PQueuePriorities *float32
}

type physicalDeviceTimelineSemaphoreFeatures struct {
	SType             uint32
	PNext             uintptr
	TimelineSemaphore uint32
}

type deviceCreateInfo struct {
	SType                   uint32
	PNext                   *physicalDeviceTimelineSemaphoreFeatures
	Flags                   uint32
	QueueCreateInfoCount    uint32
	PQueueCreateInfos       *deviceQueueCreateInfo
	EnabledLayerCount       uint32
	PpEnabledLayerNames     uintptr
	EnabledExtensionCount   uint32
	PpEnabledExtensionNames **byte
	PEnabledFeatures        uintptr
}

type externalMemoryBufferCreateInfo struct {
	SType       uint32
	PNext       uintptr
	HandleTypes uint32
}

type bufferCreateInfo struct {
	SType                 uint32
	PNext                 *externalMemoryBufferCreateInfo
	Flags                 uint32
	Size                  uint64
	Usage                 uint32
	SharingMode           uint32
	QueueFamilyIndexCount uint32
	PQueueFamilyIndices   uintptr
}

type memoryRequirements struct {
	Size           uint64
	Alignment      uint64
	MemoryTypeBits uint32
}

type exportMemoryAllocateInfo struct {
	SType       uint32
	PNext       uintptr
	HandleTypes uint32
}

type memoryAllocateInfo struct {
	SType           uint32
	PNext           *exportMemoryAllocateInfo
	AllocationSize  uint64
	MemoryTypeIndex uint32
}

type memoryGetFdInfoKHR struct {
	SType      uint32
	PNext      uintptr
	Memory     uint64
	HandleType uint32
}

type semaphoreTypeCreateInfo struct {
	SType         uint32
	PNext         uintptr
	SemaphoreType uint32
	InitialValue  uint64
}

type exportSemaphoreCreateInfo struct {
	SType       uint32
	PNext       *semaphoreTypeCreateInfo
	HandleTypes uint32
}

type semaphoreCreateInfo struct {
	SType uint32
	PNext *exportSemaphoreCreateInfo
	Flags uint32
}

type semaphoreGetFdInfoKHR struct {
	SType      uint32
	PNext      uintptr
	Semaphore  uint64
	HandleType uint32
}

type commandPoolCreateInfo struct {
	SType            uint32
	PNext            uintptr
	Flags            uint32
	QueueFamilyIndex uint32
}

type commandBufferAllocateInfo struct {
	SType              uint32
	PNext              uintptr
	CommandPool        uint64
	Level              uint32
	CommandBufferCount uint32
}

type commandBufferBeginInfo struct {
	SType            uint32
	PNext            uintptr
	Flags            uint32
	PInheritanceInfo uintptr
}

type bufferMemoryBarrier struct {
	SType               uint32
	PNext               uintptr
	SrcAccessMask       uint32
	DstAccessMask       uint32
	SrcQueueFamilyIndex uint32
	DstQueueFamilyIndex uint32
	Buffer              uint64
	Offset              uint64
	Size                uint64
}

type bufferCopy struct{ SrcOffset, DstOffset, Size uint64 }

type timelineSemaphoreSubmitInfo struct {
	SType                     uint32
	PNext                     uintptr
	WaitSemaphoreValueCount   uint32
	PWaitSemaphoreValues      *uint64
	SignalSemaphoreValueCount uint32
	PSignalSemaphoreValues    *uint64
}

type submitInfo struct {
	SType                uint32
	PNext                *timelineSemaphoreSubmitInfo
	WaitSemaphoreCount   uint32
	PWaitSemaphores      *uint64
	PWaitDstStageMask    *uint32
	CommandBufferCount   uint32
	PCommandBuffers      *uintptr
	SignalSemaphoreCount uint32
	PSignalSemaphores    *uint64
}
