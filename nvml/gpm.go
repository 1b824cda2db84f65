package nvml

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/nvml/raw"
)

// GPMSample is the state of a GPU's counters of GPU Performance Monitoring at a time. [GPMSample.Since] returns what
// has happened between two samples, which must be at least 100 ms apart. GPUs since Hopper have it.
//
//	before, err := dev.GPMSample()
//	…
//	time.Sleep(time.Second)
//	after, err := dev.GPMSample()
//	…
//	values, err := after.Since(before, nvml.GPMSMOccupancy, nvml.GPMDRAMBandwidthUtilization)
//
// Close frees its memory, which also happens at some time after the program has lost it.
type GPMSample struct {
	object // of the device
	buffer *gpmBuffer
}

func (s *GPMSample) obj() *object {
	if s == nil || s.lib == nil {
		return nil
	}
	return &s.object
}

// gpmBuffer is the memory of a sample. It is a user of the library until it is freed.
type gpmBuffer struct {
	lib      *library
	device   string
	instance int // the number of the GPU instance, or -1
	refs     handle.Refs

	mu     sync.Mutex // guards the memory
	handle raw.GpmSample
}

// Last frees the memory after the last call with it.
func (b *gpmBuffer) Last(later bool) {
	if later {
		go b.free()
		return
	}
	b.free()
}

func (b *gpmBuffer) free() (r raw.Return) {
	if b.handle != 0 {
		r = b.lib.raw.GpmSampleFree(b.handle)
	}
	b.lib.disown(b)
	b.lib.refs.Release(b.lib)
	return r
}

// Refused returns the error of a call after Close.
func (b *gpmBuffer) Refused(op string) error {
	return &Error{Op: op, Device: b.device, Err: ErrClosed, Detail: "the GPMSample was closed: take another one"}
}

// close ends the use of the memory.
func (b *gpmBuffer) close() raw.Return {
	if _, last := b.refs.Close(); last {
		return b.free()
	}
	return raw.NVML_SUCCESS
}

// take reads the counters into the memory.
func (b *gpmBuffer) take(l *raw.Library, d raw.Device) raw.Return {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.handle == 0 {
		if r := l.GpmSampleAlloc(&b.handle); r != raw.NVML_SUCCESS {
			return r
		}
	}
	if b.instance >= 0 {
		return l.GpmMigSampleGet(d, uint32(b.instance), b.handle)
	}
	return l.GpmSampleGet(d, b.handle)
}

// GPMSample takes a sample of the GPU (nvmlGpmSampleAlloc, nvmlGpmSampleGet).
func (d *Device) GPMSample() (*GPMSample, error) { return d.gpmSample("nvmlGpmSampleGet", -1) }

// GPMSampleOf takes a sample of a GPU instance of the GPU (nvmlGpmSampleAlloc, nvmlGpmMigSampleGet). id is its number:
// see [Device.GPUInstanceID].
func (d *Device) GPMSampleOf(id int) (*GPMSample, error) {
	const op = "nvmlGpmMigSampleGet"
	if err := d.obj().checkNumber(op, "number of the GPU instance", id); err != nil {
		return nil, err
	}
	return d.gpmSample(op, id)
}

