package nvml_test

import (
	"errors"
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// useFake has busy virtual GPUs; older ones know the older functions only.
type useFake struct {
	base
	older, idle bool
}

const stamp = 1_700_000_000_000_000

func uint32Value(n uint32) (v raw.Value) {
	*v.UiVal() = n
	return v
}

func doubleValue(n float64) (v raw.Value) {
	*v.DVal() = n
	return v
}

func (f *useFake) DeviceGetVgpuInstancesUtilizationInfo(d raw.Device, u *raw.VgpuInstancesUtilizationInfo) raw.Return {
	switch {
	case f.older:
		return raw.Unimplemented{}.DeviceGetVgpuInstancesUtilizationInfo(d, u)
	case f.idle:
		return raw.NVML_ERROR_NOT_FOUND
	case u.VgpuInstanceCount == 0:
		u.VgpuInstanceCount = 1
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	u.VgpuInstanceCount, u.SampleValType = 1, raw.NVML_VALUE_TYPE_UNSIGNED_INT
	*u.VgpuUtilArray = raw.VgpuInstanceUtilizationInfoV1{TimeStamp: u.LastSeenTimeStamp + 1, VgpuInstance: 7,
		SmUtil:  uint32Value(1),
		MemUtil: uint32Value(2), EncUtil: uint32Value(3), DecUtil: uint32Value(4), JpgUtil: uint32Value(5),
		OfaUtil: uint32Value(6)}
	return raw.NVML_SUCCESS
}

func (f *useFake) DeviceGetVgpuUtilization(d raw.Device, last uint64, t *raw.ValueType, n *uint32,
	list []raw.VgpuInstanceUtilizationSample) raw.Return {
	*t = raw.NVML_VALUE_TYPE_DOUBLE
	return fillList(n, list, raw.VgpuInstanceUtilizationSample{TimeStamp: last + 1, VgpuInstance: 7,
		SmUtil:  doubleValue(1),
		MemUtil: doubleValue(2), EncUtil: doubleValue(3), DecUtil: doubleValue(4)})
}

func (f *useFake) DeviceGetVgpuProcessesUtilizationInfo(d raw.Device, u *raw.VgpuProcessesUtilizationInfo) raw.Return {
	switch {
	case f.older:
		return raw.Unimplemented{}.DeviceGetVgpuProcessesUtilizationInfo(d, u)
	case f.idle:
		return raw.NVML_ERROR_NOT_FOUND
	case u.VgpuProcessCount == 0:
		u.VgpuProcessCount = 1
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	u.VgpuProcessCount = 1
	*u.VgpuProcUtilArray = raw.VgpuProcessUtilizationInfoV1{TimeStamp: u.LastSeenTimeStamp + 1, VgpuInstance: 7,
		Pid: 99, SmUtil: 1,
		MemUtil: 2, EncUtil: 3, DecUtil: 4, JpgUtil: 5, OfaUtil: 6}
	return fill(u.VgpuProcUtilArray.ProcessName[:], "a.exe")
}

func (f *useFake) DeviceGetVgpuProcessUtilization(d raw.Device, last uint64, n *uint32,
	list []raw.VgpuProcessUtilizationSample) raw.Return {
	s := raw.VgpuProcessUtilizationSample{TimeStamp: last + 1, VgpuInstance: 7, Pid: 99, SmUtil: 1, MemUtil: 2,
		EncUtil: 3, DecUtil: 4}
	fill(s.ProcessName[:], "a.exe")
	return fillList(n, list, s)
}

func (f *useFake) VgpuInstanceGetLicenseInfo(v raw.VgpuInstance, i *raw.VgpuLicenseInfo) raw.Return {
	*i = raw.VgpuLicenseInfo{IsLicensed: 1, CurrentState: raw.NVML_GRID_LICENSE_STATE_LICENSED,
		LicenseExpiry: raw.VgpuLicenseExpiry{
			Year: 2030, Month: 2, Day: 3, Hour: 4, Min: 5, Sec: 6, Status: raw.NVML_GRID_LICENSE_EXPIRY_VALID}}
	if v == 8 {
		i.LicenseExpiry.Status = raw.NVML_GRID_LICENSE_EXPIRY_PERMANENT
	}
	return raw.NVML_SUCCESS
}

func TestVGPUUtilization(t *testing.T) {
	since := time.UnixMicro(stamp)
	for _, older := range []bool{false, true} {
		d := device(t, &useFake{older: older})
		use := nvml.VGPUUtilization{Time: since.Add(time.Microsecond), SM: 1, Memory: 2, Encoder: 3, Decoder: 4}
		process := nvml.VGPUProcessUtilization{Time: use.Time, PID: 99, Process: "a.exe", SM: 1, Memory: 2, Encoder: 3,
			Decoder: 4}
		if !older {
			use.JPEG, use.OpticalFlow, process.JPEG, process.OpticalFlow = 5, 6, 5, 6
		}
		got := must(d.VGPUUtilization(since))(t)
		if len(got) != 1 || got[0].VGPU.String() != "device 0, vGPU 7" {
			t.Fatalf("%+v", got)
		}
		use.VGPU = got[0].VGPU
		if got[0] != use {
			t.Errorf("%+v is not %+v", got[0], use)
		}
		processes := must(d.VGPUProcessUtilization(since))(t)
		if len(processes) != 1 || processes[0].VGPU.Handle() != 7 {
			t.Fatalf("%+v", processes)
		}
		process.VGPU = processes[0].VGPU
		if processes[0] != process {
			t.Errorf("%+v is not %+v", processes[0], process)
		}
		if got := must(d.VGPUUtilization(time.Time{}))(t); got[0].Time.UnixMicro() != 1 {
			t.Errorf("the time is %v", got[0].Time)
		}
	}
	d := device(t, &useFake{idle: true})
	equal(t, "the use of an idle GPU", []nvml.VGPUUtilization(nil))(d.VGPUUtilization(since))
	equal(t, "processes of an idle GPU", []nvml.VGPUProcessUtilization(nil))(d.VGPUProcessUtilization(since))
	_, err := device(t, base{}).VGPUUtilization(since)
	fails(t, "a library without virtual GPUs", err, errors.ErrUnsupported)
}

func TestVGPULicense(t *testing.T) {
	l := open(t, &useFake{})
	want := nvml.VGPULicense{Licensed: true, State: nvml.VGPULicenseLicensed, ExpiryStatus: nvml.LicenseExpiryValid,
		Expiry: time.Date(2030, 2, 3, 4, 5, 6, 0, time.UTC)}
	equal(t, "the license", want)(l.VGPU(7).License())
	want.ExpiryStatus, want.Expiry = nvml.LicenseExpiryPermanent, time.Time{}
	equal(t, "the permanent license", want)(l.VGPU(8).License())
}
