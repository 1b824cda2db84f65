package nvml_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/purecu/purecu/internal/testrig/override"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// base is an NVML that can be opened and has devices, and nothing else. The fakes of the tests embed it.
type base struct{}

func (base) InitV2() raw.Return   { return raw.NVML_SUCCESS }
func (base) Shutdown() raw.Return { return raw.NVML_SUCCESS }

func (base) DeviceGetHandleByIndexV2(index uint32, device *raw.Device) raw.Return {
	*device = 0x1000 + raw.Device(index)
	return raw.NVML_SUCCESS
}

// open opens a fake.
func open(t *testing.T, s any) *nvml.Library {
	t.Helper()
	l, err := nvml.Open(nvml.WithSoftware(override.NVML(s)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// device returns device 0 of a fake.
func device(t *testing.T, s any) *nvml.Device {
	t.Helper()
	return must(open(t, s).Device(0))(t)
}

// must returns a function that returns v, unless there is an error.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// equal compares a result of a method.
func equal[T any](t *testing.T, what string, want T) func(got T, err error) {
	return func(got T, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v (%v), not %+v", what, got, err, want)
		}
	}
}

// fails checks that an error matches another.
func fails(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, which does not match %v", what, err, want)
	}
}

// fill sets a buffer to a string of C.
func fill(b []byte, s string) raw.Return {
	copy(b, s+"\x00")
	return raw.NVML_SUCCESS
}

// fillList sets a list of a caller whose length is *n.
func fillList[T any](n *uint32, list []T, values ...T) raw.Return {
	room := *n
	*n = uint32(len(values))
	if room < *n {
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	copy(list, values)
	return raw.NVML_SUCCESS
}

// TestNil calls all methods on nil pointers: those that return an error return one that says so.
func TestNil(t *testing.T) {
	failure := reflect.TypeFor[error]()
	for _, v := range []any{(*nvml.GPUInstance)(nil), (*nvml.ComputeInstance)(nil), (*nvml.VGPU)(nil),
		(*nvml.VGPUType)(nil),
		(*nvml.Unit)(nil), (*nvml.GPMSample)(nil), (*nvml.Device)(nil), (*nvml.Library)(nil)} {
		value := reflect.ValueOf(v)
		for i := range value.NumMethod() {
			name, method := value.Type().String()+"."+value.Type().Method(i).Name, value.Method(i)
			var args []reflect.Value
			for n := range method.Type().NumIn() {
				if !method.Type().IsVariadic() || n < method.Type().NumIn()-1 {
					args = append(args, reflect.Zero(method.Type().In(n)))
				}
			}
			results := method.Call(args)
			if n := len(results); n > 0 && results[n-1].Type() == failure {
				if err, _ := results[n-1].Interface().(error); !errors.Is(err, nvml.ErrNil) {
					t.Errorf("%s returns %v", name, err)
				}
			}
		}
	}
}

// TestMissing calls all methods of parts of a library without functions: those that return an error return one that
// says so, and no method depends on an answer that it does not get.
func TestMissing(t *testing.T) {
	l := open(t, base{})
	failure := reflect.TypeFor[error]()
	for _, v := range []any{l.VGPU(7), l.VGPUType(9)} {
		value := reflect.ValueOf(v)
		for i := range value.NumMethod() {
			name, method := value.Type().String()+"."+value.Type().Method(i).Name, value.Method(i)
			var args []reflect.Value
			for n := range method.Type().NumIn() {
				args = append(args, reflect.Zero(method.Type().In(n)))
			}
			results := method.Call(args)
			if n := len(results); n > 0 && results[n-1].Type() == failure {
				if err, _ := results[n-1].Interface().(error); !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("%s returns %v", name, err)
				}
			}
		}
	}
}
