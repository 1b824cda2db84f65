package nvml

import (
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// VGPUUtilization says how a virtual GPU has used its GPU.
type VGPUUtilization struct {
	VGPU                                            *VGPU
	Time                                            time.Time // when this was measured
	SM, Memory, Encoder, Decoder, JPEG, OpticalFlow Percent
}

// VGPUProcessUtilization says how a process in a virtual machine has used a GPU.
type VGPUProcessUtilization struct {
	VGPU                                            *VGPU
	PID                                             uint32 // in the virtual machine
	Process                                         string
	Time                                            time.Time // when this was measured
	SM, Memory, Encoder, Decoder, JPEG, OpticalFlow Percent
}

// VGPUUtilization returns how the virtual GPUs have used the GPU after a time, for example that of an earlier result
// (nvmlDeviceGetVgpuInstancesUtilizationInfo, and nvmlDeviceGetVgpuUtilization for older drivers, which leaves JPEG and
// OpticalFlow at 0). The zero Time asks for all that the driver has kept. The list is empty if there is nothing.
func (d *Device) VGPUUtilization(since time.Time) ([]VGPUUtilization, error) {
	const op = "nvmlDeviceGetVgpuInstancesUtilizationInfo"
	after := microseconds(since)
	o := d.obj()
	return get(o, op, func(l *raw.Library, h uint64) (used []VGPUUtilization, r raw.Return) {
		var kind raw.ValueType
		all, r := list(func(n *uint32, infos []raw.VgpuInstanceUtilizationInfoV1) raw.Return {
			u := raw.VgpuInstancesUtilizationInfo{Version: raw.VgpuInstancesUtilizationInfoV1Version, VgpuInstanceCount: *n,
				LastSeenTimeStamp: after, VgpuUtilArray: first(infos)}
			r := l.DeviceGetVgpuInstancesUtilizationInfo(raw.Device(h), &u)
			*n, kind = u.VgpuInstanceCount, u.SampleValType
			return r
		})
		if lacks(r) {
			var older []raw.VgpuInstanceUtilizationSample
			older, r = list(func(n *uint32, samples []raw.VgpuInstanceUtilizationSample) raw.Return {
				return l.DeviceGetVgpuUtilization(raw.Device(h), after, &kind, n, samples)
			})
			for _, u := range older {
				all = append(all, raw.VgpuInstanceUtilizationInfoV1{TimeStamp: u.TimeStamp, VgpuInstance: u.VgpuInstance,
					SmUtil: u.SmUtil, MemUtil: u.MemUtil, EncUtil: u.EncUtil, DecUtil: u.DecUtil})
			}
		}
		for _, u := range all {
			of := func(v raw.Value) Percent { return Percent(Value{kind, v}.Uint64()) }
			used = append(used, VGPUUtilization{o.vgpu(u.VgpuInstance), sinceEpoch(u.TimeStamp), of(u.SmUtil), of(u.MemUtil),
				of(u.EncUtil), of(u.DecUtil), of(u.JpgUtil), of(u.OfaUtil)})
		}
		return used, none(r)
	})
}

// VGPUProcessUtilization returns how processes in virtual machines have used the GPU after a time, for example that of
// an earlier result (nvmlDeviceGetVgpuProcessesUtilizationInfo, and nvmlDeviceGetVgpuProcessUtilization for older
// drivers, which leaves JPEG and OpticalFlow at 0). The zero Time asks for all that the driver has kept. The list is
// empty if no process was busy.
func (d *Device) VGPUProcessUtilization(since time.Time) ([]VGPUProcessUtilization, error) {
	const op = "nvmlDeviceGetVgpuProcessesUtilizationInfo"
	after := microseconds(since)
	o := d.obj()
	return get(o, op, func(l *raw.Library, h uint64) (used []VGPUProcessUtilization, r raw.Return) {
		all, r := list(func(n *uint32, infos []raw.VgpuProcessUtilizationInfoV1) raw.Return {
			u := raw.VgpuProcessesUtilizationInfo{Version: raw.VgpuProcessesUtilizationInfoV1Version, VgpuProcessCount: *n,
				LastSeenTimeStamp: after, VgpuProcUtilArray: first(infos)}
			r := l.DeviceGetVgpuProcessesUtilizationInfo(raw.Device(h), &u)
			*n = u.VgpuProcessCount
			return r
		})
		if lacks(r) {
			var older []raw.VgpuProcessUtilizationSample
			older, r = list(func(n *uint32, samples []raw.VgpuProcessUtilizationSample) raw.Return {
				return l.DeviceGetVgpuProcessUtilization(raw.Device(h), after, n, samples)
			})
			for _, u := range older {
				all = append(all, raw.VgpuProcessUtilizationInfoV1{ProcessName: u.ProcessName, TimeStamp: u.TimeStamp,
					VgpuInstance: u.VgpuInstance, Pid: u.Pid, SmUtil: u.SmUtil, MemUtil: u.MemUtil, EncUtil: u.EncUtil,
					DecUtil: u.DecUtil})
			}
		}
		for _, u := range all {
			used = append(used, VGPUProcessUtilization{o.vgpu(u.VgpuInstance), u.Pid, text(u.ProcessName[:]),
				sinceEpoch(u.TimeStamp), Percent(u.SmUtil), Percent(u.MemUtil), Percent(u.EncUtil), Percent(u.DecUtil),
				Percent(u.JpgUtil), Percent(u.OfaUtil)})
		}
		return used, none(r)
	})
}

// VGPULicense says whether a virtual GPU has a license.
type VGPULicense struct {
	Licensed bool
	State    VGPULicenseState
	// ExpiryStatus says what Expiry means.
	ExpiryStatus LicenseExpiryStatus
	// Expiry is when the license ends, in UTC. It is zero unless ExpiryStatus is [LicenseExpiryValid].
	Expiry time.Time
}

// License returns whether the virtual GPU has a license, and until when (nvmlVgpuInstanceGetLicenseInfo_v2, and
// nvmlVgpuInstanceGetLicenseInfo for older drivers). The error matches [ErrDriverNotLoaded] as long as no driver runs
// in the virtual machine.
func (v *VGPU) License() (VGPULicense, error) {
	return get(v.obj(), "nvmlVgpuInstanceGetLicenseInfo_v2", func(l *raw.Library, h uint64) (VGPULicense, raw.Return) {
		var i raw.VgpuLicenseInfo
		r := l.VgpuInstanceGetLicenseInfoV2(raw.VgpuInstance(h), &i)
		if lacks(r) {
			r = l.VgpuInstanceGetLicenseInfo(raw.VgpuInstance(h), &i)
		}
		e := i.LicenseExpiry
		license := VGPULicense{Licensed: i.IsLicensed != 0, State: VGPULicenseState(i.CurrentState),
			ExpiryStatus: LicenseExpiryStatus(e.Status)}
		if e.Status == raw.NVML_GRID_LICENSE_EXPIRY_VALID {
			license.Expiry = time.Date(int(e.Year), time.Month(e.Month), int(e.Day), int(e.Hour), int(e.Min), int(e.Sec), 0,
				time.UTC)
		}
		return license, r
	})
}
