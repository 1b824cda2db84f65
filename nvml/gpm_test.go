package nvml_test

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/internal/testrig/override"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// gpmFake counts the samples that were allocated and not freed.
type gpmFake struct {
	base
	mu      sync.Mutex
	samples map[raw.GpmSample]uint32 // how often each was taken
	last    raw.GpmSample
	broken  bool
	block   chan struct{} // if not nil, samples are taken when it is closed
	free    chan struct{} // if not nil, samples are freed when it is closed
}

func (f *gpmFake) GpmSampleAlloc(s *raw.GpmSample) raw.Return {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.samples[f.last] = 0
	*s = f.last
	return raw.NVML_SUCCESS
}

func (f *gpmFake) GpmSampleFree(s raw.GpmSample) raw.Return {
	if f.free != nil {
		<-f.free
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.samples, s)
	return raw.NVML_SUCCESS
}

func (f *gpmFake) GpmSampleGet(d raw.Device, s raw.GpmSample) raw.Return {
	if f.block != nil {
		<-f.block
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.samples[s]; !ok || f.broken {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	f.samples[s]++
	return raw.NVML_SUCCESS
}

func (f *gpmFake) GpmMigSampleGet(d raw.Device, instance uint32, s raw.GpmSample) raw.Return {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.samples[s] += 100 * instance
	return raw.NVML_SUCCESS
}

func (f *gpmFake) GpmMetricsGet(g *raw.GpmMetricsGet) raw.Return {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g.Version != raw.NVML_GPM_METRICS_GET_VERSION {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	unit := []byte("%\x00")
	for i := range g.Metrics[:g.NumMetrics] {
		m := &g.Metrics[i]
		if m.MetricId == uint32(nvml.GPMFP64Utilization) {
			m.NvmlReturn = raw.NVML_ERROR_NOT_SUPPORTED
			continue
		}
		m.Value, m.MetricInfo.Unit = float64(m.MetricId)+float64(g.Sample2)-float64(g.Sample1), &unit[0]
	}
	return raw.NVML_SUCCESS
}

func (f *gpmFake) GpmQueryDeviceSupport(d raw.Device, s *raw.GpmSupport) raw.Return {
	s.IsSupportedDevice = s.Version
	return raw.NVML_SUCCESS
}

// counts returns how often each sample was taken, sorted.
func (f *gpmFake) counts() (n []uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.samples {
		n = append(n, c)
	}
	slices.Sort(n)
	return n
}

func newGPM() *gpmFake { return &gpmFake{samples: map[raw.GpmSample]uint32{}} }

func TestGPM(t *testing.T) {
	f := newGPM()
	d := device(t, f)
	equal(t, "the support", true)(d.GPMSupported())
	before, after := must(d.GPMSample())(t), must(d.GPMSample())(t)
	if err := after.Take(); err != nil || !slices.Equal(f.counts(), []uint32{1, 2}) {
		t.Errorf("the samples were taken %v times (%v)", f.counts(), err)
	}
	values := must(after.Since(before, nvml.GPMSMOccupancy, nvml.GPMFP64Utilization))(t)
	if v := values[0]; len(values) != 2 || v.Metric != nvml.GPMSMOccupancy || v.Value != float64(v.Metric)+1 ||
		v.Unit != "%" ||
		v.Name != "" || v.Err != nil {
		t.Errorf("the values are %+v", values)
	}
	fails(t, "the other metric", values[1].Err, errors.ErrUnsupported)
	values = must(before.Since(after, nvml.GPMSMOccupancy))(t)
	if values[0].Value != float64(nvml.GPMSMOccupancy)-1 {
		t.Errorf("the values are %+v", values)
	}

	mig := must(d.GPMSampleOf(3))(t)
	if err := mig.Take(); err != nil || !slices.Equal(f.counts(), []uint32{1, 2, 600}) {
		t.Errorf("the samples were taken %v times (%v)", f.counts(), err)
	}
	for what, err := range map[string]error{
		"no metrics":        second(after.Since(before)),
		"the same sample":   second(after.Since(after, nvml.GPMSMOccupancy)),
		"another instance":  second(after.Since(mig, nvml.GPMSMOccupancy)),
		"a negative number": second(d.GPMSampleOf(-1)),
	} {
		fails(t, what, err, nvml.ErrInvalidArgument)
	}
	fails(t, "no sample", second(after.Since(nil, nvml.GPMSMOccupancy)), nvml.ErrNil)

	for _, s := range []*nvml.GPMSample{before, before, mig} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(f.counts(), []uint32{2}) {
		t.Errorf("the samples %v are left", f.counts())
	}
	fails(t, "a closed sample", before.Take(), nvml.ErrClosed)
	fails(t, "a closed sample", second(after.Since(before, nvml.GPMSMOccupancy)), nvml.ErrClosed)
	after.Close()
	f.broken = true
	fails(t, "a broken GPU", second(d.GPMSample()), nvml.ErrInvalidArgument)
	if n := f.counts(); len(n) > 0 {
		t.Errorf("the samples %v are left", n)
	}
}

// second returns the error of two results.
func second[T any](_ T, err error) error { return err }

// eventually waits until the fake has no samples.
func (f *gpmFake) eventually(t *testing.T, what string) {
	t.Helper()
	for range 1000 {
		runtime.GC()
		if len(f.counts()) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%s: the samples %v are left", what, f.counts())
}

func TestGPMCleanup(t *testing.T) {
	f := newGPM()
	d := device(t, f)
	must(d.GPMSample())(t)
	f.eventually(t, "a lost sample")

	f.block = make(chan struct{})
	_, err := d.WithTimeout(time.Millisecond).GPMSample()
	fails(t, "a GPU that does not answer", err, nvml.ErrTimeout)
	close(f.block)
	f.eventually(t, "a sample that came too late")
}

// TestGPMCleanupHangs checks that lost samples of an NVML that hangs do not keep other cleanups of the program from
// running.
func TestGPMCleanupHangs(t *testing.T) {
	f := newGPM()
	f.free = make(chan struct{})
	d := device(t, f)
	for range 100 { // more than there are goroutines for cleanups
		must(d.GPMSample())(t)
	}
	runtime.GC()
	ran := make(chan struct{})
	runtime.AddCleanup(new([64]byte), func(ran chan struct{}) { close(ran) }, ran)
	for range 1000 {
		runtime.GC()
		select {
		case <-ran:
			close(f.free)
			f.eventually(t, "samples that were freed late")
			return
		case <-time.After(time.Millisecond):
		}
	}
	close(f.free)
	t.Error("a cleanup has not run")
}

// TestGPMLibraryClose checks that the samples of a library are freed with it.
func TestGPMLibraryClose(t *testing.T) {
	f := &gpmFake{samples: map[raw.GpmSample]uint32{}}
	lib := must(nvml.Open(nvml.WithSoftware(override.NVML(f))))(t)
	sample := must(must(lib.Device(0))(t).GPMSample())(t)
	if err := lib.Close(); err != nil || len(f.samples) != 0 {
		t.Errorf("%d samples are left (%v)", len(f.samples), err)
	}
	fails(t, "another sample", sample.Take(), nvml.ErrClosed)
	if err := sample.Close(); err != nil {
		t.Error(err)
	}
}

// TestGPMCloseBound checks that a limit is one of Close, too.
func TestGPMCloseBound(t *testing.T) {
	f := &gpmFake{samples: map[raw.GpmSample]uint32{}, free: make(chan struct{})}
	sample := must(device(t, f).WithTimeout(20 * time.Millisecond).GPMSample())(t)
	fails(t, "Close", sample.Close(), nvml.ErrTimeout)
	close(f.free)
}
