package nvml

import "github.com/purecu/purecu/nvml/raw"

// PCI says where a device is on the PCI bus, and what it is.
type PCI struct {
	Address PCIAddress
	// Vendor and Device identify the chip: NVIDIA's vendor is 0x10de.
	Vendor, Device uint16
	// SubsystemVendor and Subsystem identify the board.
	SubsystemVendor, Subsystem uint16
	// Class and Subclass are the kind of device: 3 and 2 for a GPU without a display. They are 0 if the driver does not
	// say them.
	Class, Subclass uint8
}

// PCI returns where the GPU is on the PCI bus, and what it is (nvmlDeviceGetPciInfoExt, and nvmlDeviceGetPciInfo_v3,
// _v2 or the one without a number for older drivers).
func (d *Device) PCI() (PCI, error) {
	w, err := d.obj().call("nvmlDeviceGetPciInfoExt", words{}, func(l *raw.Library, w words) (words, raw.Return) {
		e := raw.PciInfoExt{Version: raw.PciInfoExtV1Version}
		r := l.DeviceGetPciInfoExt(raw.Device(w.a), &e)
		if !lacks(r) && r != raw.NVML_ERROR_NOT_SUPPORTED {
			return pciWords(e), r
		}
		var older raw.PciInfo
		r = l.DeviceGetPciInfoV3(raw.Device(w.a), &older)
		if lacks(r) {
			r = l.DeviceGetPciInfoV2(raw.Device(w.a), &older)
		}
		if lacks(r) {
			r = l.DeviceGetPciInfo(raw.Device(w.a), &older)
		}
		return pciWords(extended(older)), r
	})
	return pciOf(w), err
}

// extended returns what an older function has set as what the newest one sets.
func extended(p raw.PciInfo) raw.PciInfoExt {
	return raw.PciInfoExt{Domain: p.Domain, Bus: p.Bus, Device: p.Device, PciDeviceId: p.PciDeviceId,
		PciSubSystemId: p.PciSubSystemId}
}

// pciWords returns the numbers of a device as those of a call.
func pciWords(p raw.PciInfoExt) words {
	return words{uint64(p.Domain), uint64(p.Bus)<<32 | uint64(p.Device),
		uint64(p.PciDeviceId)<<32 | uint64(p.PciSubSystemId), uint64(p.BaseClass)<<32 | uint64(p.SubClass)}
}

// pciOf returns the device of pciWords.
func pciOf(w words) PCI {
	return PCI{Address: PCIAddress{uint32(w.a), uint32(w.b >> 32), uint32(w.b)},
		Device: uint16(w.c >> 48), Vendor: uint16(w.c >> 32), Subsystem: uint16(w.c >> 16), SubsystemVendor: uint16(w.c),
		Class: uint8(w.d >> 32), Subclass: uint8(w.d)}
}

// BridgeChip is a bridge between the GPUs of a board and the machine.
type BridgeChip struct {
	Type BridgeChipType
	// Firmware is the version of the firmware, or 0 if it is unknown.
	Firmware uint32
}

// BridgeChips returns the bridges between the GPU and the machine on a board of several GPUs
// (nvmlDeviceGetBridgeChipInfo). The first is next to the GPU.
func (d *Device) BridgeChips() ([]BridgeChip, error) {
	return get(d.obj(), "nvmlDeviceGetBridgeChipInfo", func(l *raw.Library, h uint64) ([]BridgeChip, raw.Return) {
		var b raw.BridgeChipHierarchy
		r := l.DeviceGetBridgeChipInfo(raw.Device(h), &b)
		return each(b.BridgeChipInfo[:min(int(b.BridgeCount), len(b.BridgeChipInfo))], func(b raw.BridgeChipInfo) BridgeChip {
			return BridgeChip{b.Type, b.FwVersion}
		}), r
	})
}
