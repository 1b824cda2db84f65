package nvml_test

import (
	"errors"
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// computeFake is a GPU instance with compute instances, whose functions know structs up to a version.
type computeFake struct {
	migFake
	version int
}

func (f *computeFake) GpuInstanceGetComputeInstanceProfileInfoV(g raw.GpuInstance, profile, engines uint32,
	i *raw.ComputeInstanceProfileInfoV2) raw.Return {
	if profile != raw.NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE {
		return raw.NVML_ERROR_NOT_SUPPORTED
	}
	if i.Version != raw.ComputeInstanceProfileInfoV2Version || f.version < 2 {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	*i = raw.ComputeInstanceProfileInfoV2{Id: 1, SliceCount: 2, InstanceCount: 3, MultiprocessorCount: 4,
		SharedCopyEngineCount: 5, SharedDecoderCount: 6,
		SharedEncoderCount: 7, SharedJpegCount: 8, SharedOfaCount: 9}
	fill(i.Name[:], "MIG 2c.3g.71gb")
	return raw.NVML_SUCCESS
}

func (f *computeFake) GpuInstanceGetComputeInstanceProfileInfo(g raw.GpuInstance, profile, engines uint32,
	i *raw.ComputeInstanceProfileInfo) raw.Return {
	*i = raw.ComputeInstanceProfileInfo{Id: 1, SliceCount: 2, InstanceCount: 3, MultiprocessorCount: 4,
		SharedCopyEngineCount: 5, SharedDecoderCount: 6,
		SharedEncoderCount: 7, SharedJpegCount: 8, SharedOfaCount: 9}
	return raw.NVML_SUCCESS
}

func (f *computeFake) GpuInstanceGetComputeInstancePossiblePlacements(g raw.GpuInstance, profile uint32,
	places []raw.ComputeInstancePlacement, n *uint32) raw.Return {
	*n = 1
	copy(places, []raw.ComputeInstancePlacement{{Start: 1, Size: 2}})
	return raw.NVML_SUCCESS
}

func (f *computeFake) GpuInstanceCreateComputeInstance(g raw.GpuInstance, profile uint32,
	c *raw.ComputeInstance) raw.Return {
	*c = raw.ComputeInstance(g)<<8 | raw.ComputeInstance(profile)
	return raw.NVML_SUCCESS
}

func (f *computeFake) GpuInstanceCreateComputeInstanceWithPlacement(g raw.GpuInstance, profile uint32,
	p *raw.ComputeInstancePlacement, c *raw.ComputeInstance) raw.Return {
	*c = raw.ComputeInstance(p.Start)<<8 | raw.ComputeInstance(p.Size)
	return raw.NVML_SUCCESS
}

func (f *computeFake) GpuInstanceGetComputeInstances(g raw.GpuInstance, profile uint32, list []raw.ComputeInstance,
	n *uint32) raw.Return {
	*n = uint32(copy(list, []raw.ComputeInstance{30, 31}))
	return raw.NVML_SUCCESS
}

func (f *computeFake) GpuInstanceGetComputeInstanceById(g raw.GpuInstance, id uint32,
	c *raw.ComputeInstance) raw.Return {
	*c = raw.ComputeInstance(id)
	return raw.NVML_SUCCESS
}

func (f *computeFake) ComputeInstanceGetInfo(c raw.ComputeInstance, i *raw.ComputeInstanceInfo) raw.Return {
	*i = raw.ComputeInstanceInfo{Device: 0x1000, GpuInstance: 20, Id: 5, ProfileId: 1,
		Placement: raw.ComputeInstancePlacement{Start: 1, Size: 2}}
	return raw.NVML_SUCCESS
}

func TestComputeInstances(t *testing.T) {
	g := must(device(t, &computeFake{version: 2}).CreateGPUInstance(20))(t)
	want := nvml.ComputeInstanceProfile{Kind: nvml.ComputeInstance2Slice, ID: 1, Name: "MIG 2c.3g.71gb",
		MaxInstances: 3, Slices: 2,
		Multiprocessors: 4, CopyEngines: 5, Decoders: 6, Encoders: 7, JPEGDecoders: 8, OpticalFlowEngines: 9}
	equal(t, "the profile", want)(g.ComputeInstanceProfile(nvml.ComputeInstance2Slice))
	equal(t, "the profiles", []nvml.ComputeInstanceProfile{want})(g.ComputeInstanceProfiles())
	_, err := g.ComputeInstanceProfile(nvml.ComputeInstance8Slice)
	fails(t, "another profile", err, errors.ErrUnsupported)
	equal(t, "the placements", []nvml.MIGPlacement{{1, 2}})(g.ComputeInstancePlacements(1))

	c := must(g.CreateComputeInstance(1))(t)
	if c.Handle() != 20<<8|1 || c.String() != "device 0, GPU instance 2, compute instance 5" {
		t.Errorf("%v has the handle %#x", c, c.Handle())
	}
	i := must(c.Info())(t)
	if i.Device.Handle() != 0x1000 || i.GPUInstance.Handle() != 20 || i.ID != 5 || i.Profile != 1 ||
		i.Placement.Size != 2 {
		t.Errorf("the info is %+v", i)
	}
	if c := must(g.CreateComputeInstanceAt(1, nvml.MIGPlacement{Start: 1, Size: 2}))(t); c.Handle() != 0x102 {
		t.Errorf("the place is %#x", c.Handle())
	}
	_, err = g.CreateComputeInstanceAt(1, nvml.MIGPlacement{})
	fails(t, "a place", err, nvml.ErrInvalidArgument)
	if all := must(g.ComputeInstances(1))(t); len(all) != 2 || all[1].Handle() != 31 || all[1].String() != c.String() {
		t.Errorf("the instances are %v", all)
	}
	if c := must(g.ComputeInstance(3))(t); c.Handle() != 3 ||
		c.String() != "device 0, GPU instance 2, compute instance 3" {
		t.Errorf("%v has the handle %d", c, c.Handle())
	}
	_, err = g.ComputeInstance(-1)
	fails(t, "a number", err, nvml.ErrInvalidArgument)

	g = must(device(t, &computeFake{version: 1}).CreateGPUInstance(20))(t)
	want.Name = ""
	equal(t, "the first version", want)(g.ComputeInstanceProfile(nvml.ComputeInstance2Slice))
}
