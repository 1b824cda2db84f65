package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/purecu/purecu/nvml"
)

// reader reads a GPU once.
type reader struct {
	*gpu
	samples []sample
	lost    bool // the GPU does not answer: the rest is not asked
}

// ok reports whether a call has succeeded. It counts failures, but not what a GPU does not have.
func (r *reader) ok(err error) bool {
	switch {
	case err == nil:
		return !r.lost
	case r.lost, errors.Is(err, errors.ErrUnsupported), errors.Is(err, context.Canceled):
		return false
	}
	result := "other"
	if code := nvml.Return(0); errors.As(err, &code) {
		result = code.String()
	}
	if errors.Is(err, nvml.ErrTimeout) {
		result = "timeout"
	}
	r.failures.WithLabelValues(r.index, result).Inc()
	r.lost = result == "timeout" || errors.Is(err, nvml.ErrGPULost) || errors.Is(err, nvml.ErrResetRequired)
	return false
}

// add keeps a number, unless there was an error.
func (r *reader) add(err error, m *metric, value float64, labels ...prom.Labels) {
	if r.ok(err) {
		r.samples = append(r.samples, sample{m, value, append(labels, nil)[0]})
	}
}

// one reads a number.
func one[T ~int32 | ~uint32 | ~uint64](r *reader, m *metric, read func() (T, error)) {
	if !r.lost {
		value, err := read()
		r.add(err, m, float64(value))
	}
}

// identity reads what the GPU is. It reports false if even that cannot be read.
func (r *reader) identity(dev *nvml.Device) bool {
	uuid, err := dev.UUID()
	known := r.ok(err)
	model, err := dev.Name()
	known = r.ok(err) && known
	pci, err1 := dev.PCI()
	minor, err2 := dev.MinorNumber()
	if !known {
		return false
	}
	var address, file string // which a virtual machine or Windows may not have
	if r.ok(err1) {
		address = pci.Address.String()
	}
	if r.ok(err2) {
		file = "nvidia" + strconv.Itoa(minor)
	}
	r.identify(uuid, address, file, strings.ToValidUTF8(model, "?"))
	return true
}

// values reads the numbers of the whole GPU.
func (r *reader) values(dev *nvml.Device) {
	one(r, temperature, func() (nvml.Celsius, error) { return dev.Temperature(nvml.TemperatureGPU) })
	one(r, power, dev.PowerUsage)
	one(r, energy, dev.TotalEnergy)
	use, err := dev.Utilization()
	r.add(err, gpuUse, float64(use.GPU))
	r.add(err, memoryUse, float64(use.Memory))
	one(r, encoderUse, func() (nvml.Percent, error) { use, _, err := dev.EncoderUtilization(); return use, err })
	one(r, decoderUse, func() (nvml.Percent, error) { use, _, err := dev.DecoderUtilization(); return use, err })
	clock, err := dev.Clock(nvml.ClockSM)
	r.add(err, smClock, 1e6*float64(clock))
	clock, err = dev.Clock(nvml.ClockMemory)
	r.add(err, memoryClock, 1e6*float64(clock))
	one(r, pcieReplays, dev.PCIeReplays)
	for _, e := range eccErrors {
		one(r, e.metric, func() (uint64, error) { return dev.ECCErrors(e.kind, e.since) })
	}
	rows, err := dev.RemappedRows()
	r.add(err, remapCorrected, float64(rows.Corrected))
	r.add(err, remapUncorrected, float64(rows.Uncorrected))
	r.add(err, remapPending, truth(rows.Pending))
	r.add(err, remapFailed, truth(rows.Failed))
	now, err := dev.ClockReasons()
	r.add(err, clockReasons, float64(now))
	for bit, m := range reasons {
		r.add(err, m, truth(now&bit != 0))
	}
	ids := make([]nvml.FieldID, len(fields))
	for i, f := range fields {
		ids[i] = f.FieldID
	}
	read, err := dev.Fields(ids...)
	r.ok(err)
	for i, v := range read {
		if !errors.Is(v.Err, nvml.ErrInvalidArgument) { // the driver does not know the field
			r.add(v.Err, fields[i].metric, v.Value.Float64())
		}
	}
}

// parts reads the memory: that of each MIG device, or of the whole GPU if it has none.
func (r *reader) parts(dev *nvml.Device) {
	seen := map[int]bool{}
	for mig, err := range dev.MIGDevices() {
		if !r.ok(err) {
			continue
		}
		gpuInstance, err1 := mig.GPUInstanceID()
		computeInstance, err2 := mig.ComputeInstanceID()
		if !r.ok(err1) || !r.ok(err2) || r.dcgm && seen[gpuInstance] { // the memory is that of the GPU instance
			continue
		}
		seen[gpuInstance] = true
		name, err := mig.Name()
		r.ok(err)
		_, profile, _ := strings.Cut(strings.ToValidUTF8(name, "?"), " MIG ")
		r.memory(mig, r.instance(strconv.Itoa(gpuInstance), strconv.Itoa(computeInstance), profile))
	}
	if len(seen) == 0 && !r.lost {
		r.memory(dev, nil)
	}
}

func (r *reader) memory(dev *nvml.Device, labels prom.Labels) {
	memory, err := dev.Memory()
	r.add(err, memoryUsed, float64(memory.Used), labels)
	r.add(err, memoryFree, float64(memory.Free), labels)
	r.add(err, memorySize, float64(memory.Total), labels)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
