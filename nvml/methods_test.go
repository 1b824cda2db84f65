package nvml_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/internal/testrig/override"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// basis is an NVML with GPUs that have nothing but an index.
type basis struct{}

func (basis) InitV2() raw.Return   { return raw.NVML_SUCCESS }
func (basis) Shutdown() raw.Return { return raw.NVML_SUCCESS }

const firstHandle = 0x100

func (basis) DeviceGetHandleByIndexV2(index uint32, d *raw.Device) raw.Return {
	*d = firstHandle + raw.Device(index)
	return raw.NVML_SUCCESS
}

func (basis) DeviceGetIndex(d raw.Device, index *uint32) raw.Return {
	if d < firstHandle {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	*index = uint32(d - firstHandle)
	return raw.NVML_SUCCESS
}

// deviceOf returns the first GPU of an NVML.
func deviceOf(t *testing.T, s any) *nvml.Device {
	t.Helper()
	lib, err := nvml.Open(nvml.WithSoftware(override.NVML(s)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lib.Close() })
	d, err := lib.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wants returns a function that checks the result of a method, which it gets as it is.
func wants[T any](t *testing.T, want T) func(got T, err error) {
	t.Helper()
	return func(got T, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the result is %+v (%v), want %+v", got, err, want)
		}
	}
}

// isError checks that an error matches another.
func isError(t *testing.T, err, target error) {
	t.Helper()
	var e *nvml.Error
	if !errors.Is(err, target) || !errors.As(err, &e) {
		t.Errorf("the error is %v, want %v", err, target)
	}
}

// failing calls each method of v that returns an error, with arguments that are zero, and passes the error to check.
func failing(t *testing.T, v any, check func(t *testing.T, err error)) {
	r := reflect.ValueOf(v)
	for i := range r.NumMethod() {
		f := r.Method(i)
		last := f.Type().NumOut() - 1
		if last < 0 || f.Type().Out(last) != reflect.TypeFor[error]() {
			continue
		}
		t.Run(r.Type().Method(i).Name, func(t *testing.T) {
			in := make([]reflect.Value, f.Type().NumIn())
			for i := range in {
				in[i] = reflect.Zero(f.Type().In(i))
			}
			call := f.Call
			if f.Type().IsVariadic() {
				call = f.CallSlice
			}
			out := call(in)
			err, _ := out[last].Interface().(error)
			check(t, err)
			for _, o := range out[:last] {
				if !o.IsZero() {
					t.Errorf("the result beside the error is %v", o)
				}
			}
		})
	}
}

// TestNilReceivers checks that every method of a nil pointer and of a zero value returns an error.
func TestNilReceivers(t *testing.T) {
	for _, v := range []any{(*nvml.Library)(nil), (*nvml.Device)(nil), (*nvml.Unit)(nil), (*nvml.GPUInstance)(nil),
		(*nvml.ComputeInstance)(nil), (*nvml.VGPU)(nil), (*nvml.VGPUType)(nil), (*nvml.GPMSample)(nil), (*nvml.EventSet)(nil),
		(*nvml.SystemEventSet)(nil), new(nvml.Library), new(nvml.Device), new(nvml.Unit), new(nvml.GPUInstance),
		new(nvml.ComputeInstance), new(nvml.VGPU), new(nvml.VGPUType), new(nvml.GPMSample), new(nvml.EventSet),
		new(nvml.SystemEventSet)} {
		failing(t, v, func(t *testing.T, err error) { isError(t, err, nvml.ErrNil) })
	}
}

// TestNothing checks every method of a GPU that has nothing, also with a bound.
func TestNothing(t *testing.T) {
	known := raw.NewSoftware(override.NVML(basis{}))
	check := func(t *testing.T, err error) {
		var e *nvml.Error
		switch {
		case strings.HasSuffix(t.Name(), "/Index") && err == nil:
		case errors.Is(err, nvml.ErrNil): // an argument
		case !errors.As(err, &e) || e.Device == "" || !known.Has(e.Op):
			t.Errorf("the error is %v, without the device or the function", err)
		case !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, nvml.ErrInvalidArgument):
			t.Errorf("the error is %v", err)
		}
	}
	d := deviceOf(t, basis{})
	t.Run("Free", func(t *testing.T) { failing(t, d, check) })
	t.Run("Bound", func(t *testing.T) { failing(t, d.WithTimeout(time.Minute), check) })
}
