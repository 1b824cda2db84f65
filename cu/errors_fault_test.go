package cu_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestIntervalErrors makes each of two events the one at fault, in all ways.
func TestIntervalErrors(t *testing.T) {
	r := NewSoft(t)
	good, closed, recordedClosed := r.Event(0), Need(r.GPU.NewEvent(0))(t), Need(r.GPU.NewEvent(0))(t)
	r.OK(good.Record(r.S))
	r.OK(recordedClosed.Record(r.S))
	r.OK(closed.Close())
	r.OK(recordedClosed.Close())
	var zero Event
	pool := Need(r.GPU.EventPool())(t)
	defer pool.Close()
	acquire := func(flags EventFlags) Pooled {
		p := Need(pool.Acquire(flags))(t)
		t.Cleanup(func() { p.Release() })
		return p
	}
	pooled := acquire(EventDefault)
	r.OK(pooled.Record(r.S))
	released := Need(pool.Acquire(EventDefault))(t)
	released.Release()
	for what, bad := range map[string]*Event{
		"nil": nil, "closed": closed, "closed after a record": recordedClosed, "never used": &zero,
		"untimed": r.Event(EventDisableTiming), "not recorded": r.Event(0),
	} {
		for which, events := range map[string][2]*Event{"start event": {bad, good}, "stop event": {good, bad}} {
			_, err := Elapsed(t.Context(), events[0], events[1])
			_, _, since := events[1].Since(events[0])
			for _, err := range []error{err, since} {
				if err == nil || strings.Count(err.Error(), which) != 1 || strings.Contains(err.Error(), "start") && which != "start event" {
					t.Errorf("%s, the %s: %v", what, which, err)
				}
			}
		}
	}
	for what, bad := range map[string]Pooled{
		"released": released, "untimed": acquire(EventDisableTiming), "not recorded": acquire(EventDefault),
	} {
		_, start := Elapsed(t.Context(), bad, pooled)
		_, stop := Elapsed(t.Context(), pooled, bad)
		if !strings.Contains(fmt.Sprint(start), "start event") || !strings.Contains(fmt.Sprint(stop), "stop event") {
			t.Errorf("pooled, %s: %v, %v", what, start, stop)
		}
	}
	captured := r.Event(0)
	graph.Capture(r.S, graph.CaptureRelaxed, func() error { // may fail, as the events are queried
		r.OK(captured.Record(r.S))
		_, start := Elapsed(t.Context(), captured, good)
		_, stop := Elapsed(t.Context(), good, captured)
		if !strings.Contains(fmt.Sprint(start), "(start event 0x") || !strings.Contains(fmt.Sprint(stop), "(stop event 0x") {
			t.Errorf("captured: %v, %v", start, stop)
		}
		return nil
	})
}

// TestTwoDrivers mixes objects of two drivers with one name, which the errors must tell apart.
func TestTwoDrivers(t *testing.T) {
	r := NewSoft(t)
	drv := Need(Open(WithSoftware(cusim.New())))(t)
	dev := Need(drv.Device(0))(t)
	gpu := Need(dev.PrimaryContext())(t)
	defer gpu.Close()
	its := Need(gpu.NewEvent(0))(t)
	defer its.Close()
	mem, mine := Need(gpu.Alloc(8))(t), Need(r.GPU.Alloc(8))(t)
	defer mem.Close()
	defer mine.Close()
	other := Need(gpu.NewStream(0))(t)
	defer other.Close()
	_, peer := Need(r.Drv.Device(0))(t).CanAccessPeer(dev)
	_, _, since := r.Event(0).Since(its)
	kernel := Need(r.Mod.Function("spin"))(t)
	for what, err := range map[string]error{
		"record": its.Record(r.S), "wait": r.S.WaitEvent(its), "copy": r.S.Copy(mem, mine), "set": r.S.Memset(mem, 1),
		"peer": peer, "interval": since, "streams": r.S.WaitStream(other),
		"launch": kernel.Launch(r.S, OneThread, Ptr(mem)), "launch there": kernel.Launch(other, OneThread, U64(1)),
	} {
		r.Is(err, ErrDriverMismatch)
		for _, d := range []*Driver{r.Drv, drv} {
			if which := fmt.Sprintf("%p", d); strings.Count(err.Error(), which) != 1 {
				t.Errorf("%s: %s is not there once: %v", what, which, err)
			}
		}
	}
}

