package nvml_test

import (
	"errors"
	"math"
	"os"
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
)

// TestGPUMetrics reads metrics of the GPUs of a machine.
func TestGPUMetrics(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	l, err := nvml.Open(nvml.WithTimeout(20 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for d, err := range l.Devices() {
		if err != nil {
			t.Error(err)
			continue
		}
		if has, err := d.GPMSupported(); !has {
			t.Logf("%v has no GPM (%v)", d, err)
			continue
		}
		before, err := d.GPMSample()
		if err != nil {
			t.Logf("%v", err) // it may need root
			continue
		}
		defer before.Close()
		time.Sleep(200 * time.Millisecond)
		after := must(d.GPMSample())(t)
		defer after.Close()
		for _, v := range must(after.Since(before, nvml.GPMGraphicsUtilization, nvml.GPMSMOccupancy,
			nvml.GPMDRAMBandwidthUtilization, nvml.GPMFP64Utilization, nvml.GPMPCIeRXPerSecond))(t) {
			if v.Err != nil && !errors.Is(v.Err, errors.ErrUnsupported) || v.Err == nil && (math.IsNaN(v.Value) || v.Value < 0) {
				t.Errorf("%v: %+v", d, v)
			}
			t.Logf("%v: %v is %g %s, %q (%v)", d, v.Metric, v.Value, v.Unit, v.Name, v.Err)
		}
		if err := before.Take(); err != nil {
			t.Error(err)
		}
	}
}

// TestGPUInstanceProfiles reads what GPU instances the GPUs of a machine can have, also if MIG is off.
func TestGPUInstanceProfiles(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	l, err := nvml.Open(nvml.WithTimeout(20 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for d, err := range l.Devices() {
		if err != nil {
			t.Error(err)
			continue
		}
		all, err := d.GPUInstanceProfiles()
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v: %v", d, err)
		}
		for _, p := range all {
			if p.Name == "" || p.Slices == 0 || p.Multiprocessors == 0 || p.Memory == 0 || p.MaxInstances == 0 {
				t.Errorf("%v: %+v", d, p)
			}
			places, err := d.GPUInstancePlacements(p.ID)
			t.Logf("%v: %+v at %v (%v)", d, p, places, err)
			if q, err := d.GPUInstanceProfileByID(p.ID); err != nil || q.Name != p.Name || q.Memory != p.Memory {
				t.Errorf("%v: %+v by its ID (%v)", d, q, err)
			}
		}
	}
}
