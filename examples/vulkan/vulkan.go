//go:build linux && !cu_static

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// errNoVulkan is wrapped by errors that say that Vulkan, or its driver for the GPU, is not
// installed.
var errNoVulkan = errors.New("there is no Vulkan for the GPU")

const installDriver = "; install NVIDIA's driver for Vulkan (a container has it if NVIDIA_DRIVER_CAPABILITIES " +
	"contains graphics), or set VK_DRIVER_FILES to the path of its nvidia_icd.json"

// The extensions that make file descriptors of memory and of semaphores.
const (
	memoryFd    = "VK_KHR_external_memory_fd"
	semaphoreFd = "VK_KHR_external_semaphore_fd"
)

const queueFamily = 0 // NVIDIA's first family of queues executes all commands

// A vulkan is an instance of Vulkan with one device and one queue. A method that fails leaves
// behind what it has created, because the program ends then.
type vulkan struct {
	find func(instance uintptr, name string) uintptr
	loaderFunctions
	instanceFunctions
	deviceFunctions
	memoryFdFunctions
	semaphoreFdFunctions

	instance, physical, device, queue uintptr
	pool                              uint64 // of command buffers
}

// openVulkan opens the device with this UUID.
func openVulkan(uuid [16]byte) (*vulkan, error) {
	v, err := openInstance()
	if err != nil {
		return nil, err
	}
	devices, err := v.physicalDevices()
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		if d.uuid == uuid {
			return v, v.openDevice(d.handle, memoryFd, semaphoreFd)
		}
	}
	return nil, fmt.Errorf("%w: no device of Vulkan has CUDA's UUID %x%s", errNoVulkan, uuid, installDriver)
}

// openInstance loads Vulkan, and creates an instance.
func openInstance() (*vulkan, error) {
	find, err := loadVulkan()
	if err != nil {
		return nil, err
	}
	v := &vulkan{find: find}
	if err := bind(&v.loaderFunctions, v.ofInstance); err != nil {
		return nil, err
	}
	r := v.CreateInstance(&instanceCreateInfo{
		SType:            typeInstanceCreateInfo,
		PApplicationInfo: &applicationInfo{SType: typeApplicationInfo, APIVersion: apiVersion12},
	}, nil, &v.instance)
	if r == errorIncompatibleDriver {
		return nil, fmt.Errorf("%w: Vulkan has no driver%s", errNoVulkan, installDriver)
	}
	if err := failed("vkCreateInstance", r); err != nil {
		return nil, err
	}
	return v, bind(&v.instanceFunctions, v.ofInstance)
}

func (v *vulkan) ofInstance(name string) uintptr { return v.find(v.instance, name) }
func (v *vulkan) ofDevice(name string) uintptr   { return v.GetDeviceProcAddr(v.device, name) }

// A physicalDevice is a device that can be opened.
type physicalDevice struct {
	handle uintptr
	name   string
	uuid   [16]byte // the same as CUDA's
}

func (v *vulkan) physicalDevices() ([]physicalDevice, error) {
	handles := make([]uintptr, 64)
	n := uint32(len(handles))
	if err := failed("vkEnumeratePhysicalDevices", v.EnumeratePhysicalDevices(v.instance, &n, handles)); err != nil {
		return nil, err
	}
	var list []physicalDevice
	for _, h := range handles[:n] {
		ids := physicalDeviceIDProperties{SType: typePhysicalDeviceIDProperties}
		p := physicalDeviceProperties2{SType: typePhysicalDeviceProperties2, PNext: &ids}
		v.GetPhysicalDeviceProperties2(h, &p)
		name, _, _ := bytes.Cut(p.DeviceName[:], []byte{0})
		list = append(list, physicalDevice{h, string(name), ids.DeviceUUID})
	}
	return list, nil
}

