package cu

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestGPULibrary uses a library in two contexts of a real GPU: see gpu_test.go.
func TestGPULibrary(t *testing.T) {
	drv := gpuDriver(t)
	gpu := must(must(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	l, err := drv.LoadLibrary([]byte(countPTX), JITVerbose())
	if errors.Is(err, errors.ErrUnsupported) { // before CUDA 12.0
		t.Skip(err)
	}
	noErr(t, err)
	t.Logf("the log is %q", l.Log()) // it is empty if the driver finds the library in its cache
	var names []string
	for _, k := range must(l.Kernels())(t) {
		names = append(names, k.Name())
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"put", "tick"}) {
		t.Errorf("the kernels are %v", names)
	}
	testLibrary(t, l, gpu, must(gpu.Device().NewContext(0))(t))
	testAttributes(t, must(l.Kernel("put"))(t), gpu)
	if _, err := l.Kernel("absent"); !errors.Is(err, ResultNotFound) {
		t.Errorf("a kernel that is missing: %v", err)
	}
	f := must(must(l.Kernel("tick"))(t).Function(gpu))(t)
	m := must(gpu.Alloc(4))(t)
	defer m.Close()
	s := must(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	g := must(s.Capture(CaptureRelaxed, func() error { return f.Launch(s, one, Ptr(m)) }))(t)
	noErr(t, l.Close()) // the graph keeps it
	e := must(g.Instantiate())(t)
	noErr(t, errors.Join(e.Launch(s), s.Synchronize(), e.Close(), g.Close()))
	if err := f.Launch(s, one, Ptr(m)); !errors.Is(err, ErrClosed) {
		t.Errorf("a launch after Close: %v", err)
	}

	bad := must(drv.LoadLibrary([]byte(badPTX)))(t)
	if _, err := bad.Kernel("x"); !errors.Is(err, ResultInvalidPTX) ||
		!strings.Contains(err.Error(), "the compiler says:") {
		t.Errorf("a mistake in the code: %v", err)
	}
	noErr(t, bad.Close())
}

// TestGPULink links PTX on a real GPU: see gpu_test.go.
func TestGPULink(t *testing.T) {
	gpu := gpuContext(t)
	testLinkCases(t, gpu)
	linked := must(gpu.Link([]LinkInput{{"put", []byte(putPTX)}}, JITVerbose()))(t)
	machineCode := strings.HasPrefix(string(linked.Image), "\x7fELF")
	if text := strings.HasPrefix(string(linked.Image), ".version"); !strings.Contains(linked.Log, "put") || !machineCode && !text {
		t.Errorf("%d bytes %.8q, the log is %q", len(linked.Image), linked.Image, linked.Log)
	}
	_, err := gpu.Link([]LinkInput{{"good", []byte(putPTX)}, {"bad", []byte(badPTX)}})
	if !errors.Is(err, ResultInvalidPTX) || !strings.Contains(err.Error(), "the compiler says:") {
		t.Errorf("a mistake in the code: %v", err)
	}
}
