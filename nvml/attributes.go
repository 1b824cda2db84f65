package nvml

import (
	"fmt"
	"strings"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// Attributes says what a MIG device has. It shares the engines with other MIG devices of its GPU instance.
type Attributes struct {
	Multiprocessors          int
	CopyEngines              int
	Decoders, Encoders       int
	JPEGEngines              int
	OpticalFlowEngines       int
	GPUSlices, ComputeSlices int    // of the GPU instance, and of the compute instance
	Memory                   uint64 // in bytes
}

// Attributes returns what a MIG device has (nvmlDeviceGetAttributes_v2, and nvmlDeviceGetAttributes for older drivers).
// Whole GPUs do not have this.
func (d *Device) Attributes() (Attributes, error) {
	return get(d.obj(), "nvmlDeviceGetAttributes_v2", func(l *raw.Library, h uint64) (Attributes, raw.Return) {
		var a raw.DeviceAttributes
		r := l.DeviceGetAttributesV2(raw.Device(h), &a)
		if lacks(r) {
			r = l.DeviceGetAttributes(raw.Device(h), &a)
		}
		return Attributes{Multiprocessors: int(a.MultiprocessorCount), CopyEngines: int(a.SharedCopyEngineCount),
			Decoders: int(a.SharedDecoderCount), Encoders: int(a.SharedEncoderCount), JPEGEngines: int(a.SharedJpegCount),
			OpticalFlowEngines: int(a.SharedOfaCount), GPUSlices: int(a.GpuInstanceSliceCount),
			ComputeSlices: int(a.ComputeInstanceSliceCount), Memory: a.MemorySizeMB << 20}, r
	})
}

// Capabilities are things that a GPU can do. It is a sum of bits.
type Capabilities uint32

// CapabilityEGM says that other GPUs can reach the memory of the processor through the GPU.
const CapabilityEGM Capabilities = raw.NVML_DEV_CAP_EGM

// Capabilities returns what the GPU can do (nvmlDeviceGetCapabilities).
func (d *Device) Capabilities() (Capabilities, error) {
	const op = "nvmlDeviceGetCapabilities"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		c := raw.DeviceCapabilities{Version: raw.DeviceCapabilitiesV1Version}
		r := l.DeviceGetCapabilities(raw.Device(w.a), &c)
		return words{a: uint64(c.CapMask)}, r
	})
	return Capabilities(w.a), err
}

// AddressingMode returns how the GPU reaches memory that programs on the processor have allocated in their own way
// (nvmlDeviceGetAddressingMode). It works only on Linux.
func (d *Device) AddressingMode() (AddressingMode, error) {
	const op = "nvmlDeviceGetAddressingMode"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		m := raw.DeviceAddressingMode{Version: raw.DeviceAddressingModeV1Version}
		r := l.DeviceGetAddressingMode(raw.Device(w.a), &m)
		return words{a: uint64(m.Value)}, r
	})
	return AddressingMode(w.a), err
}

// PDI returns a number that identifies the GPU, and never changes (nvmlDeviceGetPdi).
func (d *Device) PDI() (uint64, error) {
	w, err := d.obj().call("nvmlDeviceGetPdi", words{}, func(l *raw.Library, w words) (words, raw.Return) {
		p := raw.Pdi{Version: raw.PdiV1Version}
		r := l.DeviceGetPdi(raw.Device(w.a), &p)
		return words{a: p.Value}, r
	})
	return w.a, err
}

// DriverModel returns the model of the driver on Windows now, and after the next restart (nvmlDeviceGetDriverModel_v2,
// and nvmlDeviceGetDriverModel for older drivers).
func (d *Device) DriverModel() (current, pending DriverModel, err error) {
	const op = "nvmlDeviceGetDriverModel_v2"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var now, next raw.DriverModel
		r := l.DeviceGetDriverModelV2(raw.Device(w.a), &now, &next)
		if lacks(r) {
			r = l.DeviceGetDriverModel(raw.Device(w.a), &now, &next)
		}
		return words{a: uint64(now), b: uint64(next)}, r
	})
	return DriverModel(w.a), DriverModel(w.b), err
}

