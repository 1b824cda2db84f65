package nvml

import (
	"fmt"

	"github.com/purecu/purecu/nvml/raw"
)

// NVLinkRemotePCI returns what is at the other end of an NVLink (nvmlDeviceGetNvLinkRemotePciInfo_v2, and
// nvmlDeviceGetNvLinkRemotePciInfo for older drivers). The first link has number 0. The subsystem and the class are not
// set.
func (d *Device) NVLinkRemotePCI(link int) (PCI, error) {
	const op = "nvmlDeviceGetNvLinkRemotePciInfo_v2"
	o := d.obj()
	if err := o.checkNumber(op, "link", link); err != nil {
		return PCI{}, err
	}
	w, err := o.call(op, words{b: uint64(link)}, func(l *raw.Library, w words) (words, raw.Return) {
		var p raw.PciInfo
		r := l.DeviceGetNvLinkRemotePciInfoV2(raw.Device(w.a), uint32(w.b), &p)
		if lacks(r) {
			r = l.DeviceGetNvLinkRemotePciInfo(raw.Device(w.a), uint32(w.b), &p)
		}
		p.PciSubSystemId = 0 // the library leaves it undefined
		return pciWords(extended(p)), r
	})
	return pciOf(w), err
}

// NVLinkFirmware is a program of the NVLinks, and its version.
type NVLinkFirmware struct {
	// Type is an NVML_NVLINK_FIRMWARE_UCODE_TYPE of package raw.
	Type                   int
	Major, Minor, SubMinor uint32
}

// String returns the version, such as "35.2014.4".
func (f NVLinkFirmware) String() string { return fmt.Sprintf("%d.%d.%d", f.Major, f.Minor, f.SubMinor) }

// NVLinkInfo says what all NVLinks of a GPU have in common.
type NVLinkInfo struct {
	// Encrypted says that what the NVLinks transfer is encrypted.
	Encrypted bool
	// Firmware are the programs of the NVLinks. It is empty if the driver does not say them.
	Firmware []NVLinkFirmware
}

// NVLinkInfo returns what all NVLinks of the GPU have in common (nvmlDeviceGetNvLinkInfo).
func (d *Device) NVLinkInfo() (NVLinkInfo, error) {
	return get(d.obj(), "nvmlDeviceGetNvLinkInfo", func(l *raw.Library, h uint64) (NVLinkInfo, raw.Return) {
		i := raw.NvLinkInfo{Version: raw.NvLinkInfoV2Version}
		r := l.DeviceGetNvLinkInfo(raw.Device(h), &i)
		if r == raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH {
			i = raw.NvLinkInfo{Version: raw.NvLinkInfoV1Version} // which is the beginning of the newer one
			r = l.DeviceGetNvLinkInfo(raw.Device(h), &i)
		}
		f := &i.FirmwareInfo
		valid := f.FirmwareVersion[:min(int(f.NumValidEntries), len(f.FirmwareVersion))]
		return NVLinkInfo{truth(i.IsNvleEnabled), each(valid, func(v raw.NvlinkFirmwareVersion) NVLinkFirmware {
			return NVLinkFirmware{int(v.UcodeType), v.Major, v.Minor, v.SubMinor}
		})}, r
	})
}

// NVLinkCounterControl says what a counter of an NVLink counts.
type NVLinkCounterControl struct {
	Unit    NVLinkUnit
	Packets NVLinkPackets
}

// linkCounter returns an error for a number of a link or of a counter that cannot be.
func (o *object) linkCounter(op string, link, counter int) error {
	if err := o.checkNumber(op, "link", link); err != nil {
		return err
	}
	return o.checkNumber(op, "counter", counter)
}

// NVLinkCounterControl returns what one of two counters of an NVLink counts (nvmlDeviceGetNvLinkUtilizationControl).
// GPUs since Ampere do not support it.
func (d *Device) NVLinkCounterControl(link, counter int) (NVLinkCounterControl, error) {
	const op = "nvmlDeviceGetNvLinkUtilizationControl"
	o := d.obj()
	if err := o.linkCounter(op, link, counter); err != nil {
		return NVLinkCounterControl{}, err
	}
	w, err := o.call(op, words{b: uint64(link), c: uint64(counter)}, func(l *raw.Library, w words) (words, raw.Return) {
		var c raw.NvLinkUtilizationControl
		r := l.DeviceGetNvLinkUtilizationControl(raw.Device(w.a), uint32(w.b), uint32(w.c), &c)
		return words{a: uint64(c.Units), b: uint64(c.Pktfilter)}, r
	})
	return NVLinkCounterControl{NVLinkUnit(w.a), NVLinkPackets(w.b)}, err
}

