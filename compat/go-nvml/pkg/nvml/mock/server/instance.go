package server

import (
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
)

// GpuInstance is a GPU instance.
type GpuInstance struct {
	mock.GpuInstance
	sync.RWMutex
	Info                   nvml.GpuInstanceInfo
	ComputeInstances       map[*ComputeInstance]struct{}
	ComputeInstanceCounter uint32
	MIGProfiles            gpus.MIGProfileConfig
}

// NewGpuInstanceFromInfo returns a GPU instance.
func NewGpuInstanceFromInfo(info nvml.GpuInstanceInfo, profiles gpus.MIGProfileConfig) *GpuInstance {
	g := &GpuInstance{Info: info, ComputeInstances: map[*ComputeInstance]struct{}{}, MIGProfiles: profiles}
	g.SetMockFuncs()
	return g
}

// SetMockFuncs sets the functions of the instance's methods.
func (gi *GpuInstance) SetMockFuncs() {
	gi.GetInfoFunc = func() (nvml.GpuInstanceInfo, nvml.Return) { return gi.Info, nvml.SUCCESS }
	gi.GetComputeInstanceProfileInfoFunc = gi.profile
	gi.GetComputeInstancePossiblePlacementsFunc = func(info *nvml.ComputeInstanceProfileInfo) (
		[]nvml.ComputeInstancePlacement, nvml.Return) {
		placements, ok := gi.MIGProfiles.ComputeInstancePlacements[int(gi.Info.ProfileId)]
		if !ok {
			return nil, nvml.ERROR_NOT_SUPPORTED
		}
		return placements[int(info.Id)], nvml.SUCCESS
	}
	gi.CreateComputeInstanceFunc = func(info *nvml.ComputeInstanceProfileInfo) (nvml.ComputeInstance, nvml.Return) {
		gi.Lock()
		defer gi.Unlock()
		c := NewComputeInstanceFromInfo(nvml.ComputeInstanceInfo{Device: gi.Info.Device, GpuInstance: gi,
			Id: gi.ComputeInstanceCounter, ProfileId: info.Id})
		gi.ComputeInstanceCounter++
		gi.ComputeInstances[c] = struct{}{}
		return c, nvml.SUCCESS
	}
	gi.GetComputeInstancesFunc = func(info *nvml.ComputeInstanceProfileInfo) ([]nvml.ComputeInstance, nvml.Return) {
		gi.RLock()
		defer gi.RUnlock()
		var list []nvml.ComputeInstance
		for c := range gi.ComputeInstances {
			if c.Info.ProfileId == info.Id {
				list = append(list, c)
			}
		}
		return list, nvml.SUCCESS
	}
	gi.DestroyFunc = func() nvml.Return {
		d := gi.Info.Device.(*Device)
		d.Lock()
		defer d.Unlock()
		delete(d.GpuInstances, gi)
		return nvml.SUCCESS
	}
}

// profile returns a profile of compute instances, which share the engines.
func (gi *GpuInstance) profile(id, engines int) (nvml.ComputeInstanceProfileInfo, nvml.Return) {
	switch {
	case id < 0 || id >= nvml.COMPUTE_INSTANCE_PROFILE_COUNT:
		return nvml.ComputeInstanceProfileInfo{}, nvml.ERROR_INVALID_ARGUMENT
	case engines != nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED:
		return nvml.ComputeInstanceProfileInfo{}, nvml.ERROR_NOT_SUPPORTED
	}
	info, ok := gi.MIGProfiles.ComputeInstanceProfiles[int(gi.Info.ProfileId)][id]
	if !ok {
		return info, nvml.ERROR_NOT_SUPPORTED
	}
	return info, nvml.SUCCESS
}

// ComputeInstance is a compute instance.
type ComputeInstance struct {
	mock.ComputeInstance
	Info nvml.ComputeInstanceInfo
}

// NewComputeInstanceFromInfo returns a compute instance.
func NewComputeInstanceFromInfo(info nvml.ComputeInstanceInfo) *ComputeInstance {
	c := &ComputeInstance{Info: info}
	c.SetMockFuncs()
	return c
}

// SetMockFuncs sets the functions of the instance's methods.
func (ci *ComputeInstance) SetMockFuncs() {
	ci.GetInfoFunc = func() (nvml.ComputeInstanceInfo, nvml.Return) { return ci.Info, nvml.SUCCESS }
	ci.DestroyFunc = func() nvml.Return {
		g := ci.Info.GpuInstance.(*GpuInstance)
		g.Lock()
		defer g.Unlock()
		delete(g.ComputeInstances, ci)
		return nvml.SUCCESS
	}
}
