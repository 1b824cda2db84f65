package nvml_test

import (
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// slotGPU has a place on the PCI bus, which the version of the function returns that the driver has.
type slotGPU struct {
	basis
	version int
}

func (g slotGPU) DeviceGetPciInfoExt(_ raw.Device, p *raw.PciInfoExt) raw.Return {
	if g.version < 4 {
		return raw.Unimplemented{}.DeviceGetPciInfoExt(0, p)
	}
	if p.Version != raw.PciInfoExtV1Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	p.Domain, p.Bus, p.Device = 1<<31, 0xff, 0x1f
	p.PciDeviceId, p.PciSubSystemId, p.BaseClass, p.SubClass = 0x233510de, 0x18bf10dd, 3, 2
	return raw.NVML_SUCCESS
}

func (g slotGPU) info(version int, p *raw.PciInfo) raw.Return {
	if g.version < version {
		return raw.NVML_ERROR_FUNCTION_NOT_FOUND
	}
	*p = raw.PciInfo{Domain: uint32(version), Bus: 0xff, Device: 0x1f, PciDeviceId: 0x233510de, PciSubSystemId: 0x18bf10dd}
	return raw.NVML_SUCCESS
}

func (g slotGPU) DeviceGetPciInfoV3(_ raw.Device, p *raw.PciInfo) raw.Return { return g.info(3, p) }
func (g slotGPU) DeviceGetPciInfoV2(_ raw.Device, p *raw.PciInfo) raw.Return { return g.info(2, p) }
func (g slotGPU) DeviceGetPciInfo(_ raw.Device, p *raw.PciInfo) raw.Return   { return g.info(1, p) }

func (g slotGPU) DeviceGetBridgeChipInfo(_ raw.Device, b *raw.BridgeChipHierarchy) raw.Return {
	b.BridgeCount = 2
	b.BridgeChipInfo[1] = raw.BridgeChipInfo{Type: raw.NVML_BRIDGE_CHIP_BRO4, FwVersion: 7}
	return raw.NVML_SUCCESS
}

func TestPCI(t *testing.T) {
	want := nvml.PCI{Address: nvml.PCIAddress{Domain: 1 << 31, Bus: 0xff, Device: 0x1f}, Vendor: 0x10de, Device: 0x2335,
		SubsystemVendor: 0x10dd, Subsystem: 0x18bf, Class: 3, Subclass: 2}
	wants(t, want)(deviceOf(t, slotGPU{version: 4}).PCI())
	want.Class, want.Subclass = 0, 0
	for version := 1; version < 4; version++ {
		want.Address.Domain = uint32(version)
		wants(t, want)(deviceOf(t, slotGPU{version: version}).PCI())
	}
	wants(t, []nvml.BridgeChip{{Type: nvml.BridgeChipPLX}, {Type: nvml.BridgeChipBRO4, Firmware: 7}})(
		deviceOf(t, slotGPU{}).BridgeChips())
}
