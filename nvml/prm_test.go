package nvml_test

import (
	"bytes"
	"errors"
	"testing"
	"unsafe"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// prmFake answers each request with its bytes in reverse.
type prmFake struct{ base }

func (prmFake) DeviceReadWritePRMV1(d raw.Device, b *raw.PRMTLVV1) raw.Return {
	in := bytes.Clone(b.InData()[:b.DataSize])
	for i, c := range in {
		b.OutData()[len(in)-1-i] = c
	}
	b.Status = 5
	return raw.NVML_SUCCESS
}

func (prmFake) DeviceReadPRMCountersV1(d raw.Device, l *raw.PRMCounterListV1) raw.Return {
	for i := range unsafe.Slice(l.Counters, l.NumCounters) {
		c := &unsafe.Slice(l.Counters, l.NumCounters)[i]
		v := &c.CounterValue
		switch v.OutputType = raw.ValueType(c.CounterId); v.OutputType {
		case raw.NVML_VALUE_TYPE_DOUBLE:
			*v.OutputValue.DVal() = 10
		case raw.NVML_VALUE_TYPE_UNSIGNED_INT:
			*v.OutputValue.UiVal() = 11
		case raw.NVML_VALUE_TYPE_UNSIGNED_LONG:
			*v.OutputValue.UlVal() = 12
		case raw.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
			*v.OutputValue.UllVal() = 1 << 63
		case raw.NVML_VALUE_TYPE_SIGNED_INT:
			*v.OutputValue.SiVal() = 14
		case raw.NVML_VALUE_TYPE_UNSIGNED_SHORT:
			*v.OutputValue.UsVal() = 15
		default:
			v.Status = raw.NVML_ERROR_NOT_SUPPORTED
		}
	}
	return raw.NVML_SUCCESS
}

func TestPRM(t *testing.T) {
	d := device(t, prmFake{})
	got, status, err := d.AccessPRM([]byte("abc"))
	if string(got) != "cba" || status != 5 || err != nil {
		t.Errorf("%q, %d (%v)", got, status, err)
	}
	for _, n := range []int{0, 497} {
		_, _, err := d.AccessPRM(make([]byte, n))
		fails(t, "a request", err, nvml.ErrInvalidArgument)
	}
	var counters []nvml.PRMCounter
	for id := range uint32(8) {
		counters = append(counters, nvml.PRMCounter{ID: id, Port: id + 1})
	}
	values := must(d.PRMCounters(counters...))(t)
	for i, want := range []uint64{10, 11, 12, 1 << 63, 0, 14, 15, 0} {
		if v := values[i]; v.PRMCounter != counters[i] || v.Value.Uint64() != want || (v.Err == nil) != (want != 0) {
			t.Errorf("counter %d is %+v", i, v)
		}
	}
	fails(t, "another counter", values[7].Err, errors.ErrUnsupported)
	_, err = d.PRMCounters()
	fails(t, "no counters", err, nvml.ErrInvalidArgument)
}
