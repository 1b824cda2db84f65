package cu_test

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestPreparedLaunch launches a prepared kernel with arguments that are replaced.
func TestPreparedLaunch(t *testing.T) {
	r := newRig(t)
	axpy, d := Need(r.module(r.gpu).Function("axpy"))(t), Need(r.gpu.Alloc(64))(t)
	p := Need(axpy.Prepare(OneThread, Ptr(d), F32(1), U64(2)))(t)
	launched := func(want ...uint64) {
		t.Helper()
		r.ok(p.Launch(r.s))
		for i, w := range want {
			if got := r.ask("fake_launched", 16+4*i); got != w {
				t.Errorf("argument %d is %#x, want %#x", i, got, w)
			}
		}
	}
	launched(uint64(core.Of(d).Raw), uint64(math.Float32bits(1)), 2)
	r.ok(p.SetArg(2, U64(3)))
	launched(uint64(core.Of(d).Raw), uint64(math.Float32bits(1)), 3)
	r.ok(p.SetArg(0, Ptr(d.Span(8, 8))))
	r.ok(p.SetArg(1, Value(float32(2))))
	launched(uint64(core.Of(d).Raw)+8, uint64(math.Float32bits(2)), 3)

	// What is wrong is found before a launch.
	for name, c := range map[string]struct {
		err  error
		is   error
		want string
	}{
		"no such argument":  {p.SetArg(3, U64(0)), ResultInvalidValue, "there is no argument 3: the launch has 3"},
		"a negative number": {p.SetArg(-1, U64(0)), ResultInvalidValue, "there is no argument -1"},
		"a wrong size":      {p.SetArg(1, F64(0)), ResultInvalidValue, "argument 1 has 8 bytes, and the kernel's parameter"},
		"nil memory":        {p.SetArg(0, Ptr(nil)), ErrNil, "argument 0 is nil memory"},
		"a nil stream":      {p.Launch(nil), ErrNil, "stream"},
		"another driver": {func() error {
			_, err := axpy.Prepare(OneThread, Ptr(r.memory(r.context(r.open(), 0), 8)), F32(0), U64(0))
			return err
		}(), ErrDriverMismatch, "argument 0 is device memory 0x"},
		"no block": {func() error {
			_, err := axpy.Prepare(LaunchConfig{})
			return err
		}(), ResultInvalidValue, "at least 1"},
		"no function": {func() error {
			_, err := (*Function)(nil).Prepare(OneThread)
			return err
		}(), ErrNil, "function"},
	} {
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	launched(uint64(core.Of(d).Raw)+8, uint64(math.Float32bits(2)), 3) // a mistake changes nothing

	r.ok(d.Close())
	err := p.Launch(r.s)
	if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "argument 0 is closed: device memory 0x") {
		t.Errorf("a launch with closed memory: %v", err)
	}
	if err := p.SetArg(0, Ptr(d)); !errors.Is(err, ErrClosed) {
		t.Errorf("SetArg with closed memory: %v", err)
	}
	e := r.memory(r.gpu, 64)
	r.ok(errors.Join(p.SetArg(2, U64(1)), p.SetArg(0, Ptr(e)))) // in any order
	launched(uint64(core.Of(e).Raw), uint64(math.Float32bits(2)), 1)
}

// TestPreparedConcurrently launches on several streams while an argument is replaced. Each launch
// has one of the values.
func TestPreparedConcurrently(t *testing.T) {
	r := newRig(t)
	axpy, a, b := Need(r.module(r.gpu).Function("axpy"))(t), r.memory(r.gpu, 64), r.memory(r.gpu, 64)
	p := Need(axpy.Prepare(OneThread, Ptr(a), F32(1), U64(2)))(t)
	var wg sync.WaitGroup
	for range 3 {
		s := r.stream(r.gpu)
		wg.Go(func() {
			for range 300 {
				if err := p.Launch(s); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 300 {
		r.ok(p.SetArg(0, Ptr([]*DeviceMem{a, b}[i%2])))
	}
	wg.Wait()
}

// TestGPUPreparedLaunch runs a prepared kernel, also as a part of a graph.
func TestGPUPreparedLaunch(t *testing.T) {
	gpu := GPUContext(t)
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer CloseIt(t, mod)
	add := Need(mod.Function("add"))(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer CloseIt(t, s)
	mem := Need(gpu.Alloc(4))(t)
	defer CloseIt(t, mem)
	if err := mem.CopyFrom(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	p := Need(add.Prepare(OneThread, Ptr(mem), U32(1), F32(0.5)))(t)
	launch := func() error { return p.Launch(s) }
	for range 2 {
		if err := launch(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.SetArg(2, F32(2)); err != nil {
		t.Fatal(err)
	}
	g := Need(graph.Capture(s, graph.CaptureRelaxed, launch))(t)
	defer CloseIt(t, g)
	x := Need(g.Instantiate())(t)
	defer CloseIt(t, x)
	if err := errors.Join(launch(), p.SetArg(2, F32(64)), x.Launch(s), s.Synchronize()); err != nil {
		t.Fatal(err)
	}
	var out [4]byte
	if err := mem.CopyTo(out[:]); err != nil {
		t.Fatal(err)
	}
	if got := math.Float32frombits(binary.LittleEndian.Uint32(out[:])); got != 5 {
		t.Errorf("the sum is %v, want 0.5 + 0.5 + 2 + 2", got)
	}
}
