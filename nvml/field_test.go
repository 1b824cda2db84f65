package nvml_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// fieldGPU has a field for each type of values: its number is that of the type, and its value is that number less two.
type fieldGPU struct {
	basis
	scopes  []uint32
	cleared []uint32
}

func (g *fieldGPU) DeviceGetFieldValues(_ raw.Device, values []raw.FieldValue) raw.Return {
	for i := range values {
		v := &values[i]
		g.scopes = append(g.scopes, v.ScopeId)
		v.Timestamp, v.LatencyUsec, v.ValueType = 3e15, 12, raw.ValueType(v.FieldId)
		v.Value = raw.Value{math.MaxUint64} // the library leaves the rest of small values as it was
		switch v.ValueType {
		case raw.NVML_VALUE_TYPE_DOUBLE:
			*v.Value.DVal() = -2.5
		case raw.NVML_VALUE_TYPE_UNSIGNED_INT:
			*v.Value.UiVal() = 7
		case raw.NVML_VALUE_TYPE_UNSIGNED_LONG:
			*v.Value.UlVal() = 7
		case raw.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
			*v.Value.UllVal() = math.MaxUint64
		case raw.NVML_VALUE_TYPE_SIGNED_LONG_LONG:
			*v.Value.SllVal() = -7
		case raw.NVML_VALUE_TYPE_SIGNED_INT:
			*v.Value.SiVal() = -7
		case raw.NVML_VALUE_TYPE_UNSIGNED_SHORT:
			*v.Value.UsVal() = 7
		default:
			v.NvmlReturn = raw.NVML_ERROR_NOT_SUPPORTED
		}
	}
	return raw.NVML_SUCCESS
}

func (g *fieldGPU) DeviceClearFieldValues(_ raw.Device, values []raw.FieldValue) raw.Return {
	for i := range values {
		g.cleared = append(g.cleared, values[i].FieldId)
		if values[i].ScopeId != 0 {
			values[i].NvmlReturn = raw.NVML_ERROR_NO_PERMISSION
		}
	}
	return raw.NVML_SUCCESS
}

func TestFields(t *testing.T) {
	g := &fieldGPU{}
	d := deviceOf(t, g)
	values, err := d.Fields(0, 1, 2, 3, 4, 5, 6, 99)
	if err != nil || len(values) != 8 {
		t.Fatalf("%d values: %v", len(values), err)
	}
	for i, want := range []struct {
		text     string
		signed   int64
		unsigned uint64
		real     float64
	}{
		{"-2.5", -2, 0, -2.5},
		{"7", 7, 7, 7},
		{"7", 7, 7, 7},
		{"18446744073709551615", math.MaxInt64, math.MaxUint64, math.MaxUint64},
		{"-7", -7, 0, -7},
		{"-7", -7, 0, -7},
		{"7", 7, 7, 7},
	} {
		v := values[i]
		if v.Err != nil || v.ID != nvml.FieldID(i) || v.Value.Type() != nvml.ValueType(i) || v.Latency != 12*time.Microsecond ||
			!v.Time.Equal(time.UnixMicro(3e15)) {
			t.Errorf("field %d is %+v", i, v)
		}
		if v := v.Value; v.String() != want.text || v.Int64() != want.signed || v.Uint64() != want.unsigned || v.Float64() != want.real {
			t.Errorf("field %d is %v, %d, %d, %g", i, v, v.Int64(), v.Uint64(), v.Float64())
		}
	}
	isError(t, values[7].Err, errors.ErrUnsupported)
	if text := values[7].Err.Error(); values[7].Value != (nvml.Value{}) || text != "nvml: nvmlDeviceGetFieldValues(device 0, "+
		"field 99, scope 0): "+raw.NVML_ERROR_NOT_SUPPORTED.Error()+"; this device, or its present mode, does not have this "+
		"value: leave it out" {
		t.Errorf("the error is %s, beside %v", text, values[7].Value)
	}
	values, err = d.ScopedFields(nvml.Field{ID: 1, Scope: 5}, nvml.Field{ID: 1, Scope: 6})
	if err != nil || g.scopes[8] != 5 || g.scopes[9] != 6 || values[1].Scope != 6 {
		t.Errorf("the values are %v (%v)", values, err)
	}
	if _, err = d.Fields(); !errors.Is(err, nvml.ErrInvalidArgument) || len(g.scopes) != 10 {
		t.Errorf("no fields: %v", err)
	}
}

func TestValueOfReal(t *testing.T) {
	g := &realGPU{}
	d := deviceOf(t, g)
	for _, tt := range []struct {
		real     float64
		signed   int64
		unsigned uint64
	}{{math.NaN(), 0, 0}, {math.Inf(1), math.MaxInt64, math.MaxUint64}, {-1e300, math.MinInt64, 0}, {1.9, 1, 1}} {
		g.value = tt.real
		values, err := d.Fields(1)
		if v := values[0].Value; err != nil || v.Int64() != tt.signed || v.Uint64() != tt.unsigned {
			t.Errorf("%g is %d and %d (%v)", tt.real, v.Int64(), v.Uint64(), err)
		}
	}
}

type realGPU struct {
	basis
	value float64
}

func (g *realGPU) DeviceGetFieldValues(_ raw.Device, values []raw.FieldValue) raw.Return {
	*values[0].Value.DVal() = g.value
	return raw.NVML_SUCCESS
}

func TestClearFields(t *testing.T) {
	g := &fieldGPU{}
	d := deviceOf(t, g)
	if err := d.ClearFields(nvml.Field{ID: 4}, nvml.Field{ID: 5}); err != nil || len(g.cleared) != 2 || g.cleared[1] != 5 {
		t.Errorf("%v are cleared (%v)", g.cleared, err)
	}
	isError(t, d.ClearFields(nvml.Field{ID: 4}, nvml.Field{ID: 5, Scope: 1}), nvml.ErrNoPermission)
	isError(t, d.ClearFields(), nvml.ErrInvalidArgument)
}
