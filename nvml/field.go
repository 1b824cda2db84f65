package nvml

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// Value is a number of one of the types of C. The zero Value is the real number 0.
type Value struct {
	kind  ValueType
	value raw.Value
}

// Type returns the type that the number has in C.
func (v Value) Type() ValueType { return v.kind }

// Int64 returns the number as an integer. It is cut off if it is a real number, and math.MaxInt64 if it is too large.
func (v Value) Int64() int64 {
	switch v.kind {
	case raw.NVML_VALUE_TYPE_DOUBLE:
		return integer(*v.value.DVal())
	case raw.NVML_VALUE_TYPE_SIGNED_LONG_LONG:
		return *v.value.SllVal()
	case raw.NVML_VALUE_TYPE_SIGNED_INT:
		return int64(*v.value.SiVal())
	}
	return int64(min(v.Uint64(), math.MaxInt64))
}

// integer returns a real number without what follows the point.
func integer(f float64) int64 {
	switch {
	case f != f:
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

// Uint64 returns the number as an integer without a sign. It is 0 if the number is less, cut off if it is a real number,
// and math.MaxUint64 if it is too large.
func (v Value) Uint64() uint64 {
	switch v.kind {
	case raw.NVML_VALUE_TYPE_UNSIGNED_INT:
		return uint64(*v.value.UiVal())
	case raw.NVML_VALUE_TYPE_UNSIGNED_LONG:
		return uint64(*v.value.UlVal())
	case raw.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
		return *v.value.UllVal()
	case raw.NVML_VALUE_TYPE_UNSIGNED_SHORT:
		return uint64(*v.value.UsVal())
	case raw.NVML_VALUE_TYPE_SIGNED_LONG_LONG, raw.NVML_VALUE_TYPE_SIGNED_INT:
		return uint64(max(v.Int64(), 0))
	case raw.NVML_VALUE_TYPE_DOUBLE:
		switch f := *v.value.DVal(); {
		case f >= math.MaxUint64:
			return math.MaxUint64
		case f > 0:
			return uint64(f)
		}
	}
	return 0 // a type that this package does not know, or less than 0
}

// Float64 returns the number as a real number.
func (v Value) Float64() float64 {
	switch v.kind {
	case raw.NVML_VALUE_TYPE_DOUBLE:
		return *v.value.DVal()
	case raw.NVML_VALUE_TYPE_SIGNED_LONG_LONG, raw.NVML_VALUE_TYPE_SIGNED_INT:
		return float64(v.Int64())
	}
	return float64(v.Uint64())
}

// String returns the number.
func (v Value) String() string {
	switch v.kind {
	case raw.NVML_VALUE_TYPE_DOUBLE:
		return strconv.FormatFloat(v.Float64(), 'g', -1, 64)
	case raw.NVML_VALUE_TYPE_SIGNED_LONG_LONG, raw.NVML_VALUE_TYPE_SIGNED_INT:
		return strconv.FormatInt(v.Int64(), 10)
	}
	return strconv.FormatUint(v.Uint64(), 10)
}

// Field says what [Device.ScopedFields] reads.
type Field struct {
	ID FieldID
	// Scope says for which part of the GPU: the number of an NVLink, or a [PowerScope], for example. It is 0 for fields
	// that have no parts.
	Scope uint32
}

// FieldValue is what was read for a [Field].
type FieldValue struct {
	Field
	// Time is when the value was read.
	Time time.Time
	// Latency is how long the driver took.
	Latency time.Duration
	// Value counts only if Err is nil.
	Value Value
	// Err says why there is no value. It matches [errors.ErrUnsupported] if the device does not have the field.
	Err error
}

// Fields reads several values in one call, which is faster than several calls (nvmlDeviceGetFieldValues). The results
// have the order of the arguments. Each has its own error: the error of the method says that nothing was read.
func (d *Device) Fields(ids ...FieldID) ([]FieldValue, error) {
	fields := make([]Field, len(ids))
	for i, id := range ids {
		fields[i].ID = id
	}
	return d.ScopedFields(fields...)
}

// ScopedFields reads several values of parts of the GPU in one call, as [Device.Fields] does for the whole
// (nvmlDeviceGetFieldValues).
func (d *Device) ScopedFields(fields ...Field) ([]FieldValue, error) {
	return d.fieldValues("nvmlDeviceGetFieldValues", fields, (*raw.Library).DeviceGetFieldValues)
}

// fieldValues makes a call with a list of fields.
func (d *Device) fieldValues(op string, fields []Field,
	f func(*raw.Library, raw.Device, []raw.FieldValue) raw.Return) ([]FieldValue, error) {
	o := d.obj()
	if o != nil && len(fields) == 0 {
		return nil, o.invalid(op, "there is no field: name at least one")
	}
	asked := make([]raw.FieldValue, len(fields)) // belongs to the call from now on
	for i, field := range fields {
		asked[i] = raw.FieldValue{FieldId: uint32(field.ID), ScopeId: field.Scope}
	}
	values, err := get(o, op, func(l *raw.Library, h uint64) ([]raw.FieldValue, raw.Return) {
		return asked, f(l, raw.Device(h), asked)
	})
	if err != nil {
		return nil, err
	}
	return each(values, func(v raw.FieldValue) FieldValue { return o.fieldValue(op, v) }), nil
}

// fieldValue returns what the library has set for a field.
func (o *object) fieldValue(op string, v raw.FieldValue) FieldValue {
	got := FieldValue{Field: Field{FieldID(v.FieldId), v.ScopeId}, Time: sinceEpoch(uint64(max(v.Timestamp, 0))),
		Latency: time.Duration(v.LatencyUsec) * time.Microsecond}
	if v.NvmlReturn != raw.NVML_SUCCESS {
		got.Err = &Error{Op: op, Device: fmt.Sprintf("%s, field %d, scope %d", o.name, v.FieldId, v.ScopeId),
			Return: v.NvmlReturn, Detail: remedy(op, v.NvmlReturn)}
		return got
	}
	got.Value = Value{v.ValueType, v.Value}
	return got
}

// ClearFields sets counters to 0 (nvmlDeviceClearFieldValues). The error matches that of each field that was not
// cleared.
func (d *Device) ClearFields(fields ...Field) error {
	values, err := d.fieldValues("nvmlDeviceClearFieldValues", fields, (*raw.Library).DeviceClearFieldValues)
	errs := []error{err}
	for _, v := range values {
		errs = append(errs, v.Err)
	}
	return errors.Join(errs...)
}