func (d *Device) gpmSample(op string, instance int) (*GPMSample, error) {
	o := d.obj()
	if o == nil {
		return nil, nilError(op)
	}
	if err := o.lib.refs.Enter(o.lib, op); err != nil {
		return nil, err
	}
	s := &GPMSample{*o, &gpmBuffer{lib: o.lib, device: o.name, instance: instance}}
	runtime.AddCleanup(s, func(b *gpmBuffer) { go b.close() }, s.buffer) // as for sets of events: see closeUnused
	if !o.lib.own(s.buffer) {
		return nil, o.lib.Refused(op)
	}
	if err := s.take(op); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Take takes the sample again, into the same memory (nvmlGpmSampleGet, or nvmlGpmMigSampleGet for a sample of a GPU
// instance).
func (s *GPMSample) Take() error {
	if s.obj() != nil && s.buffer.instance >= 0 {
		return s.take("nvmlGpmMigSampleGet")
	}
	return s.take("nvmlGpmSampleGet")
}

func (s *GPMSample) take(op string) error {
	if s.obj() == nil {
		return nilError(op)
	}
	b := s.buffer
	closed, err := get(s.obj(), op, func(l *raw.Library, h uint64) (bool, raw.Return) {
		if !b.refs.Acquire(b) {
			return true, raw.NVML_SUCCESS
		}
		defer b.refs.Release(b)
		return false, b.take(l, raw.Device(h))
	})
	runtime.KeepAlive(s)
	if closed {
		return b.Refused(op)
	}
	return err
}

// Close frees the memory of the sample (nvmlGpmSampleFree), as [Library.Close] does. It does not wait for calls with
// the sample. If the device has a limit, as of [Device.WithTimeout], it also limits Close. Further calls do nothing.
func (s *GPMSample) Close() error {
	const op = "nvmlGpmSampleFree"
	if s.obj() == nil {
		return nilError(op)
	}
	return s.within(op, s.buffer.close)
}

// GPMValue is the value of a metric.
type GPMValue struct {
	Metric GPMMetric
	// Value counts only if Err is nil.
	Value float64
	// Name and Unit are those of NVML, such as "SM Occupancy" and "%". They may be empty.
	Name, Unit string
	// Err is not nil if the GPU does not have the metric.
	Err error
}

// maxGPMMetrics is how many metrics a call has room for.
const maxGPMMetrics = len(raw.GpmMetricsGet{}.Metrics)

// Since returns metrics between an earlier sample and this one (nvmlGpmMetricsGet), in the order of the arguments. Both
// must be of the same GPU or GPU instance. A metric that the GPU does not have has its own error.
func (s *GPMSample) Since(before *GPMSample, metrics ...GPMMetric) ([]GPMValue, error) {
	const op = "nvmlGpmMetricsGet"
	o := s.obj()
	switch {
	case o == nil || before.obj() == nil:
		return nil, nilError(op)
	case s.buffer == before.buffer || s.lib != before.lib || s.handle != before.handle ||
		s.buffer.instance != before.buffer.instance:
		return nil, o.invalid(op, "metrics need two samples of the same GPU, or of the same GPU instance of it")
	case len(metrics) == 0 || len(metrics) > maxGPMMetrics:
		return nil, o.invalid(op, fmt.Sprintf("there are %d metrics: ask for 1 to %d", len(metrics), maxGPMMetrics))
	}
	metrics = append([]GPMMetric(nil), metrics...) // the call may outlast the caller's
	b1, b2 := before.buffer, s.buffer
	type answer struct {
		values []GPMValue
		err    error
	}
	a, err := get(o, op, func(l *raw.Library, _ uint64) (answer, raw.Return) {
		for _, b := range []*gpmBuffer{b1, b2} {
			if err := b.refs.Enter(b, op); err != nil {
				return answer{err: err}, raw.NVML_SUCCESS
			}
			defer b.refs.Release(b)
		}
		values, r := gpmMetrics(l, b1, b2, metrics)
		return answer{values: values}, r
	})
	runtime.KeepAlive(s)
	runtime.KeepAlive(before)
	if err == nil {
		err = a.err
	}
	if err != nil {
		return nil, err
	}
	for i := range a.values {
		if r, ok := a.values[i].Err.(raw.Return); ok {
			a.values[i].Err = o.fail(op, r)
		}
	}
	return a.values, nil
}

// gpmMetrics returns metrics between two samples. The error of each is a Return.
func gpmMetrics(l *raw.Library, before, after *gpmBuffer, metrics []GPMMetric) (values []GPMValue, r raw.Return) {
	first, second := before, after
	if first.handle > second.handle { // one order for all, so that no two calls wait for each other
		first, second = second, first
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	second.mu.Lock()
	defer second.mu.Unlock()
	g := &raw.GpmMetricsGet{Version: raw.NVML_GPM_METRICS_GET_VERSION, NumMetrics: uint32(len(metrics)),
		Sample1: before.handle, Sample2: after.handle}
	for i, m := range metrics {
		g.Metrics[i].MetricId = uint32(m)
	}
	if r = l.GpmMetricsGet(g); r != raw.NVML_SUCCESS {
		return nil, r
	}
	for i, m := range metrics {
		v := &g.Metrics[i]
		values = append(values, GPMValue{Metric: m})
		if v.NvmlReturn != raw.NVML_SUCCESS {
			values[i].Err = v.NvmlReturn
			continue
		}
		values[i].Value, values[i].Name, values[i].Unit = v.Value, raw.Text(v.MetricInfo.LongName),
			raw.Text(v.MetricInfo.Unit)
	}
	return values, r
}

// GPMSupported reports whether the GPU has GPU Performance Monitoring (nvmlGpmQueryDeviceSupport).
func (d *Device) GPMSupported() (bool, error) {
	w, err := d.obj().call("nvmlGpmQueryDeviceSupport", words{}, func(l *raw.Library, w words) (words, raw.Return) {
		s := raw.GpmSupport{Version: raw.NVML_GPM_SUPPORT_VERSION}
		r := l.GpmQueryDeviceSupport(raw.Device(w.a), &s)
		return words{a: uint64(s.IsSupportedDevice)}, r
	})
	return w.a != 0, err
}
