package nvml

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/loader"
	"github.com/purecu/purecu/nvml/raw"
)

// openGPU opens the library of a machine with a GPU.
func openGPU(t testing.TB, opts ...Option) *Library {
	t.Helper()
	if os.Getenv("PURECU_TEST_GPU") == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	lib, err := Open(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lib.Close(); err != nil {
			t.Error(err)
		}
	})
	return lib
}

// getters returns the methods of v that have no parameters and return something with an error: they change nothing.
func getters(v reflect.Value) (list []reflect.Method) {
	for i := range v.NumMethod() {
		m := v.Type().Method(i)
		n := m.Type.NumOut()
		if m.Type.NumIn() == 1 && n >= 2 && m.Type.Out(n-1) == reflect.TypeFor[error]() {
			list = append(list, m)
		}
	}
	return list
}

// ask calls the getters of v, and checks that each returns a value, or an error of a known kind. It logs the answers.
func ask(t *testing.T, who string, v reflect.Value) {
	t.Helper()
	answered := 0
	list := getters(v)
	for _, m := range list {
		results := m.Func.Call([]reflect.Value{v})
		err, _ := results[len(results)-1].Interface().(error)
		if err == nil {
			answered++
			var values []string
			for _, r := range results[:len(results)-1] {
				values = append(values, fmt.Sprintf("%+v", r.Interface()))
			}
			t.Logf("%s.%s: %.300s", who, m.Name, strings.Join(values, ", "))
			continue
		}
		e, ok := err.(*Error)
		if !ok || e.Detail == "" && !unsupported(err) || e.Op == "" {
			t.Errorf("%s.%s: %v: not an *Error with a remedy", who, m.Name, err)
		}
		allowed := []Return{ErrNotSupported, ErrNotFound, ErrNoPermission, ErrInvalidArgument, raw.NVML_ERROR_NOT_READY,
			raw.NVML_ERROR_UNKNOWN} // the certificate of a GPU that is not confidential
		if !unsupported(err) && !slices.Contains(allowed, e.Return) {
			t.Errorf("%s.%s: %v", who, m.Name, err)
		}
		t.Logf("%s.%s: %v", who, m.Name, e.Return)
	}
	t.Logf("%s: %d of %d getters have a value", who, answered, len(list))
	if answered*4 < len(list) {
		t.Errorf("%s: only %d of %d getters have a value", who, answered, len(list))
	}
}

// TestGPUGetters asks the machine's GPUs everything that needs no argument, with a bound and without one.
func TestGPUGetters(t *testing.T) {
	lib := openGPU(t)
	ask(t, "Library", reflect.ValueOf(lib))
	for dev, err := range lib.Devices() {
		if err != nil {
			t.Fatal(err)
		}
		ask(t, dev.String(), reflect.ValueOf(dev))
		ask(t, dev.String()+" with a bound", reflect.ValueOf(dev.WithTimeout(10*time.Second)))
	}
	if n := lib.Exceeded(); n != 0 {
		t.Errorf("%d calls were not answered in 10 seconds", n)
	}
}

// TestGPUValues compares values with each other, and with what is known of every GPU.
func TestGPUValues(t *testing.T) {
	lib := openGPU(t, WithTimeout(10*time.Second))
	for dev, err := range lib.Devices() {
		if err != nil {
			t.Fatal(err)
		}
		id, err := dev.UUID()
		same, err2 := lib.DeviceByUUID(id)
		if err != nil || err2 != nil || same.Handle() != dev.Handle() {
			t.Errorf("%s: the UUID %q finds another device (%v, %v)", dev, id, err, err2)
		}
		b, err := id.Bytes()
		if err != nil || UUIDOf(b) != id {
			t.Errorf("the bytes of %s are %x (%v)", id, b, err)
		}
		temp, err := dev.Temperature(TemperatureGPU)
		if err != nil || temp < 10 || temp > 110 {
			t.Errorf("%s has %v (%v)", dev, temp, err)
		}
		power, err := dev.PowerUsage()
		if err != nil || power.Watts() < 10 || power.Watts() > 1500 {
			t.Errorf("%s draws %v (%v)", dev, power, err)
		}
		least, most, err := dev.PowerLimits()
		limit, err2 := dev.PowerLimit()
		if err != nil || err2 != nil || limit < least || limit > most {
			t.Errorf("the limit of %s is %v of %v to %v (%v, %v)", dev, limit, least, most, err, err2)
		}
		clocks, err := dev.SupportedMemoryClocks()
		if err != nil || len(clocks) == 0 {
			t.Fatalf("%s has memory clocks %v (%v)", dev, clocks, err)
		}
		if graphics, err := dev.SupportedGraphicsClocks(clocks[0]); err != nil || len(graphics) == 0 {
			t.Errorf("beside %v %s has %v (%v)", clocks[0], dev, graphics, err)
		}
	}
	if _, err := lib.Device(1000); err == nil || err.(*Error).Return != ErrInvalidArgument {
		t.Errorf("device 1000: %v", err)
	}
	_, err := lib.DeviceByUUID("GPU-00000000-0000-0000-0000-000000000000")
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("a UUID of no device: %v", err)
	}
}