// TestClosedFirst uses closed memory in calls that are wrong in other ways, too: that it is closed is said.
func TestClosedFirst(t *testing.T) {
	r := NewSoft(t)
	small, big := Need(r.GPU.Alloc(15))(t), Need(r.GPU.Alloc(1024))(t)
	host, pinned := Need(r.GPU.AllocHost(16, 0))(t), Need(r.GPU.AllocHost(8, 0))(t)
	man := Need(memory.AllocManaged(r.GPU, 16, memory.AttachGlobal))(t)
	virt := Need(memory.Reserve(r.GPU, 1<<21))(t)
	mod := Need(r.GPU.LoadModule([]byte(SpinPTX)))(t)
	kernel := Need(mod.Function("spin"))(t)
	defer big.Close()
	defer pinned.Close()
	built := Need(graph.New(r.GPU))(t)
	defer built.Close()
	r.OK(errors.Join(small.Close(), host.Close(), man.Close(), virt.Close(), mod.Close()))
	node := func(_ graph.Node, err error) error { return err }
	_, prepare := kernel.Prepare(OneThread)
	for what, err := range map[string]error{
		"copy to it":          r.S.Copy(small, big),
		"copy behind its end": r.S.Copy(small.Span(10, 10), big),
		"copy from it":        r.S.Copy(small, host),
		"copy of hosts":       r.S.Copy(pinned, host),
		"rows":                r.S.Copy2D(Rows{small, 0}, Rows{big, 0}, 64, 64),
		"planes":              r.S.Copy3D(Planes{Rows{small, 0}, 0}, Planes{Rows{big, 0}, 0}, 64, 64, 2),
		"rows of hosts":       r.S.Copy2D(Rows{pinned, 0}, Rows{host, 0}, 64, 64),
		"batch":               r.S.CopyAll([]MemCopy{{small, big}, {pinned, host}}),
		"words":               r.S.Memset32(small, 1),
		"halves":              r.S.Memset16(small, 1),
		"rows of words":       r.S.Memset2D32(Rows{small, 3}, 1, 32, 3),
		"behind the end":      small.CopyFrom(make([]byte, 99)),
		"reading behind it":   small.CopyTo(make([]byte, 99)),
		"virtual":             r.S.Memset(virt.Mem(), 1),
		"a part of virtual":   r.S.Memset(virt.Span(1<<21, 5), 1),
		"prefetch":            memory.Prefetch(r.S, small, memory.Location{Type: memory.LocationHost}),
		"prefetch of nothing": memory.Prefetch(r.S, man.Span(0, 0), memory.Location{Type: memory.LocationHost}),
		"attach":              memory.Attach(r.S, man, memory.AttachGlobal),
		"advice":              memory.Advise(r.GPU, man.Span(0, 0), memory.AdviseReadMostly, memory.Location{}),
		"word":                r.S.BatchMemOps(WriteWord64(small, 1)),
		"node that copies":    node(built.Add(&graph.Copy{Dst: small, Src: big})),
		"node of hosts":       node(built.Add(&graph.Copy{Dst: pinned, Src: host})),
		"node of rows":        node(built.Add(CopyRect(Rows{small, 0}, Rows{big, 0}, 64, 64))),
		"node that sets":      node(built.Add(&graph.Memset{Dst: small, Value: 1, ElementSize: 4})),
		"node that launches":  node(built.Add(&graph.Kernel{Function: kernel, Config: OneThread})),
		"launch":              kernel.Launch(r.S, OneThread),
		"prepared launch":     prepare,
	} {
		r.Is(err, ErrClosed)
		if err != nil && strings.Contains(err.Error(), "fit") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestErrorHandles checks that errors name an object where there is one, and the method where no C
// function fits.
func TestErrorHandles(t *testing.T) {
	r := NewSoft(t)
	other := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	defer other.Close()
	its, mem := Need(other.NewEvent(0))(t), Need(other.Alloc(8))(t)
	defer its.Close()
	defer mem.Close()
	host := Need(r.GPU.AllocHost(8, 0))(t)
	defer host.Close()
	_, alloc := r.GPU.Alloc(1 << 50)
	_, _, pitch := r.GPU.AllocPitch(1<<30, 1<<30, 4)
	_, pinned := r.GPU.AllocHost(1<<60, 0)
	_, managed := memory.AllocManaged(r.GPU, 1<<60, memory.AttachGlobal)
	_, physical := memory.NewPhysical(r.GPU, 1<<50, memory.PhysicalOptions{})
	_, reserve := memory.Reserve(r.GPU, 1<<60)
	_, pooled := r.S.Alloc(1 << 50)
	for err, want := range map[error]struct {
		op     string
		handle uintptr
	}{
		its.Record(r.S):      {"cuEventRecord", its.Handle()},
		r.S.Memset(mem, 1):   {"cuMemsetD8Async", uintptr(mem.Handle())},
		r.S.Copy(host, mem):  {"cuMemcpyDtoHAsync", uintptr(mem.Handle())},
		r.S.Copy(host, host): {"Stream.Copy", core.Of(host).Handle()},
		alloc:                {"cuMemAlloc", r.GPU.Handle()},
		pitch:                {"cuMemAllocPitch", r.GPU.Handle()},
		pinned:               {"cuMemHostAlloc", r.GPU.Handle()},
		managed:              {"cuMemAllocManaged", r.GPU.Handle()},
		physical:             {"cuMemCreate", r.GPU.Handle()},
		reserve:              {"cuMemAddressReserve", r.GPU.Handle()},
		pooled:               {"cuMemAllocAsync", r.S.Handle()},
	} {
		var e *Error
		if !errors.As(err, &e) || e.Op != want.op || e.Handle != want.handle {
			t.Errorf("%v, want %s(%#x)", err, want.op, want.handle)
		}
	}
}

// TestUnknownKernel asks for kernels that do not exist, of drivers with and without the functions that
// list kernels.
func TestUnknownKernel(t *testing.T) {
	var text strings.Builder
	text.WriteString(".version 7.0\n.target sm_70\n.address_size 64\n")
	for _, name := range []string{"_Z3addPfS_", "a", "b", "c", "d", "e", "f", "g", "zz"} {
		fmt.Fprintf(&text, ".visible .entry %s() { ret; }\n", name)
	}
	for _, version := range []int{13000, 12030} {
		r := NewSoft(t, cusim.Version(version))
		m := Need(r.GPU.LoadModule([]byte(text.String())))(t)
		defer m.Close()
		_, err := m.Function("add")
		r.Is(err, ResultNotFound)
		if want := "; there are _Z3addPfS_, a, b, c, d, e and 3 more"; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d: %v, want %s", version, err, want)
		}
		if _, err := r.Mod.Function("nosuch"); err == nil || !strings.HasSuffix(err.Error(), "; there are add, bad, spin") {
			t.Errorf("%d: %v", version, err)
		}
		if _, err := m.Global("nosuch"); err == nil || strings.Contains(err.Error(), "there are") {
			t.Errorf("%d: %v", version, err)
		}
		lib := Need(library.Load(r.Drv, []byte(text.String())))(t)
		defer lib.Close()
		if _, err := lib.Kernel("zzz"); err == nil || version > 12040 != strings.HasSuffix(err.Error(), "there are _Z3addPfS_, a, b, c, d, e and 3 more") {
			t.Errorf("%d: %v", version, err)
		}
	}
}

// TestStopsItself runs the program of docs/blocking.md that waits for itself, and compares the page with
// the report of the software driver.
func TestStopsItself(t *testing.T) {
	page, err := os.ReadFile("../docs/blocking.md")
	if err != nil {
		t.Skipf("the page is not here: %v", err)
	}
	r := NewSoft(t)
	tl := Need(r.GPU.NewTimeline(0))(t)
	defer tl.Close()
	x, y := Need(r.GPU.Alloc(64))(t), Need(r.GPU.Alloc(64))(t)
	defer x.Close()
	r.OK(tl.Block(r.S, 1))
	r.OK(r.S.Memset(x, 0))
	closed := make(chan error, 1)
	go func() { closed <- y.Close() }()
	var report string
	if !Eventually(func() bool {
		for _, b := range r.Sim.Blocked() {
			report = b.String()
		}
		return report != ""
	}) {
		t.Error("nothing is blocked")
	}
	report = regexp.MustCompile(`0x[0-9a-f]+`).ReplaceAllString(report, "0x…")
	report = regexp.MustCompile(`waited for \S+:`).ReplaceAllString(report, "waited for 2s:")
	line, stack, _ := strings.Cut(report, "\n")
	if !strings.Contains(string(page), line+"\ncalled from\n") || !strings.Contains(stack, "TestStopsItself") {
		t.Errorf("the report is %s", report)
	}
	r.OK(tl.Set(1))
	r.OK(<-closed)
}

// TestLackOfMemory allocates too much in all ways: the error says what helps there.
func TestLackOfMemory(t *testing.T) {
	r := NewSoft(t)
	pool := Need(memory.NewPool(r.GPU, memory.PoolOptions{}))(t)
	limited := Need(memory.NewPool(r.GPU, memory.PoolOptions{MaxSize: 64 << 20}))(t)
	defer pool.Close()
	defer limited.Close()
	alloc := func() (*DeviceMem, error) { return r.GPU.Alloc(1 << 50) }
	physical := func() error { _, err := memory.NewPhysical(r.GPU, 1<<50, memory.PhysicalOptions{}); return err }
	is := func(what string, err error, want, not string) {
		t.Helper()
		r.Is(err, ResultOutOfMemory)
		if text := fmt.Sprint(err); !strings.Contains(text, want) || not != "" && strings.Contains(text, not) ||
			strings.Contains(text, "nvidia-smi") {
			t.Errorf("%s: %s", what, text)
		}
	}
	_, err := alloc()
	is("no pool keeps anything", err, "close memory", "memory.Pool.Trim")
	is("physical", physical(), "ulimit -n", "memory.Pool.Trim")

	r.OK(pool.SetReleaseThreshold(1 << 40))
	m := Need(pool.Alloc(r.S, 1<<20))(t)
	_, err = alloc()
	if stats := Need(pool.Stats())(t); stats.Reserved == stats.Used {
		is("the pool is in use", err, "close memory", "memory.Pool.Trim")
	}
	r.OK(m.Close())
	r.OK(r.S.Synchronize())
	stats := Need(pool.Stats())(t)
	want := fmt.Sprintf("memory pools keep %d bytes that nobody uses: memory.Pool.Trim frees them", stats.Reserved-stats.Used)
	_, err = alloc()
	is("the pool keeps memory", err, want, "")
	is("physical, beside the pool", physical(), want, "")
	_, err = pool.Alloc(r.S, 1<<50)
	is("of the pool itself", err, "free memory of the pool", "memory.Pool.Trim")
	_, err = graph.Capture(r.S, graph.CaptureThreadLocal, func() error {
		_, err := r.GPU.Alloc(1 << 50) // refused, and the question what pools keep is not
		r.Is(err, ResultStreamCaptureUnsupported)
		return nil
	})
	r.Is(err, ResultStreamCaptureInvalidated)
	r.OK(pool.Trim(0))
	_, err = alloc()
	is("the pool was trimmed", err, "close memory", "memory.Pool.Trim")

	part := Need(limited.Alloc(r.S, 48<<20))(t)
	_, err = limited.Alloc(r.S, 32<<20)
	is("over MaxSize", err, "33554432 bytes were requested, and 50331648 of at most 67108864 are used (memory.PoolOptions.MaxSize)", "")
	r.OK(memory.SetPool(r.GPU, limited))
	_, err = r.S.Alloc(32 << 20)
	is("over MaxSize of the current pool", err, "memory.PoolOptions.MaxSize", "")
	r.OK(part.Close())

	_, err = memory.Reserve(r.GPU, 1<<60)
	is("addresses", err, "addresses", "close memory")
}

// TestPoisonedCloses closes objects of a poisoned context: one error says what to do, and each names its object.
func TestPoisonedCloses(t *testing.T) {
	r := NewSoft(t)
	var mems []*DeviceMem
	for range 10 {
		mems = append(mems, Need(r.GPU.Alloc(8))(t))
	}
	r.Sim.Poison(int(ResultIllegalAddress))
	var errs []error
	for _, m := range mems {
		name := drivercall.Describe(core.Of(m))
		err := m.Close()
		r.Is(err, ErrContextPoisoned, ResultIllegalAddress)
		if !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%v does not name %s", err, name)
		}
		errs = append(errs, err)
	}
	text := errors.Join(errs...).Error()
	if strings.Count(text, "start a new process") != 1 || strings.Count(text, "was the first to report it") != len(mems) {
		t.Errorf("the errors are\n%s", text)
	}
}
