package nvml_test

import (
	"strings"
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// typeFake is a GPU with types of virtual GPUs.
type typeFake struct {
	migFake
	older bool // knows the older list of placements only
}

func (f *typeFake) DeviceGetSupportedVgpus(d raw.Device, n *uint32, list []raw.VgpuTypeId) raw.Return {
	return fillList(n, list, 470, 471)
}

func (f *typeFake) DeviceGetCreatableVgpus(d raw.Device, n *uint32, list []raw.VgpuTypeId) raw.Return {
	*n = 0
	return raw.NVML_SUCCESS
}

func (f *typeFake) GpuInstanceGetCreatableVgpus(g raw.GpuInstance, i *raw.VgpuTypeIdInfo) raw.Return {
	if i.VgpuCount == 0 {
		i.VgpuCount = 1
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	i.VgpuCount, *i.VgpuTypeIds = 1, 472
	return raw.NVML_SUCCESS
}

func (f *typeFake) VgpuTypeGetName(id raw.VgpuTypeId, b []byte, n *uint32) raw.Return {
	if *n < 101 {
		*n = 101
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	return fill(b, strings.Repeat("n", 100))
}

func (f *typeFake) VgpuTypeGetClass(id raw.VgpuTypeId, b []byte, n *uint32) raw.Return {
	return fill(b, "Compute")
}

func (f *typeFake) VgpuTypeGetGpuInstanceProfileId(id raw.VgpuTypeId, profile *uint32) raw.Return {
	if *profile = 9; id == 471 {
		*profile = raw.INVALID_GPU_INSTANCE_PROFILE_ID
	}
	return raw.NVML_SUCCESS
}

func (f *typeFake) VgpuTypeGetMaxInstancesPerGpuInstance(m *raw.VgpuTypeMaxInstance) raw.Return {
	m.MaxInstancePerGI = uint32(m.VgpuTypeId) / 100
	return raw.NVML_SUCCESS
}

func (f *typeFake) VgpuTypeGetMaxInstances(d raw.Device, id raw.VgpuTypeId, n *uint32) raw.Return {
	*n = uint32(id) / 10
	return raw.NVML_SUCCESS
}

func (f *typeFake) VgpuTypeGetBAR1Info(id raw.VgpuTypeId, i *raw.VgpuTypeBar1Info) raw.Return {
	i.Bar1Size = 256
	return raw.NVML_SUCCESS
}

func (f *typeFake) VgpuTypeGetResolution(id raw.VgpuTypeId, display uint32, x, y *uint32) raw.Return {
	*x, *y = 1920, 1080+display
	return raw.NVML_SUCCESS
}

func (f *typeFake) DeviceGetVgpuTypeSupportedPlacements(d raw.Device, id raw.VgpuTypeId,
	p *raw.VgpuPlacementList) raw.Return {
	if f.older && p.Version != raw.VgpuPlacementListV1Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	if p.Count < 60 {
		p.Count = 60
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	p.Count, p.PlacementSize, *p.PlacementIds = 2, 4+p.Mode, 6
	return raw.NVML_SUCCESS
}

func (f *typeFake) DeviceGetVgpuTypeCreatablePlacements(d raw.Device, id raw.VgpuTypeId,
	p *raw.VgpuPlacementList) raw.Return {
	p.Count, p.PlacementSize, *p.PlacementIds = 1, 4, 5
	return raw.NVML_SUCCESS
}

func (f *typeFake) GpuInstanceGetVgpuTypeCreatablePlacements(g raw.GpuInstance,
	p *raw.VgpuCreatablePlacementInfo) raw.Return {
	if p.Count < 20 {
		p.Count = 20
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	p.Count, p.PlacementSize, *p.PlacementIds = 1, 4, uint32(p.VgpuTypeId)
	return raw.NVML_SUCCESS
}

func TestVGPUType(t *testing.T) {
	f := &typeFake{}
	d := device(t, f)
	all := must(d.SupportedVGPUTypes())(t)
	if len(all) != 2 || all[0].Handle() != 470 || all[1].String() != "vGPU type 471" {
		t.Fatalf("the types are %v", all)
	}
	if all := must(d.CreatableVGPUTypes())(t); len(all) != 0 {
		t.Errorf("the types are %v", all)
	}
	g := must(d.GPUInstance(2))(t)
	if all := must(g.CreatableVGPUTypes())(t); len(all) != 1 || all[0].Handle() != 472 {
		t.Errorf("the types are %v", all)
	}
	v := all[0]
	equal(t, "the name", strings.Repeat("n", 100))(v.Name())
	equal(t, "the class", "Compute")(v.Class())
	if id, ok, err := v.GPUInstanceProfile(); id != 9 || !ok || err != nil {
		t.Errorf("the profile is %d, %v (%v)", id, ok, err)
	}
	if _, ok, err := all[1].GPUInstanceProfile(); ok || err != nil {
		t.Errorf("there is a profile, or %v", err)
	}
	equal(t, "the number in a GPU instance", 4)(v.MaxPerGPUInstance())
	equal(t, "the number on the GPU", 47)(d.MaxVGPUs(v))
	equal(t, "the BAR1", uint64(256<<20))(v.BAR1())
	if x, y, err := v.Resolution(1); x != 1920 || y != 1081 || err != nil {
		t.Errorf("%d, %d (%v)", x, y, err)
	}
	if v := open(t, f).VGPUType(3); v.Handle() != 3 {
		t.Errorf("%v", v)
	}
}

func TestVGPUPlacements(t *testing.T) {
	for _, f := range []*typeFake{{}, {older: true}} {
		d := device(t, f)
		v := must(d.SupportedVGPUTypes())(t)[0]
		equal(t, "the places", nvml.VGPUPlacements{Size: 4, IDs: []int{6, 0}})(d.SupportedVGPUPlacements(v, false))
		if f.older {
			_, err := d.SupportedVGPUPlacements(v, true)
			fails(t, "places of one size", err, raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
		} else {
			equal(t, "places of one size", nvml.VGPUPlacements{Size: 5, IDs: []int{6, 0}})(d.SupportedVGPUPlacements(v, true))
		}
		equal(t, "free places", nvml.VGPUPlacements{Size: 4, IDs: []int{5}})(d.CreatableVGPUPlacements(v))
		g := must(d.GPUInstance(2))(t)
		equal(t, "free places in an instance", nvml.VGPUPlacements{Size: 4, IDs: []int{470}})(g.CreatableVGPUPlacements(v))
		_, err := d.CreatableVGPUPlacements(nil)
		fails(t, "no type", err, nvml.ErrNil)
		_, err = g.CreatableVGPUPlacements(nil)
		fails(t, "no type", err, nvml.ErrNil)
	}
}
