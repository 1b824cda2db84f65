package nvml_test

import (
	"errors"
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// migFake is a GPU with one GPU instance, whose functions know structs up to a version.
type migFake struct {
	base
	version int
	byID    bool
}

func (f *migFake) DeviceGetGpuInstanceProfileInfoV(d raw.Device, profile uint32,
	info *raw.GpuInstanceProfileInfoV2) raw.Return {
	switch {
	case profile != raw.NVML_GPU_INSTANCE_PROFILE_3_SLICE && profile != raw.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX:
		return raw.NVML_ERROR_NOT_SUPPORTED
	case info.Version == raw.GpuInstanceProfileInfoV2Version && f.version >= 2:
		*info = raw.GpuInstanceProfileInfoV2{Id: profile + 100, SliceCount: 3, InstanceCount: 2, MultiprocessorCount: 60,
			CopyEngineCount: 4, DecoderCount: 5, EncoderCount: 6, JpegCount: 7, OfaCount: 8, MemorySizeMB: 71 << 10}
		fill(info.Name[:], "MIG 3g.71gb")
		return raw.NVML_SUCCESS
	}
	return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
}

func (f *migFake) DeviceGetGpuInstanceProfileInfoByIdV(d raw.Device, id uint32,
	info *raw.GpuInstanceProfileInfoV2) raw.Return {
	if !f.byID {
		return raw.Unimplemented{}.DeviceGetGpuInstanceProfileInfoByIdV(d, id, info)
	}
	return f.DeviceGetGpuInstanceProfileInfoV(d, id-100, info)
}

func (f *migFake) DeviceGetGpuInstanceProfileInfo(d raw.Device, profile uint32,
	info *raw.GpuInstanceProfileInfo) raw.Return {
	*info = raw.GpuInstanceProfileInfo{Id: 19, SliceCount: 1, InstanceCount: 7, MemorySizeMB: 2, IsP2pSupported: 1,
		OfaCount: 3}
	return raw.NVML_SUCCESS
}

func (f *migFake) DeviceSetMigMode(d raw.Device, mode uint32, status *raw.Return) raw.Return {
	if mode == 1 {
		*status = raw.NVML_ERROR_IN_USE
	}
	return raw.NVML_SUCCESS
}

func (f *migFake) DeviceGetGpuInstancePossiblePlacements(d raw.Device, profile uint32,
	places []raw.GpuInstancePlacement,
	n *uint32) raw.Return {
	*n = uint32(copy(places, []raw.GpuInstancePlacement{{Start: 0, Size: 4}, {Start: 4, Size: 4}}))
	if places == nil {
		*n = 1 // there is one more the second time
	}
	return raw.NVML_SUCCESS
}

func (f *migFake) DeviceCreateGpuInstance(d raw.Device, profile uint32, g *raw.GpuInstance) raw.Return {
	*g = raw.GpuInstance(profile)
	return raw.NVML_SUCCESS
}

func (f *migFake) DeviceCreateGpuInstanceWithPlacement(d raw.Device, profile uint32, p *raw.GpuInstancePlacement,
	g *raw.GpuInstance) raw.Return {
	*g = raw.GpuInstance(p.Start<<8 | p.Size)
	return raw.NVML_SUCCESS
}

func (f *migFake) DeviceGetGpuInstances(d raw.Device, profile uint32, list []raw.GpuInstance, n *uint32) raw.Return {
	*n = uint32(copy(list, []raw.GpuInstance{20, 21}))
	return raw.NVML_SUCCESS
}

func (f *migFake) DeviceGetGpuInstanceById(d raw.Device, id uint32, g *raw.GpuInstance) raw.Return {
	*g = raw.GpuInstance(id + 18)
	return raw.NVML_SUCCESS
}

func (f *migFake) GpuInstanceGetInfo(g raw.GpuInstance, i *raw.GpuInstanceInfo) raw.Return {
	if g == 21 {
		return raw.NVML_ERROR_NO_PERMISSION
	}
	*i = raw.GpuInstanceInfo{Device: 0x1000, Id: 2, ProfileId: 9, Placement: raw.GpuInstancePlacement{Start: 4, Size: 4}}
	return raw.NVML_SUCCESS
}

func TestGPUInstanceProfile(t *testing.T) {
	d := device(t, &migFake{version: 2, byID: true})
	want := nvml.GPUInstanceProfile{Kind: nvml.GPUInstance3Slice, ID: 102, Name: "MIG 3g.71gb", MaxInstances: 2, Slices: 3,
		Multiprocessors: 60, CopyEngines: 4, Decoders: 5, Encoders: 6, JPEGDecoders: 7, OpticalFlowEngines: 8,
		Memory: 71 << 30}
	equal(t, "the profile", want)(d.GPUInstanceProfile(nvml.GPUInstance3Slice))
	all := must(d.GPUInstanceProfiles())(t)
	if len(all) != 2 || all[0] != want || all[1].Kind != nvml.GPUInstance1SliceGFX {
		t.Errorf("the profiles are %+v", all)
	}
	want.Kind = 0
	equal(t, "the profile by ID", want)(d.GPUInstanceProfileByID(102))
	_, err := d.GPUInstanceProfile(nvml.GPUInstance8Slice)
	fails(t, "another profile", err, errors.ErrUnsupported)

	d, want.Kind = device(t, &migFake{version: 2}), nvml.GPUInstance3Slice
	equal(t, "the profile without a function for the ID", want)(d.GPUInstanceProfileByID(102))
	_, err = d.GPUInstanceProfileByID(7)
	fails(t, "another ID", err, errors.ErrUnsupported)

	want = nvml.GPUInstanceProfile{Kind: nvml.GPUInstance3Slice, ID: 19, MaxInstances: 7, Slices: 1, Memory: 2 << 20,
		P2P:                true,
		OpticalFlowEngines: 3}
	equal(t, "the first version", want)(device(t, &migFake{version: 1}).GPUInstanceProfile(nvml.GPUInstance3Slice))

	_, err = device(t, base{}).GPUInstanceProfiles()
	fails(t, "no profiles", err, errors.ErrUnsupported)
}

func TestSetMIGMode(t *testing.T) {
	d := device(t, &migFake{})
	pending, err := d.SetMIGMode(true)
	if err != nil {
		t.Error(err)
	}
	fails(t, "the mode", pending, nvml.ErrInUse)
	if pending, err := d.SetMIGMode(false); pending != nil || err != nil {
		t.Errorf("%v, %v", pending, err)
	}
}

func TestGPUInstances(t *testing.T) {
	d := device(t, &migFake{})
	equal(t, "the placements", []nvml.MIGPlacement{{0, 4}, {4, 4}})(d.GPUInstancePlacements(9))
	g := must(d.CreateGPUInstance(20))(t)
	if g.Handle() != 20 || g.String() != "device 0, GPU instance 2" {
		t.Errorf("%v has the handle %d", g, g.Handle())
	}
	i := must(g.Info())(t)
	if i.Device.Handle() != 0x1000 || i.ID != 2 || i.Profile != 9 || i.Placement.Start != 4 || i.Placement.Size != 4 {
		t.Errorf("the info is %+v", i)
	}
	if g := must(d.CreateGPUInstanceAt(9, nvml.MIGPlacement{Start: 4, Size: 2}))(t); g.Handle() != 0x402 {
		t.Errorf("the place is %#x", g.Handle())
	}
	_, err := d.CreateGPUInstanceAt(9, nvml.MIGPlacement{Start: -1, Size: 2})
	fails(t, "a place", err, nvml.ErrInvalidArgument)
	all := must(d.GPUInstances(9))(t)
	if len(all) != 2 || all[0].String() != g.String() || all[1].String() != "device 0, GPU instance" {
		t.Errorf("the instances are %v", all)
	}
	if g := must(d.GPUInstance(2))(t); g.Handle() != 20 || g.String() != "device 0, GPU instance 2" {
		t.Errorf("%v has the handle %d", g, g.Handle())
	}
	_, err = d.GPUInstance(-1)
	fails(t, "a number", err, nvml.ErrInvalidArgument)
}

// lostFake is a GPU that is lost. It counts how often it is asked what an instance is.
type lostFake struct {
	computeFake
	infos int
}

func (f *lostFake) DeviceGetGpuInstances(d raw.Device, profile uint32, list []raw.GpuInstance, n *uint32) raw.Return {
	return raw.NVML_ERROR_GPU_IS_LOST
}

func (f *lostFake) GpuInstanceGetComputeInstances(g raw.GpuInstance, profile uint32, list []raw.ComputeInstance,
	n *uint32) raw.Return {
	return raw.NVML_ERROR_GPU_IS_LOST
}

func (f *lostFake) GpuInstanceGetInfo(g raw.GpuInstance, i *raw.GpuInstanceInfo) raw.Return {
	f.infos++
	return raw.NVML_SUCCESS
}

func (f *lostFake) ComputeInstanceGetInfo(c raw.ComputeInstance, i *raw.ComputeInstanceInfo) raw.Return {
	f.infos++
	return raw.NVML_SUCCESS
}

// TestInstancesOfLostGPU checks that nothing is asked about instances that the library has not returned.
func TestInstancesOfLostGPU(t *testing.T) {
	f := &lostFake{}
	d := device(t, f)
	g := must(d.CreateGPUInstance(20))(t)
	f.infos = 0
	_, err := d.GPUInstances(9)
	fails(t, "the GPU instances", err, nvml.ErrGPULost)
	_, err = g.ComputeInstances(9)
	fails(t, "the compute instances", err, nvml.ErrGPULost)
	if f.infos != 0 {
		t.Errorf("the library was asked for %d instances", f.infos)
	}
}
