//go:build linux && !cu_static

package main

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/ebitengine/purego"
)

// A result is a VkResult. The negative ones are errors.
type result int32

// Error returns the number.
func (r result) Error() string { return fmt.Sprint("VkResult ", int32(r)) }

// failed returns the error of a function, or nil.
func failed(function string, r result) error {
	if r >= 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", function, r)
}

// An allocator is a VkAllocationCallbacks: always nil, which is Vulkan's own.
type allocator *struct{}

// These functions have their names in Vulkan without the vk. The handles of instances, devices,
// queues and command buffers are addresses, and the others numbers of 64 bits.
type (
	loaderFunctions struct {
		CreateInstance func(info *instanceCreateInfo, a allocator, instance *uintptr) result
	}

	instanceFunctions struct {
		DestroyInstance                   func(instance uintptr, a allocator)
		EnumeratePhysicalDevices          func(instance uintptr, count *uint32, devices []uintptr) result
		GetPhysicalDeviceProperties2      func(physical uintptr, p *physicalDeviceProperties2)
		GetPhysicalDeviceMemoryProperties func(physical uintptr, p *physicalDeviceMemoryProperties)
		CreateDevice                      func(physical uintptr, i *deviceCreateInfo, a allocator, d *uintptr) result
		GetDeviceProcAddr                 func(device uintptr, name string) uintptr
	}

	deviceFunctions struct {
		DestroyDevice  func(device uintptr, a allocator)
		DeviceWaitIdle func(device uintptr) result
		GetDeviceQueue func(device uintptr, family, index uint32, queue *uintptr)
		QueueSubmit    func(queue uintptr, count uint32, info *submitInfo, fence uint64) result

		CreateBuffer                func(device uintptr, info *bufferCreateInfo, a allocator, buffer *uint64) result
		DestroyBuffer               func(device uintptr, buffer uint64, a allocator)
		GetBufferMemoryRequirements func(device uintptr, buffer uint64, r *memoryRequirements)
		AllocateMemory              func(device uintptr, info *memoryAllocateInfo, a allocator, memory *uint64) result
		FreeMemory                  func(device uintptr, memory uint64, a allocator)
		BindBufferMemory            func(device uintptr, buffer, memory, offset uint64) result

		CreateSemaphore  func(device uintptr, info *semaphoreCreateInfo, a allocator, semaphore *uint64) result
		DestroySemaphore func(device uintptr, semaphore uint64, a allocator)

		CreateCommandPool      func(device uintptr, info *commandPoolCreateInfo, a allocator, pool *uint64) result
		DestroyCommandPool     func(device uintptr, pool uint64, a allocator) // and its command buffers
		AllocateCommandBuffers func(device uintptr, info *commandBufferAllocateInfo, commands *uintptr) result
		BeginCommandBuffer     func(commands uintptr, info *commandBufferBeginInfo) result
		EndCommandBuffer       func(commands uintptr) result
		CmdCopyBuffer          func(commands uintptr, src, dst uint64, count uint32, regions *bufferCopy)
		CmdPipelineBarrier     func(commands uintptr, src, dst, flags, memories uint32, _ uintptr, buffers uint32,
			_ *bufferMemoryBarrier, images uint32, _ uintptr)
	}

	memoryFdFunctions struct { // VK_KHR_external_memory_fd
		GetMemoryFdKHR func(device uintptr, info *memoryGetFdInfoKHR, fd *int32) result
	}

	semaphoreFdFunctions struct { // VK_KHR_external_semaphore_fd
		GetSemaphoreFdKHR func(device uintptr, info *semaphoreGetFdInfoKHR, fd *int32) result
	}
)

// bind makes each function of a struct call the C function that find returns for its name.
func bind(functions any, find func(name string) uintptr) (err error) {
	v := reflect.ValueOf(functions).Elem()
	for i := range v.NumField() {
		name := "vk" + v.Type().Field(i).Name
		if addr := find(name); addr != 0 {
			purego.RegisterFunc(v.Field(i).Addr().Interface(), addr)
		} else {
			err = errors.Join(err, fmt.Errorf("there is no function %s", name))
		}
	}
	return err
}

// loadVulkan loads Vulkan's loader, and returns its function that finds all others.
func loadVulkan() (find func(instance uintptr, name string) uintptr, err error) {
	lib, err := purego.Dlopen("libvulkan.so.1", purego.RTLD_NOW)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; install Vulkan's loader, on Debian and Ubuntu the package libvulkan1",
			errNoVulkan, err)
	}
	addr, err := purego.Dlsym(lib, "vkGetInstanceProcAddr")
	if err != nil {
		return nil, err
	}
	purego.RegisterFunc(&find, addr)
	return find, nil
}
