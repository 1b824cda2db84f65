package nvml

import (
	"fmt"

	"github.com/purecu/purecu/nvml/raw"
)

// AccessPRM reads or writes a register of the GPU's network hardware (nvmlDeviceReadWritePRM_v1). The request and the
// result are in TLV format and in the byte order of networks; a request has at most 496 bytes. status is that of the
// command. It needs root. Linux, and GPUs since Blackwell.
func (d *Device) AccessPRM(request []byte) (result []byte, status uint32, err error) {
	const op = "nvmlDeviceReadWritePRM_v1"
	o := d.obj()
	if o != nil && (len(request) == 0 || len(request) > raw.NVML_PRM_DATA_MAX_SIZE) {
		return nil, 0, o.invalid(op, fmt.Sprintf("the request has %d bytes, not 1 to %d", len(request),
			raw.NVML_PRM_DATA_MAX_SIZE))
	}
	in := raw.PRMTLVV1{DataSize: uint32(len(request))}
	copy(in.InData()[:], request)
	out, err := get(o, op, func(l *raw.Library, h uint64) (raw.PRMTLVV1, raw.Return) {
		b := in
		r := l.DeviceReadWritePRMV1(raw.Device(h), &b)
		return b, r
	})
	if err != nil {
		return nil, 0, err
	}
	return prefix(out.OutData()[:], out.DataSize), out.Status, nil
}

// PRMCounter is a counter of a port of the GPU's network hardware.
type PRMCounter struct {
	// ID is a PRMCounterId of package raw.
	ID uint32
	// Port is the number of the port.
	Port uint32
}

// PRMCounterValue is the value of a counter.
type PRMCounterValue struct {
	PRMCounter
	// Value counts only if Err is nil.
	Value Value
	// Err is not nil if the GPU does not have the counter.
	Err error
}

// PRMCounters reads counters of the GPU's network hardware (nvmlDeviceReadPRMCounters_v1), in the order of the
// arguments. Linux, and GPUs since Blackwell. Unverified: no driver has confirmed it.
func (d *Device) PRMCounters(counters ...PRMCounter) ([]PRMCounterValue, error) {
	const op = "nvmlDeviceReadPRMCounters_v1"
	o := d.obj()
	if o != nil && len(counters) == 0 {
		return nil, o.invalid(op, "the list of counters is empty")
	}
	asked := make([]raw.PRMCounterV1, len(counters))
	for i, c := range counters {
		asked[i] = raw.PRMCounterV1{CounterId: c.ID, InData: raw.PRMCounterInputV1{LocalPort: c.Port}}
	}
	all, err := get(o, op, func(l *raw.Library, h uint64) ([]raw.PRMCounterV1, raw.Return) {
		c := raw.PRMCounterListV1{NumCounters: uint32(len(asked)), Counters: first(asked)}
		r := l.DeviceReadPRMCountersV1(raw.Device(h), &c)
		return asked, r
	})
	var values []PRMCounterValue
	for _, c := range all {
		v := PRMCounterValue{PRMCounter: PRMCounter{c.CounterId, c.InData.LocalPort}}
		if c.CounterValue.Status != raw.NVML_SUCCESS {
			v.Err = o.fail(op, c.CounterValue.Status)
		} else {
			v.Value = Value{c.CounterValue.OutputType, c.CounterValue.OutputValue}
		}
		values = append(values, v)
	}
	return values, err
}
