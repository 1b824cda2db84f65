package nvml_test

import (
	"errors"
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

type memoryGPU struct {
	basis
	old       bool
	encrypted raw.EnableState
}

func (g *memoryGPU) DeviceGetMemoryInfoV2(_ raw.Device, m *raw.MemoryV2) raw.Return {
	if g.old || m.Version != raw.MemoryV2Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	m.Total, m.Reserved, m.Free, m.Used = 100, 10, 60, 30
	return raw.NVML_SUCCESS
}

func (g *memoryGPU) DeviceGetMemoryInfo(_ raw.Device, m *raw.Memory) raw.Return {
	*m = raw.Memory{Total: 100, Free: 60, Used: 40}
	return raw.NVML_SUCCESS
}

func (g *memoryGPU) DeviceGetBAR1MemoryInfo(_ raw.Device, m *raw.BAR1Memory) raw.Return {
	*m = raw.BAR1Memory{Bar1Total: 8, Bar1Free: 5, Bar1Used: 3}
	return raw.NVML_SUCCESS
}

func (g *memoryGPU) DeviceGetDramEncryptionMode(_ raw.Device, current, pending *raw.DramEncryptionInfo) raw.Return {
	if current.Version != raw.DramEncryptionInfoV1Version || pending.Version != current.Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	pending.EncryptionState = g.encrypted
	return raw.NVML_SUCCESS
}

func (g *memoryGPU) DeviceSetDramEncryptionMode(_ raw.Device, mode *raw.DramEncryptionInfo) raw.Return {
	if mode.Version != raw.DramEncryptionInfoV1Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	g.encrypted = mode.EncryptionState
	return raw.NVML_SUCCESS
}

func TestMemory(t *testing.T) {
	g := &memoryGPU{}
	d := deviceOf(t, g)
	wants(t, nvml.Memory{Total: 100, Reserved: 10, Free: 60, Used: 30})(d.Memory())
	wants(t, nvml.Memory{Total: 8, Free: 5, Used: 3})(d.BAR1Memory())
	g.old = true
	wants(t, nvml.Memory{Total: 100, Free: 60, Used: 40})(d.Memory())
	err := d.SetDRAMEncryption(true)
	current, pending, err2 := d.DRAMEncryption()
	if current || !pending || errors.Join(err, err2) != nil {
		t.Errorf("the memory is encrypted: %v, then %v (%v, %v)", current, pending, err, err2)
	}
}
