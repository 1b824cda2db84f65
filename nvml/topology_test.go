package nvml_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// nearGPU has neighbors.
type nearGPU struct {
	basis
	scopes bool
}

func (g nearGPU) DeviceGetTopologyNearestGpus(_ raw.Device, level raw.GpuTopologyLevel, n *uint32,
	devices []raw.Device) raw.Return {
	if level != raw.NVML_TOPOLOGY_NODE {
		*n = 0
		return raw.NVML_SUCCESS
	}
	if devices == nil {
		*n = 2
		return raw.NVML_SUCCESS
	}
	copy(devices, []raw.Device{firstHandle + 3, 0x50}) // and the number stays as it was
	return raw.NVML_SUCCESS
}

func (g nearGPU) DeviceGetName(d raw.Device, name []byte) raw.Return {
	copy(name, fmt.Sprintf("%#x", d))
	return raw.NVML_SUCCESS
}

func (g nearGPU) DeviceGetCpuAffinityWithinScope(_ raw.Device, set []raw.ULong, scope raw.AffinityScope) raw.Return {
	if !g.scopes {
		return raw.Unimplemented{}.DeviceGetCpuAffinityWithinScope(0, set, scope)
	}
	set[0], set[1] = 0x8001, 1<<scope
	return raw.NVML_SUCCESS
}

func (g nearGPU) DeviceGetCpuAffinity(_ raw.Device, set []raw.ULong) raw.Return {
	set[0] = 6
	return raw.NVML_SUCCESS
}

func (g nearGPU) DeviceGetMemoryAffinity(_ raw.Device, set []raw.ULong, scope raw.AffinityScope) raw.Return {
	set[0] = 3
	return raw.NVML_SUCCESS
}

func TestNearestGPUs(t *testing.T) {
	d := deviceOf(t, nearGPU{}).WithTimeout(time.Minute)
	all, err := d.NearestGPUs(nvml.TopologyNode)
	if err != nil || fmt.Sprint(all) != "[device 3 a GPU near device 0]" || all[1].Handle() != 0x50 {
		t.Fatalf("the neighbors are %v (%v)", all, err)
	}
	wants(t, "0x103")(all[0].Name())
	if all, err = d.NearestGPUs(nvml.TopologySystem); len(all) != 0 || err != nil {
		t.Errorf("the neighbors are %v (%v)", all, err)
	}
}

func TestAffinity(t *testing.T) {
	d := deviceOf(t, nearGPU{scopes: true})
	word := 64
	if ^raw.ULong(0)>>32 == 0 {
		word = 32
	}
	wants(t, []int{0, 15, word})(d.CPUAffinity(nvml.AffinityNode))
	wants(t, []int{0, 15, word + 1})(d.CPUAffinity(nvml.AffinitySocket))
	wants(t, []int{0, 1})(d.MemoryAffinity(nvml.AffinityNode))
	older := deviceOf(t, nearGPU{})
	wants(t, []int{1, 2})(older.CPUAffinity(nvml.AffinityNode))
	_, err := older.CPUAffinity(nvml.AffinitySocket)
	isError(t, err, errors.ErrUnsupported)
}
