package nvml

import (
	"slices"
	"testing"

	"github.com/purecu/purecu/nvml/raw"
)

// fake is an NVML in Go, with functions whose results have lengths.
type fake struct{ raw.Unimplemented }

// use makes calls to an NVML in Go until the test ends.
func use(t *testing.T, f raw.Software) {
	t.Helper()
	c := newCalls(raw.NewSoftware(f), nil)
	addCalls(c)
	t.Cleanup(func() { removeCalls(c) })
}

// counted writes as many values as there is room for.
func counted[T any](n *uint32, s, values []T) raw.Return {
	room := *n
	*n = uint32(len(values))
	switch {
	case s == nil && room == 0:
		return raw.NVML_SUCCESS
	case int(room) < len(values):
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	copy(s, values)
	return raw.NVML_SUCCESS
}

func (f *fake) SystemGetTopologyGpuSet(cpu uint32, n *uint32, devices []raw.Device) raw.Return {
	return counted(n, devices, []raw.Device{1, 2, 3}[:cpu])
}

func (f *fake) DeviceGetAccountingPids(_ raw.Device, n *uint32, pids []uint32) raw.Return {
	return counted(n, pids, []uint32{5, 6, 7, 8, 9})
}

func (f *fake) DeviceGetActiveVgpus(_ raw.Device, n *uint32, vgpus []raw.VgpuInstance) raw.Return {
	return counted(n, vgpus, []raw.VgpuInstance{4, 3})
}

func (f *fake) DeviceGetPgpuMetadataString(_ raw.Device, text []byte, n *uint32) raw.Return {
	return counted(n, text, []byte("metadata\x00"))
}

func (f *fake) DeviceGetRetiredPagesV2(_ raw.Device, _ raw.PageRetirementCause, n *uint32, pages,
	times []uint64) raw.Return {
	counted(&[]uint32{*n}[0], times, []uint64{1, 2, 3})
	return counted(n, pages, []uint64{10, 20, 30})
}

func (f *fake) DeviceGetMemoryInfoV2(_ raw.Device, m *raw.MemoryV2) raw.Return {
	if m.Version != raw.MemoryV2Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	m.Total, m.Free = 100, 40
	return raw.NVML_SUCCESS
}

func (f *fake) DeviceGetGpuFabricInfoV(_ raw.Device, info *raw.GpuFabricInfoV) raw.Return {
	info.Status = raw.Return(info.Version >> 24)
	return raw.NVML_SUCCESS
}

func (f *fake) DeviceGetP2PStatus(a, b raw.Device, index raw.GpuP2PCapsIndex, status *raw.GpuP2PStatus) raw.Return {
	*status = raw.GpuP2PStatus(a*10+b) + raw.GpuP2PStatus(index)
	return raw.NVML_SUCCESS
}

func (f *fake) DeviceGetSupportedPerformanceStates(_ raw.Device, states []raw.Pstates) raw.Return {
	for i := range states {
		states[i] = raw.NVML_PSTATE_UNKNOWN
	}
	states[0], states[1] = 0, 8
	return raw.NVML_SUCCESS
}

func (f *fake) VgpuInstanceGetMetadata(_ raw.VgpuInstance, memory []byte, n *uint32) raw.Return {
	size := uint32(len(asBytes(&nvmlVgpuMetadata{}))) + 8
	if *n < size {
		*n = size
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	raw.At[raw.VgpuMetadata](memory).Revision = 12
	copy(memory[size-12:], "twelve bytes")
	*n = size
	return raw.NVML_SUCCESS
}

func (f *fake) ComputeInstanceGetInfoV2(_ raw.ComputeInstance, info *raw.ComputeInstanceInfo) raw.Return {
	info.Device, info.GpuInstance, info.Id = 7, 8, 9
	return raw.NVML_SUCCESS
}

func TestLists(t *testing.T) {
	use(t, &fake{})
	var d Device = nvmlDevice{1}
	for n := range 4 {
		list, ret := SystemGetTopologyGpuSet(n)
		if len(list) != n || list == nil || n == 3 && list[2] != Device(nvmlDevice{3}) || ret != SUCCESS {
			t.Errorf("SystemGetTopologyGpuSet: %v, %v", list, ret)
		}
	}
	if pids, ret := d.GetAccountingPids(); !slices.Equal(pids, []int{5, 6, 7, 8, 9}) || ret != SUCCESS {
		t.Errorf("GetAccountingPids: %v, %v", pids, ret)
	}
	vgpus, ret := d.GetActiveVgpus()
	if len(vgpus) != 2 || vgpus[1] != VgpuInstance(nvmlVgpuInstance(3)) || ret != SUCCESS {
		t.Errorf("GetActiveVgpus: %v, %v", vgpus, ret)
	}
	if text, ret := d.GetPgpuMetadataString(); text != "metadata" || ret != SUCCESS {
		t.Errorf("GetPgpuMetadataString: %q, %v", text, ret)
	}
	pages, times, ret := d.GetRetiredPages_v2(0)
	if !slices.Equal(pages, []uint64{10, 20, 30}) || !slices.Equal(times, []uint64{1, 2, 3}) || ret != SUCCESS {
		t.Errorf("GetRetiredPages_v2: %v, %v, %v", pages, times, ret)
	}
	if s, ret := d.GetSupportedPerformanceStates(); !slices.Equal(s, []Pstates{0, 8}) || ret != SUCCESS {
		t.Errorf("GetSupportedPerformanceStates: %v, %v", s, ret)
	}
	if s, ret := d.GetSupportedVgpus(); s != nil || ret != ERROR_FUNCTION_NOT_FOUND {
		t.Errorf("GetSupportedVgpus: %v, %v", s, ret)
	}
	m, ret := nvmlVgpuInstance(1).GetMetadata()
	if string(m.OpaqueData) != "twelve bytes" || m.Revision != 12 || ret != SUCCESS {
		t.Errorf("GetMetadata: %q, %v", m.OpaqueData, ret)
	}
}

func TestStructs(t *testing.T) {
	use(t, &fake{})
	var d Device = nvmlDevice{1}
	if m, ret := d.GetMemoryInfo_v2(); m.Total != 100 || m.Free != 40 || ret != SUCCESS {
		t.Errorf("GetMemoryInfo_v2: %v, %v", m, ret)
	}
	if info, ret := d.GetGpuFabricInfoV().V3(); info.Status != 3 || ret != SUCCESS {
		t.Errorf("GetGpuFabricInfoV: %v, %v", info, ret)
	}
	info, ret := ComputeInstanceGetInfo(nvmlComputeInstance{1})
	if info.Device != Device(nvmlDevice{7}) || info.GpuInstance != GpuInstance(nvmlGpuInstance{8}) || info.Id != 9 ||
		ret != SUCCESS {
		t.Errorf("ComputeInstanceGetInfo: %v, %v", info, ret)
	}
	for _, v := range []uint32{STRUCT_VERSION(Memory_v2{}, 2), STRUCT_VERSION(&Memory_v2{}, 2)} {
		if v != uint32(raw.MemoryV2Version) {
			t.Errorf("STRUCT_VERSION: %#x", v)
		}
	}
}

// A device may be embedded in a struct of the program's.
type embedded struct {
	name string
	Device
}

func TestEmbeddedDevice(t *testing.T) {
	use(t, &fake{})
	var d Device = nvmlDevice{1}
	two := nvmlDevice{2}
	for _, other := range []Device{two, embedded{"a", two}, &embedded{"b", &embedded{"c", two}}} {
		if s, ret := DeviceGetP2PStatus(d, other, 3); s != 15 || ret != SUCCESS {
			t.Errorf("DeviceGetP2PStatus: %v, %v", s, ret)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a struct without a device does not panic")
		}
	}()
	deviceHandle(embedded{})
}