// openDevice creates a device with timeline semaphores and extensions, and a pool of command
// buffers.
func (v *vulkan) openDevice(physical uintptr, extensions ...string) error {
	v.physical = physical
	names := make([]*byte, len(extensions))
	for i, e := range extensions {
		names[i] = &append([]byte(e), 0)[0]
	}
	priority := float32(1)
	err := failed("vkCreateDevice", v.CreateDevice(physical, &deviceCreateInfo{
		SType: typeDeviceCreateInfo,
		PNext: &physicalDeviceTimelineSemaphoreFeatures{
			SType: typePhysicalDeviceTimelineSemaphore, TimelineSemaphore: 1,
		},
		QueueCreateInfoCount: 1,
		PQueueCreateInfos: &deviceQueueCreateInfo{
			SType: typeDeviceQueueCreateInfo, QueueFamilyIndex: queueFamily, QueueCount: 1, PQueuePriorities: &priority,
		},
		EnabledExtensionCount: uint32(len(names)), PpEnabledExtensionNames: &names[0],
	}, nil, &v.device))
	if err != nil {
		return err
	}
	err = bind(&v.deviceFunctions, v.ofDevice)
	for _, e := range extensions {
		switch e {
		case memoryFd:
			err = errors.Join(err, bind(&v.memoryFdFunctions, v.ofDevice))
		case semaphoreFd:
			err = errors.Join(err, bind(&v.semaphoreFdFunctions, v.ofDevice))
		}
	}
	if err != nil {
		return err
	}
	v.GetDeviceQueue(v.device, queueFamily, 0, &v.queue)
	return failed("vkCreateCommandPool", v.CreateCommandPool(v.device,
		&commandPoolCreateInfo{SType: typeCommandPoolCreateInfo, QueueFamilyIndex: queueFamily}, nil, &v.pool))
}

// close waits for the device, and destroys it. Buffers and semaphores must be closed before.
func (v *vulkan) close() error {
	err := failed("vkDeviceWaitIdle", v.DeviceWaitIdle(v.device))
	v.DestroyCommandPool(v.device, v.pool, nil)
	v.DestroyDevice(v.device, nil)
	v.DestroyInstance(v.instance, nil)
	return err
}

// A buffer has memory of its own, which other APIs can import.
type buffer struct {
	v            *vulkan
	handle       uint64
	memory, size uint64 // the memory, and its size
}

// newBuffer creates a buffer in memory with these properties.
func (v *vulkan) newBuffer(size uint64, properties uint32) (*buffer, error) {
	b := &buffer{v: v}
	err := failed("vkCreateBuffer", v.CreateBuffer(v.device, &bufferCreateInfo{
		SType: typeBufferCreateInfo,
		PNext: &externalMemoryBufferCreateInfo{SType: typeExternalMemoryBufferCreateInfo, HandleTypes: handleOpaqueFd},
		Size:  size, Usage: bufferUsageTransfer,
	}, nil, &b.handle))
	if err != nil {
		return nil, err
	}
	var needs memoryRequirements
	v.GetBufferMemoryRequirements(v.device, b.handle, &needs)
	memoryType, err := v.memoryType(needs.MemoryTypeBits, properties)
	if err != nil {
		return nil, err
	}
	b.size = needs.Size
	err = failed("vkAllocateMemory", v.AllocateMemory(v.device, &memoryAllocateInfo{
		SType:          typeMemoryAllocateInfo,
		PNext:          &exportMemoryAllocateInfo{SType: typeExportMemoryAllocateInfo, HandleTypes: handleOpaqueFd},
		AllocationSize: b.size, MemoryTypeIndex: memoryType,
	}, nil, &b.memory))
	if err != nil {
		return nil, err
	}
	return b, failed("vkBindBufferMemory", v.BindBufferMemory(v.device, b.handle, b.memory, 0))
}

