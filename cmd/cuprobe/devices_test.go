package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/cu"
)

func TestDevices(t *testing.T) {
	f := newFake(t)
	r := f.run("devices")
	const want = `driver   PATH, CUDA 12.8

#  NAME        CC   SMS  CLOCK    FREE/TOTAL GIB  PCI           UUID
0  Fake GPU 0  9.0  16   0.00GHz  8.0/16.0        0000:3B:00.0  GPU-00102030-4050-6070-8090-a0b0c0d0e0f0
1  Fake GPU 1  9.0  16   0.00GHz  8.0/16.0        0000:3C:00.0  GPU-01112131-4151-6171-8191-a1b1c1d1e1f1
2  Fake GPU 2  9.0  16   0.00GHz  8.0/16.0        0000:3D:00.0  GPU-02122232-4252-6272-8292-a2b2c2d2e2f2

peer access, from the device on the left
       0    1    2
  0       yes  yes
  1  yes       yes
  2  yes  yes
`
	if diff := cmp.Diff(want, strings.ReplaceAll(r.stdout, f.path, "PATH")); diff != "" || r.status != exitOK ||
		r.stderr != "" {
		t.Errorf("exit status %d, %q (-want +got):\n%s", r.status, r.stderr, diff)
	}
}

// fakeDevice is the information of the fake driver about a device.
func fakeDevice(n int) deviceInfo {
	return deviceInfo{
		Ordinal: n, Name: fmt.Sprintf("Fake GPU %d", n), PCIBusID: fmt.Sprintf("0000:%02X:00.0", 0x3b+n),
		UUID: fmt.Sprintf("GPU-0%[1]d1%[1]d2%[1]d3%[1]d-4%[1]d5%[1]d-6%[1]d7%[1]d-8%[1]d9%[1]d-a%[1]db%[1]dc%[1]dd%[1]de%[1]df%[1]d", n),
		// The value of most attributes is their own number.
		ComputeCapability: "9.0", Multiprocessors: 16, ClockKHz: 13, MemoryTotal: 16 << 30,
	}
}

func TestDevicesJSON(t *testing.T) {
	f := newFake(t)
	r := f.run("devices", "-json")
	var got devicesReport
	decode(t, r, &got)
	documented(t, "devices", r.stdout)
	free := uint64(8 << 30)
	want := devicesReport{Driver: driverInfo{Library: f.path, Version: 12080, CUDA: "12.8"}}
	for n := range 3 {
		want.Devices = append(want.Devices, deviceDetail{deviceInfo: fakeDevice(n), MemoryFree: &free})
		for to := range 3 {
			if to != n {
				want.Peers = append(want.Peers, peer{n, to, true})
			}
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(deviceDetail{})); diff != "" || r.status != exitOK {
		t.Errorf("exit status %d (-want +got):\n%s", r.status, diff)
	}

	// One device has no peers, and -v lists all attributes.
	r = f.run("devices", "-json", "-device", "1", "-v")
	got = devicesReport{}
	decode(t, r, &got)
	documented(t, "devices", r.stdout)
	if len(got.Devices) != 1 || got.Devices[0].Ordinal != 1 || len(got.Peers) != 0 || r.status != exitOK {
		t.Fatalf("exit status %d: %+v", r.status, got)
	}
	for a, v := range map[cu.DeviceAttribute]int{cu.DeviceAttributeWarpSize: 10,
		cu.DeviceAttributeComputeCapabilityMajor: 9} {
		if got.Devices[0].Attributes[a.String()] != v {
			t.Errorf("%v is %d, want %d", a, got.Devices[0].Attributes[a.String()], v)
		}
	}
	if text := f.run("devices", "-device", "1", "-v").stdout; !strings.Contains(text, "\ndevice 1\n") ||
		strings.Count(text, "\n  ") != len(got.Devices[0].Attributes) || strings.Contains(text, "peer access") {
		t.Errorf("with -v it says\n%s", text)
	}
}

// TestDevicesPartly lists a device that cannot be used now, with a driver that lacks some
// properties.
func TestDevicesPartly(t *testing.T) {
	f := newFake(t)
	f.fail("cuDevicePrimaryCtxRetain", 2, cu.ResultDeviceUnavailable)
	r := f.run("devices")
	if r.status != exitOK || !strings.Contains(r.stdout, "0.00GHz  ?/16.0") ||
		strings.Count(r.stdout, "8.0/16.0") != 2 ||
		!strings.Contains(r.stdout, "device 1: its free memory is not known: cu: cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	f.fail("cuDevicePrimaryCtxRetain", 2, cu.ResultDeviceUnavailable)
	r = f.run("devices", "-json")
	var got devicesReport
	decode(t, r, &got)
	documented(t, "devices", r.stdout)
	if d := got.Devices[1]; d.MemoryFree != nil ||
		!strings.Contains(d.MemoryFreeError, "CUDA_ERROR_DEVICE_UNAVAILABLE") {
		t.Errorf("%+v", d)
	}

	f.fail("cuDeviceGetUuid_v2", 0, cu.ResultNotSupported)
	f.fail("cuDeviceGetPCIBusId", 0, cu.ResultNotSupported)
	r = f.run("devices", "-device", "0")
	if r.status != exitOK || !strings.Contains(r.stdout, "8.0/16.0        ?    ?\n") {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

// TestNoSuchDevice names a device that does not exist: all commands that need a device fail. For
// the doctor see TestDoctorNoSuchDevice.
func TestNoSuchDevice(t *testing.T) {
	f := newFake(t)
	for _, command := range []string{"demo", "time", "devices"} {
		r := f.run(command, "-device", "99")
		const says = "there is no device 99: the driver has the devices 0 to 2"
		if r.status != exitFailure || r.stdout != "" || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: exit status %d\n%s%s", command, r.status, r.stdout, r.stderr)
		}
		r = f.run(command, "-device", "99", "-json")
		var v struct{ Error failure }
		decode(t, r, &v)
		want := failure{Op: "cuDeviceGet", Result: "CUDA_ERROR_INVALID_DEVICE", Code: 101,
			Doc: "docs/errors.md#cuda_error_invalid_device"}
		got := v.Error
		got.Message, got.Fix = "", ""
		if diff := cmp.Diff(want, got); diff != "" || v.Error.Fix == "" ||
			!strings.Contains(v.Error.Message, "there is no device 99") {
			t.Errorf("%s: %+v", command, v)
		}
	}
}