// SetNVLinkCounterControl says what one of two counters of an NVLink counts, and whether it begins at 0 again
// (nvmlDeviceSetNvLinkUtilizationControl). GPUs since Ampere do not support it.
func (d *Device) SetNVLinkCounterControl(link, counter int, c NVLinkCounterControl, reset bool) error {
	const op = "nvmlDeviceSetNvLinkUtilizationControl"
	o := d.obj()
	if err := o.linkCounter(op, link, counter); err != nil {
		return err
	}
	w := words{b: uint64(link), c: uint64(counter)<<32 | number[uint64](reset), d: uint64(c.Unit)<<32 | uint64(c.Packets)}
	_, err := o.call(op, w, func(l *raw.Library, w words) (words, raw.Return) {
		c := raw.NvLinkUtilizationControl{Units: raw.NvLinkUtilizationCountUnits(w.d >> 32),
			Pktfilter: raw.NvLinkUtilizationCountPktTypes(w.d)}
		return words{}, l.DeviceSetNvLinkUtilizationControl(raw.Device(w.a), uint32(w.b), uint32(w.c>>32), &c, uint32(w.c))
	})
	return err
}

// SetNVLinkLowPowerThreshold says how long an NVLink is idle before it goes into a state of low power
// (nvmlDeviceSetNvLinkDeviceLowPowerThreshold). [Device.Fields] reads the unit as FieldNVLinkGetPowerThresholdUnits,
// the least and the greatest value as FieldNVLinkGetPowerThresholdMin and Max. Only GPUs since Hopper have this.
func (d *Device) SetNVLinkLowPowerThreshold(threshold uint32) error {
	const op = "nvmlDeviceSetNvLinkDeviceLowPowerThreshold"
	_, err := d.obj().call(op, words{b: uint64(threshold)}, func(l *raw.Library, w words) (words, raw.Return) {
		t := raw.NvLinkPowerThres{LowPwrThreshold: uint32(w.b)}
		return words{}, l.DeviceSetNvLinkDeviceLowPowerThreshold(raw.Device(w.a), &t)
	})
	return err
}

// ResetNVLinkLowPowerThreshold undoes [Device.SetNVLinkLowPowerThreshold] (nvmlDeviceSetNvLinkDeviceLowPowerThreshold).
func (d *Device) ResetNVLinkLowPowerThreshold() error {
	return d.SetNVLinkLowPowerThreshold(raw.NVML_NVLINK_LOW_POWER_THRESHOLD_RESET)
}

// NVLinkBandwidthMode returns the mode of the bandwidth of the GPU's NVLinks, and whether it is the one with the
// highest bandwidth (nvmlDeviceGetNvlinkBwMode). Only GPUs since Blackwell have this.
func (d *Device) NVLinkBandwidthMode() (mode uint8, best bool, err error) {
	const op = "nvmlDeviceGetNvlinkBwMode"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		m := raw.NvlinkGetBwMode{Version: raw.NvlinkGetBwModeV1Version}
		r := l.DeviceGetNvlinkBwMode(raw.Device(w.a), &m)
		return words{a: uint64(m.BwMode), b: uint64(m.BIsBest)}, r
	})
	return uint8(w.a), w.b != 0, err
}

// SetNVLinkBandwidthMode sets the mode of the bandwidth of the GPU's NVLinks (nvmlDeviceSetNvlinkBwMode). It needs
// root.
func (d *Device) SetNVLinkBandwidthMode(mode uint8) error {
	return d.setBandwidthMode(words{b: uint64(mode)})
}

// SetBestNVLinkBandwidthMode sets the mode with the highest bandwidth of the GPU's NVLinks
// (nvmlDeviceSetNvlinkBwMode). It needs root.
func (d *Device) SetBestNVLinkBandwidthMode() error { return d.setBandwidthMode(words{c: 1}) }

// setBandwidthMode sets the mode b, or the best one if c is 1.
func (d *Device) setBandwidthMode(w words) error {
	_, err := d.obj().call("nvmlDeviceSetNvlinkBwMode", w, func(l *raw.Library, w words) (words, raw.Return) {
		m := raw.NvlinkSetBwMode{Version: raw.NvlinkSetBwModeV1Version, BwMode: uint8(w.b), BSetBest: uint32(w.c)}
		return words{}, l.DeviceSetNvlinkBwMode(raw.Device(w.a), &m)
	})
	return err
}

// NVLinkBandwidthModes returns the modes that [Device.SetNVLinkBandwidthMode] can set
// (nvmlDeviceGetNvlinkSupportedBwModes).
func (d *Device) NVLinkBandwidthModes() ([]uint8, error) {
	const op = "nvmlDeviceGetNvlinkSupportedBwModes"
	return get(d.obj(), op, func(l *raw.Library, h uint64) ([]uint8, raw.Return) {
		m := raw.NvlinkSupportedBwModes{Version: raw.NvlinkSupportedBwModesV1Version}
		r := l.DeviceGetNvlinkSupportedBwModes(raw.Device(h), &m)
		return append([]uint8(nil), m.BwModes[:min(int(m.TotalBwModes), len(m.BwModes))]...), r
	})
}

// C2C reports whether the GPU has a direct link to a processor of NVIDIA (nvmlDeviceGetC2cModeInfoV).
func (d *Device) C2C() (bool, error) {
	w, err := d.obj().call("nvmlDeviceGetC2cModeInfoV", words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var c raw.C2cModeInfoV1
		r := l.DeviceGetC2cModeInfoV(raw.Device(w.a), &c)
		return words{a: uint64(c.IsC2cEnabled)}, r
	})
	return w.a != 0, err
}