// Hostname returns the name of the machine that [Device.SetHostname] has stored in the GPU (nvmlDeviceGetHostname_v1).
// Only GPUs since Blackwell have this, on Linux.
func (d *Device) Hostname() (string, error) {
	return get(d.obj(), "nvmlDeviceGetHostname_v1", func(l *raw.Library, h uint64) (string, raw.Return) {
		var name raw.HostnameV1
		r := l.DeviceGetHostnameV1(raw.Device(h), &name)
		return text(name.Value[:]), r
	})
}

// SetHostname stores the name of the machine in the GPU until the GPU is reset or the driver is unloaded
// (nvmlDeviceSetHostname_v1). It needs root. The name has at most 63 bytes.
func (d *Device) SetHostname(name string) error {
	const op = "nvmlDeviceSetHostname_v1"
	o := d.obj()
	if o != nil && (len(name) >= raw.NVML_DEVICE_HOSTNAME_BUFFER_SIZE || strings.Contains(name, "\x00")) {
		return o.invalid(op, fmt.Sprintf("the name %q has a NUL, or more than 63 bytes", name))
	}
	_, err := get(o, op, func(l *raw.Library, h uint64) (struct{}, raw.Return) {
		var host raw.HostnameV1
		copy(host.Value[:], name)
		return struct{}{}, l.DeviceSetHostnameV1(raw.Device(h), &host)
	})
	return err
}

// Platform says where a GPU is in a rack of machines.
type Platform struct {
	// GUID is the one that the platform reports for InfiniBand. If it has 8 bytes, the rest is 0.
	GUID [16]byte
	// ChassisSerial is the serial number of the chassis.
	ChassisSerial string
	// Slot is the number of the slot in the chassis, where switches have slots, too. Tray is the one without switches.
	Slot, Tray int
	// Host is the number of the machine in the slot, and Module that of the GPU in the machine.
	Host, Module int
	// PeerType says what the NVLinks lead to. The platform defines its meaning.
	PeerType int
}

// Platform returns where the GPU is in a rack of machines (nvmlDeviceGetPlatformInfo). Only GPUs since Blackwell have
// this.
func (d *Device) Platform() (Platform, error) {
	return get(d.obj(), "nvmlDeviceGetPlatformInfo", func(l *raw.Library, h uint64) (Platform, raw.Return) {
		p := raw.PlatformInfo{Version: raw.PlatformInfoV2Version}
		r := l.DeviceGetPlatformInfo(raw.Device(h), &p)
		if lacks(r) {
			p = raw.PlatformInfo{Version: raw.PlatformInfoV1Version} // with other names at the same places
			r = l.DeviceGetPlatformInfo(raw.Device(h), &p)
		}
		return Platform{GUID: p.IbGuid, ChassisSerial: text(p.ChassisSerialNumber[:]), Slot: int(p.SlotNumber),
			Tray: int(p.TrayIndex), Host: int(p.HostId), Module: int(p.ModuleId), PeerType: int(p.PeerType)}, r
	})
}

// LastBBXFlush returns when the GPU has last written its record of events to the InfoROM since the driver was loaded,
// and how long that took (nvmlDeviceGetLastBBXFlushTime). It has not written it if the error matches
// [github.com/purecu/purecu/nvml/raw.NVML_ERROR_NOT_READY].
func (d *Device) LastBBXFlush() (at time.Time, took time.Duration, err error) {
	const op = "nvmlDeviceGetLastBBXFlushTime"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var at uint64
		var took raw.ULong
		r := l.DeviceGetLastBBXFlushTime(raw.Device(w.a), &at, &took)
		return words{a: at, b: uint64(took)}, r
	})
	return someTime(w.a), time.Duration(w.b) * time.Microsecond, err
}
