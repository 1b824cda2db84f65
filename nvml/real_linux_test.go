package nvml_test

import (
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
)

// changers are what the names of methods begin with that change something.
var changers = []string{"Set", "Clear", "Reset", "Remove", "Destroy", "Create", "Close", "Lock", "Unlock", "Unload",
	"Validate",
	"Take", "Discover", "Request", "Replace", "Freeze", "With"}

// TestGPUReads calls all methods that only read, and that have no arguments, on a machine with a GPU. What the machine
// does not have, or what needs root, is an error that says so.
func TestGPUReads(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	l, err := nvml.Open(nvml.WithTimeout(20 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	read(t, l)
	for u, err := range l.Units() {
		if err == nil {
			read(t, u)
		}
	}
	for d, err := range l.Devices() {
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		read(t, d)
		for mig, err := range d.MIGDevices() {
			if err == nil {
				read(t, mig)
			}
		}
		realGPM(t, d)
	}
}

// read calls the methods of v.
func read(t *testing.T, v any) {
	value := reflect.ValueOf(v)
	for i := range value.NumMethod() {
		name, method := value.Type().Method(i).Name, value.Method(i)
		changes := false
		for _, word := range changers {
			changes = changes || strings.HasPrefix(name, word)
		}
		results := method.Type().NumOut()
		if changes || method.Type().NumIn() > 0 || results < 2 || method.Type().Out(results-1) != reflect.TypeFor[error]() {
			continue
		}
		got := method.Call(nil)
		var show []any
		for _, g := range got[:results-1] {
			show = append(show, g.Interface())
		}
		err, _ := got[results-1].Interface().(error)
		switch {
		case err == nil:
			t.Logf("%s: %+.300v", name, show)
		case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, nvml.ErrNoPermission) || errors.Is(err,
			nvml.ErrNotFound):
			t.Logf("%s: %v", name, err)
		default:
			t.Errorf("%s: %v", name, err)
		}
	}
}

// realGPM takes two samples.
func realGPM(t *testing.T, d *nvml.Device) {
	if has, err := d.GPMSupported(); !has {
		t.Logf("there is no GPM (%v)", err)
		return
	}
	before, err := d.GPMSample()
	if err != nil {
		t.Logf("%v", err)
		return
	}
	defer before.Close()
	time.Sleep(200 * time.Millisecond)
	after, err := d.GPMSample()
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	values, err := after.Since(before, nvml.GPMGraphicsUtilization, nvml.GPMSMOccupancy, nvml.GPMDRAMBandwidthUtilization)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if v.Err == nil && (math.IsNaN(v.Value) || v.Value < 0) {
			t.Errorf("%+v", v)
		}
		t.Logf("%+v", v)
	}
}