// BenchmarkAgainstC compares calls with the same calls in a loop in C, which tests/gpu/baseline.c makes, and with those
// of package raw. It prints a table.
func BenchmarkAgainstC(b *testing.B) {
	lib := openGPU(b)
	path := filepath.Join(os.Getenv("PURECU_TEST_CLIB"), "libbaseline.so")
	if os.Getenv("PURECU_TEST_CLIB") == "" {
		path = filepath.Join(b.TempDir(), "libbaseline.so")
		cc := exec.Command("cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", path, "../tests/gpu/baseline.c")
		if out, err := cc.CombinedOutput(); err != nil {
			b.Skipf("no C baseline: %v\n%s", err, out)
		}
	}
	baseline, err := ccall.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	loop, err := baseline.Lookup("baseline_loop2")
	if err != nil {
		b.Fatal(err)
	}
	nvml, err := loader.OpenLibrary(loader.NVML, "")
	if err != nil {
		b.Fatal(err)
	}
	dev, err := lib.Device(0)
	if err != nil {
		b.Fatal(err)
	}
	bounded := dev.WithTimeout(time.Minute)
	direct := raw.New(nvml)
	for _, row := range []struct {
		function string
		call     func(d *Device) error
		direct   func(d raw.Device, n *uint32) raw.Return
	}{
		{"nvmlDeviceGetIndex", func(d *Device) error { _, err := d.Index(); return err },
			direct.DeviceGetIndex},
		{"nvmlDeviceGetMaxPcieLinkWidth", func(d *Device) error { _, err := d.MaxPCIeWidth(); return err },
			direct.DeviceGetMaxPcieLinkWidth},
		{"nvmlDeviceGetEnforcedPowerLimit", func(d *Device) error { _, err := d.EnforcedPowerLimit(); return err },
			direct.DeviceGetEnforcedPowerLimit},
		{"nvmlDeviceGetPowerUsage", func(d *Device) error { _, err := d.PowerUsage(); return err },
			direct.DeviceGetPowerUsage},
		{"nvmlDeviceGetPerformanceState", func(d *Device) error { _, err := d.PerformanceState(); return err },
			func(d raw.Device, n *uint32) raw.Return {
				return direct.DeviceGetPerformanceState(d, (*raw.Pstates)(n))
			}},
	} {
		fn, err := nvml.Symbol(row.function)
		if err != nil {
			b.Fatal(err)
		}
		times := [4][]float64{}
		const rounds = 15
		n := 2000
		if began := time.Now(); row.call(dev) == nil && time.Since(began) > 100*time.Microsecond {
			n = 40
		}
		for range rounds {
			var result uint64
			r, err := ccall.Invoke(loop, ccall.Blocking, fn, uintptr(dev.Handle()), &result, uintptr(n))
			if err != nil {
				b.Fatal(err)
			}
			times[0] = append(times[0], float64(r)/1000)
			began := time.Now()
			for range n {
				var result uint32
				if r := row.direct(dev.Handle(), &result); r != raw.NVML_SUCCESS {
					b.Fatal(r)
				}
			}
			times[3] = append(times[3], float64(time.Since(began).Nanoseconds())/float64(n))
			for i, d := range []*Device{dev, bounded} {
				began := time.Now()
				for range n {
					if err := row.call(d); err != nil {
						b.Fatal(err)
					}
				}
				times[i+1] = append(times[i+1], float64(time.Since(began).Nanoseconds())/float64(n))
			}
		}
		var medians [4]float64
		for i, list := range times {
			slices.Sort(list)
			medians[i] = list[rounds/2]
		}
		b.Logf("| %s | %.0f | %+.0f | %+.0f | %+.0f |", row.function, medians[0], medians[3]-medians[0],
			medians[1]-medians[0], medians[2]-medians[0])
	}
	b.Logf("nanoseconds of a call in C, what raw adds, what package nvml adds, and what it adds with a bound; %s, %s",
		must(lib.DriverVersion()), must(dev.Name()))
}

func must[T any](v T, _ error) T { return v }
