package nvml_test

import (
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// linkGPU has NVLinks.
type linkGPU struct {
	basis
	newer     bool
	control   raw.NvLinkUtilizationControl
	reset     uint32
	threshold uint32
	mode      raw.NvlinkSetBwMode
}

func (g *linkGPU) DeviceGetNvLinkRemotePciInfoV2(_ raw.Device, link uint32, p *raw.PciInfo) raw.Return {
	if !g.newer {
		return raw.Unimplemented{}.DeviceGetNvLinkRemotePciInfoV2(0, link, p)
	}
	*p = raw.PciInfo{Bus: link, Device: 1, PciDeviceId: 0x22a310de, PciSubSystemId: 99}
	return raw.NVML_SUCCESS
}

func (g *linkGPU) DeviceGetNvLinkRemotePciInfo(_ raw.Device, link uint32, p *raw.PciInfo) raw.Return {
	*p = raw.PciInfo{Bus: link, Device: 2, PciDeviceId: 0x22a310de}
	return raw.NVML_SUCCESS
}

func (g *linkGPU) DeviceGetNvLinkInfo(_ raw.Device, i *raw.NvLinkInfo) raw.Return {
	switch {
	case i.Version == raw.NvLinkInfoV2Version && g.newer:
		i.FirmwareInfo.NumValidEntries = 1
		i.FirmwareInfo.FirmwareVersion[0] = raw.NvlinkFirmwareVersion{UcodeType: 1, Major: 35, Minor: 2014, SubMinor: 4}
	case i.Version != raw.NvLinkInfoV1Version:
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	i.IsNvleEnabled = 1
	return raw.NVML_SUCCESS
}

func (g *linkGPU) DeviceGetNvLinkUtilizationControl(_ raw.Device, link, counter uint32,
	c *raw.NvLinkUtilizationControl) raw.Return {
	*c = g.control
	return raw.NVML_SUCCESS
}

func (g *linkGPU) DeviceSetNvLinkUtilizationControl(_ raw.Device, link, counter uint32,
	c *raw.NvLinkUtilizationControl, reset uint32) raw.Return {
	if link != 3 || counter != 1 {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	g.control, g.reset = *c, reset
	return raw.NVML_SUCCESS
}

func (g *linkGPU) DeviceSetNvLinkDeviceLowPowerThreshold(_ raw.Device, t *raw.NvLinkPowerThres) raw.Return {
	g.threshold = t.LowPwrThreshold
	return raw.NVML_SUCCESS
}

func (g *linkGPU) DeviceGetNvlinkBwMode(_ raw.Device, m *raw.NvlinkGetBwMode) raw.Return {
	if m.Version != raw.NvlinkGetBwModeV1Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	m.BwMode, m.BIsBest = g.mode.BwMode, g.mode.BSetBest
	return raw.NVML_SUCCESS
}

func (g *linkGPU) DeviceSetNvlinkBwMode(_ raw.Device, m *raw.NvlinkSetBwMode) raw.Return {
	g.mode = *m
	return raw.NVML_SUCCESS
}

func (g *linkGPU) DeviceGetNvlinkSupportedBwModes(_ raw.Device, m *raw.NvlinkSupportedBwModes) raw.Return {
	m.TotalBwModes = 3
	copy(m.BwModes[:], []uint8{0, 2, 4, 8})
	return raw.NVML_SUCCESS
}

func (g *linkGPU) DeviceGetC2cModeInfoV(_ raw.Device, c *raw.C2cModeInfoV1) raw.Return {
	c.IsC2cEnabled = 1
	return raw.NVML_SUCCESS
}

func TestNVLink(t *testing.T) {
	g := &linkGPU{}
	d := deviceOf(t, g)
	wants(t, nvml.PCI{Address: nvml.PCIAddress{Bus: 5, Device: 2}, Vendor: 0x10de, Device: 0x22a3})(d.NVLinkRemotePCI(5))
	wants(t, nvml.NVLinkInfo{Encrypted: true})(d.NVLinkInfo())
	g.newer = true
	wants(t, nvml.PCI{Address: nvml.PCIAddress{Bus: 5, Device: 1}, Vendor: 0x10de, Device: 0x22a3})(d.NVLinkRemotePCI(5))
	firmware := nvml.NVLinkFirmware{Type: 1, Major: 35, Minor: 2014, SubMinor: 4}
	wants(t, nvml.NVLinkInfo{Encrypted: true, Firmware: []nvml.NVLinkFirmware{firmware}})(d.NVLinkInfo())
	if firmware.String() != "35.2014.4" {
		t.Errorf("the version is %v", firmware)
	}
	wants(t, true)(d.C2C())
	if err := d.SetNVLinkLowPowerThreshold(20); err != nil || g.threshold != 20 {
		t.Errorf("the threshold is %d (%v)", g.threshold, err)
	}
	if err := d.ResetNVLinkLowPowerThreshold(); err != nil || g.threshold != 1<<32-1 {
		t.Errorf("the threshold is %d (%v)", g.threshold, err)
	}
	_, err := d.NVLinkRemotePCI(-1)
	isError(t, err, nvml.ErrInvalidArgument)
}

func TestNVLinkCounterControl(t *testing.T) {
	g := &linkGPU{}
	d := deviceOf(t, g)
	control := nvml.NVLinkCounterControl{Unit: nvml.NVLinkUnitBytes,
		Packets: nvml.NVLinkPacketsRead | nvml.NVLinkPacketsWrite}
	if err := d.SetNVLinkCounterControl(3, 1, control, true); err != nil || g.reset != 1 {
		t.Errorf("reset is %d (%v)", g.reset, err)
	}
	wants(t, control)(d.NVLinkCounterControl(3, 1))
	isError(t, d.SetNVLinkCounterControl(-1, 1, control, true), nvml.ErrInvalidArgument)
	_, err := d.NVLinkCounterControl(3, -1)
	isError(t, err, nvml.ErrInvalidArgument)
}

func TestNVLinkBandwidthMode(t *testing.T) {
	g := &linkGPU{}
	d := deviceOf(t, g)
	wants(t, []uint8{0, 2, 4})(d.NVLinkBandwidthModes())
	check := func(err error, want raw.NvlinkSetBwMode) {
		t.Helper()
		want.Version = raw.NvlinkSetBwModeV1Version
		mode, best, err2 := d.NVLinkBandwidthMode()
		if err != nil || err2 != nil || g.mode != want || mode != want.BwMode || best != (want.BSetBest != 0) {
			t.Errorf("the mode is %+v, %d, %v (%v, %v)", g.mode, mode, best, err, err2)
		}
	}
	check(d.SetNVLinkBandwidthMode(4), raw.NvlinkSetBwMode{BwMode: 4})
	check(d.SetBestNVLinkBandwidthMode(), raw.NvlinkSetBwMode{BSetBest: 1})
}
