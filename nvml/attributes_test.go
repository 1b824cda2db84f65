package nvml_test

import (
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// knownGPU has attributes, whose older functions return other values.
type knownGPU struct {
	basis
	newer    bool
	hostname raw.HostnameV1
}

func (g *knownGPU) DeviceGetAttributesV2(_ raw.Device, a *raw.DeviceAttributes) raw.Return {
	if !g.newer {
		return raw.Unimplemented{}.DeviceGetAttributesV2(0, a)
	}
	*a = raw.DeviceAttributes{MultiprocessorCount: 1, SharedCopyEngineCount: 2, SharedDecoderCount: 3,
		SharedEncoderCount: 4, SharedJpegCount: 5, SharedOfaCount: 6, GpuInstanceSliceCount: 7,
		ComputeInstanceSliceCount: 8, MemorySizeMB: 9}
	return raw.NVML_SUCCESS
}

func (g *knownGPU) DeviceGetAttributes(_ raw.Device, a *raw.DeviceAttributes) raw.Return {
	a.MultiprocessorCount = 11
	return raw.NVML_SUCCESS
}

func (g *knownGPU) DeviceGetCapabilities(_ raw.Device, c *raw.DeviceCapabilities) raw.Return {
	if c.Version != raw.DeviceCapabilitiesV1Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	c.CapMask = 5
	return raw.NVML_SUCCESS
}

func (g *knownGPU) DeviceGetAddressingMode(_ raw.Device, m *raw.DeviceAddressingMode) raw.Return {
	if m.Version != raw.DeviceAddressingModeV1Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	m.Value = uint32(raw.NVML_DEVICE_ADDRESSING_MODE_ATS)
	return raw.NVML_SUCCESS
}

func (g *knownGPU) DeviceGetPdi(_ raw.Device, p *raw.Pdi) raw.Return {
	if p.Version != raw.PdiV1Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	p.Value = 0x91e9e17f634f659f
	return raw.NVML_SUCCESS
}

func (g *knownGPU) DeviceGetDriverModelV2(_ raw.Device, current, pending *raw.DriverModel) raw.Return {
	if !g.newer {
		return raw.Unimplemented{}.DeviceGetDriverModelV2(0, current, pending)
	}
	*current, *pending = raw.NVML_DRIVER_WDM, raw.NVML_DRIVER_MCDM
	return raw.NVML_SUCCESS
}

func (g *knownGPU) DeviceGetDriverModel(_ raw.Device, current, pending *raw.DriverModel) raw.Return {
	*current, *pending = raw.NVML_DRIVER_WDM, raw.NVML_DRIVER_WDDM
	return raw.NVML_SUCCESS
}

func (g *knownGPU) DeviceGetHostnameV1(_ raw.Device, name *raw.HostnameV1) raw.Return {
	*name = g.hostname
	return raw.NVML_SUCCESS
}

func (g *knownGPU) DeviceSetHostnameV1(_ raw.Device, name *raw.HostnameV1) raw.Return {
	g.hostname = *name
	return raw.NVML_SUCCESS
}

func (g *knownGPU) DeviceGetPlatformInfo(_ raw.Device, p *raw.PlatformInfo) raw.Return {
	switch {
	case p.Version == raw.PlatformInfoV2Version && g.newer:
		p.SlotNumber = 2
	case p.Version != raw.PlatformInfoV1Version:
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	p.IbGuid[0], p.TrayIndex, p.HostId, p.PeerType, p.ModuleId = 1, 3, 4, 5, 6
	copy(p.ChassisSerialNumber[:], "1820325178001")
	return raw.NVML_SUCCESS
}

func (g *knownGPU) DeviceGetLastBBXFlushTime(_ raw.Device, at *uint64, took *raw.ULong) raw.Return {
	*at, *took = 1.7e15, 2500
	return raw.NVML_SUCCESS
}

func TestAttributes(t *testing.T) {
	g := &knownGPU{}
	d := deviceOf(t, g)
	wants(t, nvml.Attributes{Multiprocessors: 11})(d.Attributes())
	g.newer = true
	wants(t, nvml.Attributes{Multiprocessors: 1, CopyEngines: 2, Decoders: 3, Encoders: 4, JPEGEngines: 5,
		OpticalFlowEngines: 6, GPUSlices: 7, ComputeSlices: 8, Memory: 9 << 20})(d.Attributes())
	wants(t, nvml.CapabilityEGM|4)(d.Capabilities())
	wants(t, nvml.AddressingATS)(d.AddressingMode())
	wants(t, uint64(0x91e9e17f634f659f))(d.PDI())
	at, took, err := d.LastBBXFlush()
	if !at.Equal(time.UnixMicro(1.7e15)) || took != 2500*time.Microsecond || err != nil {
		t.Errorf("the flush was at %v for %v (%v)", at, took, err)
	}
}

func TestDriverModel(t *testing.T) {
	g := &knownGPU{}
	d := deviceOf(t, g)
	for _, want := range []nvml.DriverModel{nvml.DriverModelWDDM, nvml.DriverModelMCDM} {
		if current, pending, err := d.DriverModel(); current != nvml.DriverModelWDM || pending != want || err != nil {
			t.Errorf("the models are %v and %v (%v)", current, pending, err)
		}
		g.newer = true
	}
}

func TestHostname(t *testing.T) {
	d := deviceOf(t, &knownGPU{})
	longest := strings.Repeat("x", 63)
	for _, name := range []string{"rack7", longest, ""} {
		if err := d.SetHostname(name); err != nil {
			t.Error(err)
		}
		wants(t, name)(d.Hostname())
	}
	for _, name := range []string{longest + "x", "a\x00b"} {
		isError(t, d.SetHostname(name), nvml.ErrInvalidArgument)
	}
}

func TestPlatform(t *testing.T) {
	want := nvml.Platform{GUID: [16]byte{1}, ChassisSerial: "1820325178001", Tray: 3, Host: 4, PeerType: 5, Module: 6}
	wants(t, want)(deviceOf(t, &knownGPU{}).Platform())
	want.Slot = 2
	wants(t, want)(deviceOf(t, &knownGPU{newer: true}).Platform())
}
