package simnvml

import (
	"slices"

	"github.com/purecu/purecu/nvml/raw"
)

// about makes a call about an object that is there, with the state locked. The answers know the result if it is not.
func about[H, T any](n *model, find func(H) *T, method string, h H, f func(v *T, all []GPU) raw.Return,
	args ...any) raw.Return {
	args = append([]any{h}, args...)
	all := n.machine.GPUs()
	n.mu.Lock()
	v := find(h)
	if v == nil {
		n.mu.Unlock()
		return n.answer(method, args...)
	}
	defer n.mu.Unlock()
	return f(v, all)
}

// output sets what a pointer leads to, unless it is NULL.
func output[T any](p *T, v T) raw.Return {
	if p == nil {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	*p = v
	return raw.NVML_SUCCESS
}

// outputs sets a list and its length. The caller of C says the length of no list.
func outputs[T any](list []T, count *uint32, all []T) raw.Return {
	copy(list, all)
	return output(count, uint32(len(all)))
}

// chosen returns the handle of the object that has a property.
func chosen[T, H any](list []T, has func(T) bool, handle func(T) H, to *H) raw.Return {
	i := slices.IndexFunc(list, has)
	switch {
	case to == nil:
		return raw.NVML_ERROR_INVALID_ARGUMENT
	case i < 0:
		return raw.NVML_ERROR_NOT_FOUND
	}
	return output(to, handle(list[i]))
}

func gpuHandle(i *gpuInstance) raw.GpuInstance             { return i.handle }
func computeHandle(c *computeInstance) raw.ComputeInstance { return c.handle }
func deviceHandle(c *computeInstance) raw.Device           { return c.device.handle }

// DeviceSetMigMode says whether a GPU is divided.
func (n *model) DeviceSetMigMode(device raw.Device, mode uint32, status *raw.Return) raw.Return {
	index, accounts := 0, false
	r := about(n, n.find, "DeviceSetMigMode", device, func(g *gpu, all []GPU) raw.Return {
		r := g.setMIG(mode, status, all[g.index])
		index, accounts = g.index, g.mig.on && all[g.index].Settings.Accounting()
		return r
	}, mode, status)
	if accounts { // a GPU in MIG mode keeps none
		if err := n.machine.Change(index, func(s *Settings) { s[accounting] = 0 }); err != nil {
			n.machine.Misuse("nvmlDeviceSetMigMode", err.Error())
		}
	}
	return r
}

// DeviceGetMigMode reports whether a GPU is divided, and will be.
func (n *model) DeviceGetMigMode(device raw.Device, current, pending *uint32) raw.Return {
	return about(n, n.find, "DeviceGetMigMode", device, func(g *gpu, _ []GPU) raw.Return {
		return max(output(current, bit(g.mig.on)), output(pending, bit(g.mig.pending)))
	}, current, pending)
}

// DeviceGetGpuInstanceRemainingCapacity returns how many more instances of a profile there may be.
func (n *model) DeviceGetGpuInstanceRemainingCapacity(device raw.Device, id uint32, count *uint32) raw.Return {
	r := n.answers.DeviceGetGpuInstanceRemainingCapacity(device, id, count)
	return n.then(r, device, func(g *gpu, _ GPU) {
		p, places, _ := g.gpuProfile(id)
		*count = uint32(len(g.mig.free(&p, places)))
	})
}

// DeviceCreateGpuInstance makes a GPU instance.
func (n *model) DeviceCreateGpuInstance(device raw.Device, id uint32, instance *raw.GpuInstance) raw.Return {
	return about(n, n.find, "DeviceCreateGpuInstance", device, func(g *gpu, _ []GPU) raw.Return {
		return n.createGPU(g, id, nil, instance)
	}, id, instance)
}

// DeviceCreateGpuInstanceWithPlacement makes a GPU instance at a place.
func (n *model) DeviceCreateGpuInstanceWithPlacement(device raw.Device, id uint32, at *raw.GpuInstancePlacement,
	instance *raw.GpuInstance) raw.Return {
	return about(n, n.find, "DeviceCreateGpuInstanceWithPlacement", device, func(g *gpu, _ []GPU) raw.Return {
		if at == nil {
			return raw.NVML_ERROR_INVALID_ARGUMENT
		}
		return n.createGPU(g, id, at, instance)
	}, id, at, instance)
}

// GpuInstanceDestroy removes a GPU instance.
func (n *model) GpuInstanceDestroy(instance raw.GpuInstance) raw.Return {
	return about(n, n.gpuInstance, "GpuInstanceDestroy", instance, func(i *gpuInstance, _ []GPU) raw.Return {
		return n.destroyGPU(i)
	})
}

// DeviceGetGpuInstances returns the GPU instances of a profile.
func (n *model) DeviceGetGpuInstances(device raw.Device, id uint32, instances []raw.GpuInstance,
	count *uint32) raw.Return {
	r := n.answers.DeviceGetGpuInstances(device, id, instances, count)
	return n.then(r, device, func(g *gpu, _ GPU) {
		if !g.mig.on {
			return
		}
		var list []raw.GpuInstance
		for _, i := range g.mig.instances {
			if i.profile.Id == id {
				list = append(list, i.handle)
			}
		}
		outputs(instances, count, list)
	})
}

// DeviceGetGpuInstanceById returns the GPU instance with a number.
func (n *model) DeviceGetGpuInstanceById(device raw.Device, id uint32, instance *raw.GpuInstance) raw.Return {
	return about(n, n.find, "DeviceGetGpuInstanceById", device, func(g *gpu, _ []GPU) raw.Return {
		return chosen(g.mig.instances, func(i *gpuInstance) bool { return i.id == id }, gpuHandle, instance)
	}, id, instance)
}

// GpuInstanceGetInfo returns where a GPU instance is.
func (n *model) GpuInstanceGetInfo(instance raw.GpuInstance, info *raw.GpuInstanceInfo) raw.Return {
	return about(n, n.gpuInstance, "GpuInstanceGetInfo", instance, func(i *gpuInstance, _ []GPU) raw.Return {
		return output(info, raw.GpuInstanceInfo{Device: i.gpu.handle, Id: i.id, ProfileId: i.profile.Id, Placement: i.at})
	}, info)
}

// GpuInstanceGetComputeInstanceProfileInfo returns what a compute instance of a kind has.
func (n *model) GpuInstanceGetComputeInstanceProfileInfo(instance raw.GpuInstance, kind, engines uint32,
	info *raw.ComputeInstanceProfileInfo) raw.Return {
	const method = "GpuInstanceGetComputeInstanceProfileInfo"
	return about(n, n.gpuInstance, method, instance, func(i *gpuInstance, _ []GPU) raw.Return {
		p, _, r := i.computeProfile(kind)
		if engines != raw.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED {
			r = raw.NVML_ERROR_INVALID_ARGUMENT
		}
		if r != raw.NVML_SUCCESS {
			return r
		}
		return output(info, raw.ComputeInstanceProfileInfo{Id: p.Id, SliceCount: p.SliceCount, InstanceCount: p.InstanceCount,
			MultiprocessorCount: p.MultiprocessorCount, SharedCopyEngineCount: p.SharedCopyEngineCount,
			SharedDecoderCount: p.SharedDecoderCount, SharedEncoderCount: p.SharedEncoderCount,
			SharedJpegCount: p.SharedJpegCount, SharedOfaCount: p.SharedOfaCount})
	}, kind, engines, info)
}

// GpuInstanceGetComputeInstanceProfileInfoV returns what a compute instance of a kind has, with its name.
func (n *model) GpuInstanceGetComputeInstanceProfileInfoV(instance raw.GpuInstance, kind, engines uint32,
	info *raw.ComputeInstanceProfileInfoV2) raw.Return {
	const method = "GpuInstanceGetComputeInstanceProfileInfoV"
	return about(n, n.gpuInstance, method, instance, func(i *gpuInstance, _ []GPU) raw.Return {
		p, _, r := i.computeProfile(kind)
		switch {
		case engines != raw.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, info == nil,
			info.Version != raw.ComputeInstanceProfileInfoV2Version && info.Version != raw.ComputeInstanceProfileInfoV3Version:
			return raw.NVML_ERROR_INVALID_ARGUMENT
		case r != raw.NVML_SUCCESS:
			return r
		}
		p.Version = info.Version
		return output(info, p)
	}, kind, engines, info)
}

// GpuInstanceGetComputeInstanceRemainingCapacity returns how many more instances of a profile there may be.
func (n *model) GpuInstanceGetComputeInstanceRemainingCapacity(instance raw.GpuInstance, id uint32,
	count *uint32) raw.Return {
	const method = "GpuInstanceGetComputeInstanceRemainingCapacity"
	return about(n, n.gpuInstance, method, instance, func(i *gpuInstance, _ []GPU) raw.Return {
		_, places, r := i.computeProfile(id)
		if r != raw.NVML_SUCCESS {
			return r
		}
		return output(count, uint32(len(i.free(places))))
	}, id, count)
}

// GpuInstanceGetComputeInstancePossiblePlacements returns where instances of a profile can be.
func (n *model) GpuInstanceGetComputeInstancePossiblePlacements(instance raw.GpuInstance, id uint32,
	places []raw.ComputeInstancePlacement, count *uint32) raw.Return {
	const method = "GpuInstanceGetComputeInstancePossiblePlacements"
	return about(n, n.gpuInstance, method, instance, func(i *gpuInstance, _ []GPU) raw.Return {
		_, all, r := i.computeProfile(id)
		if r != raw.NVML_SUCCESS {
			return r
		}
		return outputs(places, count, all)
	}, id, places, count)
}

// GpuInstanceCreateComputeInstance makes a compute instance.
func (n *model) GpuInstanceCreateComputeInstance(instance raw.GpuInstance, id uint32,
	compute *raw.ComputeInstance) raw.Return {
	return about(n, n.gpuInstance, "GpuInstanceCreateComputeInstance", instance, func(i *gpuInstance, _ []GPU) raw.Return {
		return n.createCompute(i, id, nil, compute)
	}, id, compute)
}

// GpuInstanceCreateComputeInstanceWithPlacement makes a compute instance at a place.
func (n *model) GpuInstanceCreateComputeInstanceWithPlacement(instance raw.GpuInstance, id uint32,
	at *raw.ComputeInstancePlacement, compute *raw.ComputeInstance) raw.Return {
	const method = "GpuInstanceCreateComputeInstanceWithPlacement"
	return about(n, n.gpuInstance, method, instance, func(i *gpuInstance, _ []GPU) raw.Return {
		if at == nil {
			return raw.NVML_ERROR_INVALID_ARGUMENT
		}
		return n.createCompute(i, id, at, compute)
	}, id, at, compute)
}

// ComputeInstanceDestroy removes a compute instance.
func (n *model) ComputeInstanceDestroy(compute raw.ComputeInstance) raw.Return {
	return about(n, n.computeInstance, "ComputeInstanceDestroy", compute, func(c *computeInstance, all []GPU) raw.Return {
		return n.destroyCompute(c, all[c.parent.gpu.index])
	})
}

// GpuInstanceGetComputeInstances returns the compute instances of a profile.
func (n *model) GpuInstanceGetComputeInstances(instance raw.GpuInstance, id uint32, compute []raw.ComputeInstance,
	count *uint32) raw.Return {
	return about(n, n.gpuInstance, "GpuInstanceGetComputeInstances", instance, func(i *gpuInstance, _ []GPU) raw.Return {
		if _, _, r := i.computeProfile(id); r != raw.NVML_SUCCESS || compute == nil {
			return max(r, raw.NVML_ERROR_INVALID_ARGUMENT)
		}
		var list []raw.ComputeInstance
		for _, c := range i.parts {
			if c.profile.Id == id {
				list = append(list, c.handle)
			}
		}
		return outputs(compute, count, list)
	}, id, compute, count)
}

// GpuInstanceGetComputeInstanceById returns the compute instance with a number.
func (n *model) GpuInstanceGetComputeInstanceById(instance raw.GpuInstance, id uint32,
	compute *raw.ComputeInstance) raw.Return {
	const method = "GpuInstanceGetComputeInstanceById"
	return about(n, n.gpuInstance, method, instance, func(i *gpuInstance, _ []GPU) raw.Return {
		return chosen(i.parts, func(c *computeInstance) bool { return c.id == id }, computeHandle, compute)
	}, id, compute)
}

// ComputeInstanceGetInfo returns where a compute instance is. The older function of C sets no placement.
func (n *model) ComputeInstanceGetInfo(compute raw.ComputeInstance, info *raw.ComputeInstanceInfo) raw.Return {
	return about(n, n.computeInstance, "ComputeInstanceGetInfo", compute, func(c *computeInstance, _ []GPU) raw.Return {
		v := c.info()
		v.Placement = raw.ComputeInstancePlacement{}
		return output(info, v)
	}, info)
}

// ComputeInstanceGetInfoV2 returns where a compute instance is.
func (n *model) ComputeInstanceGetInfoV2(compute raw.ComputeInstance, info *raw.ComputeInstanceInfo) raw.Return {
	return about(n, n.computeInstance, "ComputeInstanceGetInfoV2", compute, func(c *computeInstance, _ []GPU) raw.Return {
		return output(info, c.info())
	}, info)
}

func (c *computeInstance) info() raw.ComputeInstanceInfo {
	i := c.parent
	return raw.ComputeInstanceInfo{Device: i.gpu.handle, GpuInstance: i.handle, Id: c.id, ProfileId: c.profile.Id,
		Placement: c.at}
}

// DeviceGetMaxMigDeviceCount returns how many MIG devices a GPU can have.
func (n *model) DeviceGetMaxMigDeviceCount(device raw.Device, count *uint32) raw.Return {
	return about(n, n.find, "DeviceGetMaxMigDeviceCount", device, func(g *gpu, _ []GPU) raw.Return {
		return output(count, mostMIG*bit(g.mig.on))
	}, count)
}

// DeviceGetMigDeviceHandleByIndex returns the MIG device with a number.
func (n *model) DeviceGetMigDeviceHandleByIndex(device raw.Device, number uint32, to *raw.Device) raw.Return {
	return about(n, n.find, "DeviceGetMigDeviceHandleByIndex", device, func(g *gpu, _ []GPU) raw.Return {
		return chosen(g.devices(), func(c *computeInstance) bool { return c.number == number }, deviceHandle, to)
	}, number, to)
}

// DeviceIsMigDeviceHandle reports whether a device is a MIG device.
func (n *model) DeviceIsMigDeviceHandle(device raw.Device, is *uint32) raw.Return {
	return n.then(n.answers.DeviceIsMigDeviceHandle(device, is), device, func(g *gpu, _ GPU) { *is = bit(g.part != nil) })
}

// DeviceGetDeviceHandleFromMigDeviceHandle returns the GPU of a MIG device.
func (n *model) DeviceGetDeviceHandleFromMigDeviceHandle(device raw.Device, of *raw.Device) raw.Return {
	return n.then(n.answers.DeviceGetDeviceHandleFromMigDeviceHandle(device, of), device, func(g *gpu, _ GPU) {
		*of = g.part.parent.gpu.handle
	})
}

// DeviceGetGpuInstanceId returns the number of the GPU instance of a MIG device.
func (n *model) DeviceGetGpuInstanceId(device raw.Device, id *uint32) raw.Return {
	return n.then(n.answers.DeviceGetGpuInstanceId(device, id), device, func(g *gpu, _ GPU) { *id = g.part.parent.id })
}

// DeviceGetComputeInstanceId returns the number of the compute instance of a MIG device.
func (n *model) DeviceGetComputeInstanceId(device raw.Device, id *uint32) raw.Return {
	return n.then(n.answers.DeviceGetComputeInstanceId(device, id), device, func(g *gpu, _ GPU) { *id = g.part.id })
}

// DeviceGetAttributes returns what a MIG device has.
func (n *model) DeviceGetAttributes(device raw.Device, a *raw.DeviceAttributes) raw.Return {
	return n.setAttributes(n.answers.DeviceGetAttributes(device, a), device, a)
}

// DeviceGetAttributesV2 returns what a MIG device has.
func (n *model) DeviceGetAttributesV2(device raw.Device, a *raw.DeviceAttributes) raw.Return {
	return n.setAttributes(n.answers.DeviceGetAttributesV2(device, a), device, a)
}

func (n *model) setAttributes(r raw.Return, device raw.Device, a *raw.DeviceAttributes) raw.Return {
	return n.then(r, device, func(g *gpu, _ GPU) {
		p, of := &g.part.profile, &g.part.parent.profile
		*a = raw.DeviceAttributes{MultiprocessorCount: p.MultiprocessorCount, SharedCopyEngineCount: p.SharedCopyEngineCount,
			SharedDecoderCount: p.SharedDecoderCount, SharedEncoderCount: p.SharedEncoderCount,
			SharedJpegCount: p.SharedJpegCount, SharedOfaCount: p.SharedOfaCount, GpuInstanceSliceCount: of.SliceCount,
			ComputeInstanceSliceCount: p.SliceCount, MemorySizeMB: of.MemorySizeMB}
	})
}

// GpmMigSampleGet takes a sample of a GPU instance.
func (n *model) GpmMigSampleGet(device raw.Device, id uint32, sample raw.GpmSample) raw.Return {
	return about(n, n.find, "GpmMigSampleGet", device, func(g *gpu, all []GPU) raw.Return {
		s := n.samples[sample]
		k := slices.IndexFunc(g.mig.instances, func(i *gpuInstance) bool { return i.id == id })
		if s == nil || k < 0 {
			return raw.NVML_ERROR_INVALID_ARGUMENT
		}
		*s = gpmSample{g, g.mig.instances[k], n.machine.Clock().Now(), 0}
		if c := g.user(); c != nil && c.parent == s.instance {
			s.busy = all[g.index].Busy
		}
		return raw.NVML_SUCCESS
	}, id, sample)
}