// memoryType returns a type of memory, of those whose bits are set, that has the properties.
func (v *vulkan) memoryType(bits, properties uint32) (uint32, error) {
	var has physicalDeviceMemoryProperties
	v.GetPhysicalDeviceMemoryProperties(v.physical, &has)
	for i := range has.MemoryTypeCount {
		if bits>>i&1 != 0 && has.MemoryTypes[i].PropertyFlags&properties == properties {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no memory with the properties %#x can be shared", properties)
}

// file returns the memory as a file.
func (b *buffer) file() (*os.File, error) {
	var fd int32
	info := memoryGetFdInfoKHR{SType: typeMemoryGetFdInfoKHR, Memory: b.memory, HandleType: handleOpaqueFd}
	if err := failed("vkGetMemoryFdKHR", b.v.GetMemoryFdKHR(b.v.device, &info, &fd)); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "memory"), nil
}

func (b *buffer) close() {
	b.v.DestroyBuffer(b.v.device, b.handle, nil)
	b.v.FreeMemory(b.v.device, b.memory, nil)
}

// A semaphore is a semaphore of Vulkan.
type semaphore struct {
	v      *vulkan
	handle uint64
}

// newSemaphore creates a semaphore. Other APIs can import it by these types of handles.
func (v *vulkan) newSemaphore(semaphoreType, handles uint32) (*semaphore, error) {
	s := &semaphore{v: v}
	return s, failed("vkCreateSemaphore", v.CreateSemaphore(v.device, &semaphoreCreateInfo{
		SType: typeSemaphoreCreateInfo,
		PNext: &exportSemaphoreCreateInfo{
			SType: typeExportSemaphoreCreateInfo, HandleTypes: handles,
			PNext: &semaphoreTypeCreateInfo{SType: typeSemaphoreTypeCreateInfo, SemaphoreType: semaphoreType},
		},
	}, nil, &s.handle))
}

// file returns the semaphore as a file.
func (s *semaphore) file() (*os.File, error) {
	var fd int32
	info := semaphoreGetFdInfoKHR{SType: typeSemaphoreGetFdInfoKHR, Semaphore: s.handle, HandleType: handleOpaqueFd}
	if err := failed("vkGetSemaphoreFdKHR", s.v.GetSemaphoreFdKHR(s.v.device, &info, &fd)); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "semaphore"), nil
}

func (s *semaphore) close() { s.v.DestroySemaphore(s.v.device, s.handle, nil) }

// newCopy returns commands that copy within a buffer. They take it over from another API, and give
// it back.
func (v *vulkan) newCopy(b *buffer, region bufferCopy) (commands uintptr, err error) {
	err = failed("vkAllocateCommandBuffers", v.AllocateCommandBuffers(v.device,
		&commandBufferAllocateInfo{SType: typeCommandBufferAllocateInfo, CommandPool: v.pool, CommandBufferCount: 1},
		&commands))
	if err != nil {
		return 0, err
	}
	err = failed("vkBeginCommandBuffer", v.BeginCommandBuffer(commands,
		&commandBufferBeginInfo{SType: typeCommandBufferBeginInfo, Flags: commandBufferSimultaneousUse}))
	if err != nil {
		return 0, err
	}
	v.barrier(commands, &bufferMemoryBarrier{
		SType: typeBufferMemoryBarrier, Buffer: b.handle, Size: wholeSize, DstAccessMask: accessTransfer,
		SrcQueueFamilyIndex: queueFamilyExternal, DstQueueFamilyIndex: queueFamily,
	})
	v.CmdCopyBuffer(commands, b.handle, b.handle, 1, &region)
	v.barrier(commands, &bufferMemoryBarrier{
		SType: typeBufferMemoryBarrier, Buffer: b.handle, Size: wholeSize, SrcAccessMask: accessTransfer,
		SrcQueueFamilyIndex: queueFamily, DstQueueFamilyIndex: queueFamilyExternal,
	})
	return commands, failed("vkEndCommandBuffer", v.EndCommandBuffer(commands))
}

func (v *vulkan) barrier(commands uintptr, b *bufferMemoryBarrier) {
	v.CmdPipelineBarrier(commands, stageTransfer, stageTransfer, 0, 0, 0, 1, b, 0, 0)
}

// submit makes the queue wait until a timeline semaphore has a value, execute commands, and give it
// another value.
func (v *vulkan) submit(commands uintptr, s *semaphore, wait, signal uint64) error {
	stage := uint32(stageTransfer)
	return failed("vkQueueSubmit", v.QueueSubmit(v.queue, 1, &submitInfo{
		SType: typeSubmitInfo,
		PNext: &timelineSemaphoreSubmitInfo{
			SType:                   typeTimelineSemaphoreSubmitInfo,
			WaitSemaphoreValueCount: 1, PWaitSemaphoreValues: &wait,
			SignalSemaphoreValueCount: 1, PSignalSemaphoreValues: &signal,
		},
		WaitSemaphoreCount: 1, PWaitSemaphores: &s.handle, PWaitDstStageMask: &stage,
		CommandBufferCount: 1, PCommandBuffers: &commands,
		SignalSemaphoreCount: 1, PSignalSemaphores: &s.handle,
	}, 0))
}
