package nvml_test

import (
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// vgpuFake is a GPU with two virtual GPUs.
type vgpuFake struct {
	migFake
	hetero uint32
	share  uint32
}

func (f *vgpuFake) DeviceGetActiveVgpus(d raw.Device, n *uint32, list []raw.VgpuInstance) raw.Return {
	return fillList(n, list, 7, 8)
}

func (f *vgpuFake) GpuInstanceGetActiveVgpus(g raw.GpuInstance, i *raw.ActiveVgpuInstanceInfo) raw.Return {
	if i.Version != raw.ActiveVgpuInstanceInfoV1Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	if i.VgpuCount == 0 {
		i.VgpuCount = 1
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	i.VgpuCount, *i.VgpuInstances = 1, 9
	return raw.NVML_SUCCESS
}

func (f *vgpuFake) VgpuInstanceGetType(v raw.VgpuInstance, id *raw.VgpuTypeId) raw.Return {
	*id = 470
	return raw.NVML_SUCCESS
}

func (f *vgpuFake) VgpuInstanceGetVmID(v raw.VgpuInstance, b []byte, kind *raw.VgpuVmIdType) raw.Return {
	*kind = raw.NVML_VGPU_VM_ID_UUID
	return fill(b, "c471c7f2")
}

func (f *vgpuFake) VgpuInstanceGetUUID(v raw.VgpuInstance, b []byte) raw.Return {
	return fill(b, "uuid")
}

func (f *vgpuFake) VgpuInstanceGetGpuPciId(v raw.VgpuInstance, b []byte, n *uint32) raw.Return {
	if v == 8 {
		return raw.NVML_ERROR_DRIVER_NOT_LOADED
	}
	return fill(b, "00000000:02:01.0")
}

func (f *vgpuFake) VgpuInstanceGetGpuInstanceId(v raw.VgpuInstance, id *uint32) raw.Return {
	if *id = 3; v == 8 {
		*id = raw.INVALID_GPU_INSTANCE_ID
	}
	return raw.NVML_SUCCESS
}

func (f *vgpuFake) VgpuInstanceGetPlacementId(v raw.VgpuInstance, p *raw.VgpuPlacementId) raw.Return {
	if p.PlacementId = 4; v == 8 {
		p.PlacementId = raw.NVML_INVALID_VGPU_PLACEMENT_ID
	}
	return raw.NVML_SUCCESS
}

func (f *vgpuFake) VgpuInstanceGetRuntimeStateSize(v raw.VgpuInstance, s *raw.VgpuRuntimeState) raw.Return {
	s.Size = uint64(s.Version)
	return raw.NVML_SUCCESS
}

func (f *vgpuFake) DeviceGetVgpuHeterogeneousMode(d raw.Device, m *raw.VgpuHeterogeneousMode) raw.Return {
	m.Mode = f.hetero
	return raw.NVML_SUCCESS
}

func (f *vgpuFake) DeviceSetVgpuHeterogeneousMode(d raw.Device, m *raw.VgpuHeterogeneousMode) raw.Return {
	f.hetero = m.Mode
	return raw.NVML_SUCCESS
}

func (f *vgpuFake) GpuInstanceGetVgpuHeterogeneousMode(g raw.GpuInstance, m *raw.VgpuHeterogeneousMode) raw.Return {
	m.Mode = f.hetero
	return raw.NVML_SUCCESS
}

func (f *vgpuFake) GpuInstanceSetVgpuHeterogeneousMode(g raw.GpuInstance, m *raw.VgpuHeterogeneousMode) raw.Return {
	f.hetero = m.Mode
	return raw.NVML_SUCCESS
}

func (f *vgpuFake) VgpuInstanceSetEncoderCapacity(v raw.VgpuInstance, share uint32) raw.Return {
	f.share = share
	return raw.NVML_SUCCESS
}

func (f *vgpuFake) VgpuInstanceGetEncoderStats(v raw.VgpuInstance, n, fps, latency *uint32) raw.Return {
	*n, *fps, *latency = 1, 60, 2500
	return raw.NVML_SUCCESS
}

func TestVGPU(t *testing.T) {
	f := &vgpuFake{}
	d := device(t, f)
	all := must(d.VGPUs())(t)
	if len(all) != 2 || all[0].Handle() != 7 || all[1].String() != "device 0, vGPU 8" {
		t.Fatalf("the virtual GPUs are %v", all)
	}
	v, other := all[0], all[1]
	if kind := must(v.Type())(t); kind.Handle() != 470 || kind.String() != "vGPU type 470" {
		t.Errorf("the type is %v", kind)
	}
	if id, uuid, err := v.VMID(); id != "c471c7f2" || !uuid || err != nil {
		t.Errorf("the ID is %q, %v (%v)", id, uuid, err)
	}
	equal(t, "the UUID", "uuid")(v.UUID())
	equal(t, "the address", nvml.PCIAddress{Bus: 2, Device: 1})(v.PCI())
	_, err := other.PCI()
	fails(t, "the address without a driver", err, nvml.ErrDriverNotLoaded)
	if !strings.Contains(err.Error(), "device 0, vGPU 8") {
		t.Error(err)
	}
	if id, ok, err := v.GPUInstanceID(); id != 3 || !ok || err != nil {
		t.Errorf("the GPU instance is %d, %v (%v)", id, ok, err)
	}
	if id, ok, err := other.GPUInstanceID(); id != 0 || ok || err != nil {
		t.Errorf("the GPU instance is %d, %v (%v)", id, ok, err)
	}
	if id, ok, err := v.Placement(); id != 4 || !ok || err != nil {
		t.Errorf("the placement is %d, %v (%v)", id, ok, err)
	}
	if _, ok, err := other.Placement(); ok || err != nil {
		t.Errorf("there is a placement, or %v", err)
	}
	equal(t, "the size", uint64(raw.VgpuRuntimeStateV1Version))(v.RuntimeStateSize())
	if err := v.SetEncoderCapacity(40); f.share != 40 || err != nil {
		t.Errorf("the share is %d (%v)", f.share, err)
	}
	if n, fps, latency, err := v.EncoderStats(); n != 1 || fps != 60 || latency != 2500*time.Microsecond || err != nil {
		t.Errorf("%d sessions, %d, %v (%v)", n, fps, latency, err)
	}
	if v := open(t, f).VGPU(8); v.String() != "vGPU 8" || v.Handle() != 8 {
		t.Errorf("%v", v)
	}
}

func TestVGPUHeterogeneous(t *testing.T) {
	f := &vgpuFake{}
	d := device(t, f)
	if err := d.SetVGPUHeterogeneous(true); err != nil {
		t.Error(err)
	}
	equal(t, "the mode", true)(d.VGPUHeterogeneous())
	g := must(d.GPUInstance(2))(t)
	equal(t, "the mode of the instance", true)(g.VGPUHeterogeneous())
	if err := g.SetVGPUHeterogeneous(false); err != nil || f.hetero != 0 {
		t.Error(err)
	}
	if all := must(g.VGPUs())(t); len(all) != 1 || all[0].String() != "device 0, GPU instance 2, vGPU 9" {
		t.Errorf("the virtual GPUs are %v", all)
	}
}
