package cu_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/slab"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/watch"
)

// TestGPUWaiters waits on a GPU in all ways, for less and for longer than it takes until
// the watcher has streams wake it.
func TestGPUWaiters(t *testing.T) {
	gpu := GPUContext(t)
	drv := core.Of(gpu).Context.Drv
	for _, long := range []time.Duration{0, 20 * time.Millisecond, 150 * time.Millisecond} {
		t.Run(fmt.Sprint(long), func(t *testing.T) {
			g := NewGate(t, gpu)
			const waiters, of = 200, 8
			streams := make([]*Stream, of)
			for i := range streams {
				streams[i] = Need(gpu.NewStream(StreamNonBlocking))(t)
				defer streams[i].Close()
				g.Hold(t, streams[i])
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wg, early sync.WaitGroup
			var woken atomic.Int32
			wait := func(f func() error, is error) {
				g := &wg
				if is != nil {
					g = &early
				}
				g.Go(func() {
					if err := f(); !errors.Is(err, is) || is == nil && err != nil {
						t.Errorf("%v, want %v", err, is)
					}
					woken.Add(1)
				})
			}
			var all []*Event
			for i := range waiters {
				e := Need(gpu.NewEvent(EventDisableTiming))(t)
				if err := e.Record(streams[i%of]); err != nil {
					t.Fatal(err)
				}
				all = append(all, e)
			}
			closed := Need(gpu.NewEvent(EventDisableTiming))(t)
			if err := closed.Record(streams[0]); err != nil {
				t.Fatal(err)
			}
			wait(func() error { return closed.Wait(t.Context()) }, ErrClosed)
			for i, e := range all {
				switch i % 4 {
				case 0:
					wait(func() error { return e.Wait(t.Context()) }, nil)
				case 1:
					wait(func() error { return e.Wait(ctx) }, context.Canceled)
				case 2:
					wait(func() error { return streams[i%of].Wait(t.Context()) }, nil)
				case 3:
					ticket := Need(e.Ticket())(t)
					wait(func() error { <-ticket.Done(); return ticket.Err() }, nil)
				}
			}
			wait(func() error { return WaitAll(t.Context(), all...) }, nil)
			wait(func() error { _, err := WaitAny(t.Context(), all...); return err }, nil)
			time.Sleep(long)
			s := drv.Watch.State()
			t.Logf("%d records are watched, of %d streams; there are %d wake-up streams; the watcher sleeps for %v",
				s.Waits, s.Counters, WakeUpStreams(gpu), s.Rest)
			if n := woken.Load(); n != 0 {
				t.Errorf("%d have been woken", n)
			}
			cancel()
			closed.Close()
			early.Wait()
			g.Open()
			wg.Wait()
			for _, e := range all {
				e.Close()
			}
		})
	}
}

// TestGPUWakeUpStreamsHoldNobody looks whether streams that wait for one record, so as to wake
// the watcher, keep others from getting on: streams may share a queue of the GPU's.
func TestGPUWakeUpStreamsHoldNobody(t *testing.T) {
	gpu := GPUContext(t)
	w := &core.Of(gpu).Context.Drv.Watch
	g := NewGate(t, gpu)
	const n, held = 64, 8
	streams, events := make([]*Stream, n), make([]*Event, n)
	for i := range streams {
		streams[i], events[i] = Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewEvent(EventDisableTiming))(t)
		defer streams[i].Close()
		defer events[i].Close()
		if err := errors.Join(events[i].Record(streams[i]), events[i].Synchronize()); err != nil {
			t.Fatal(err)
		}
	}
	// Streams are created before anything is held: a driver may wait for the GPU for that.
	control := make([]*Stream, core.MaxWakeUps)
	for k := range control {
		control[k] = Need(gpu.NewStream(StreamNonBlocking))(t)
		defer control[k].Close()
	}
	// stuck returns the streams on which nothing gets on.
	stuck := func() (list []int) {
		for i := held; i < n; i++ {
			if err := events[i].Record(streams[i]); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Millisecond)
		for i := held; i < n; i++ {
			if st, err := events[i].Query(); err != nil {
				t.Fatal(err)
			} else if st != Complete {
				list = append(list, i)
			}
		}
		return list
	}
	for _, s := range streams[:held] {
		g.Hold(t, s)
	}
	before := stuck()
	t.Logf("CUDA_DEVICE_MAX_CONNECTIONS=%s; behind %d streams that are held: %v",
		os.Getenv("CUDA_DEVICE_MAX_CONNECTIONS"), held, before)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var more []*Event
	for k := range core.MaxWakeUps {
		e := Need(gpu.NewEvent(EventDisableTiming))(t)
		more = append(more, e)
		defer e.Close()
		if err := e.Record(streams[k%held]); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { e.Wait(ctx) })
		time.Sleep(watch.Long / 4)
	}
	Eventually(func() bool { return w.State().Rest >= watch.Behind })
	with := stuck()
	t.Logf("with %d wake-up streams that wait: %v", WakeUpStreams(gpu), with)
	if len(with) > len(before) {
		t.Errorf("%d streams are behind wake-up streams", len(with)-len(before))
	}
	cancel()
	wg.Wait()
	// The other way round: what it is like when streams of the common priority wait.
	for k, s := range control {
		if err := s.WaitEvent(more[k]); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("with %d streams of the common priority that wait: %v", core.MaxWakeUps, stuck())
	g.Open()
}

// TestGPUWaitsSpoilNoCapture has somebody capture in global mode, by the driver and without
// this package's knowledge, while goroutines wait: their polls, and the streams that wake
// the watcher, which are made meanwhile, invalidate nothing.
func TestGPUWaitsSpoilNoCapture(t *testing.T) {
	gpu := GPUContext(t)
	tab := core.Of(gpu).Context.Drv.Table()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var waits atomic.Int64
	for range 4 {
		s, g, e := Need(gpu.NewStream(StreamNonBlocking))(t), NewGate(t, gpu), Need(gpu.NewEvent(EventDisableTiming))(t)
		defer s.Close()
		defer e.Close()
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				atomic.StoreUint32(g.Word(), 0)
				g.Hold(t, s)
				if err := e.Record(s); err != nil {
					t.Error(err)
				}
				opener := time.AfterFunc(time.Duration(rand.IntN(40000))*time.Microsecond, g.Open)
				if err := e.Wait(t.Context()); err != nil {
					t.Error(err)
					g.Open()
					return
				}
				opener.Stop()
				waits.Add(1)
			}
		})
	}
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	runtime.LockOSThread() // a capture ends where it has begun
	defer runtime.UnlockOSThread()
	const captures = 40
	for i := range captures {
		at := driver.At{}
		if res := tab.StreamBeginCapture(at, core.Of(s).Raw, driver.CU_STREAM_CAPTURE_MODE_GLOBAL); res != 0 {
			t.Fatal(res)
		}
		time.Sleep(time.Duration(rand.IntN(20000)) * time.Microsecond)
		graph, res := tab.StreamEndCapture(at, core.Of(s).Raw)
		if res != 0 {
			t.Fatalf("capture %d was invalidated: %v", i, res)
		}
		if res := tab.GraphDestroy(at, graph); res != 0 {
			t.Error(res)
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d captures beside %d waits; %d wake-up streams", captures, waits.Load(), WakeUpStreams(gpu))
	if WakeUpStreams(gpu) == 0 {
		t.Error("no wait was long")
	}
}

// TestGPULateWakeUps has streams of drivers of their own wake waiters when nobody waits any more. Such a driver
// has no files open, also before its streams have come to that, and nothing is left when they have.
func TestGPULateWakeUps(t *testing.T) {
	defer GPUContext(t).Close() // there and back takes long
	late := 0
	use := func() {
		drv := GPUDriver(t)
		mine := Need(Need(drv.Device(0))(t).PrimaryContext())(t) // of a Driver of its own
		s := Need(mine.NewStream(StreamNonBlocking))(t)
		line := Need(mine.NewTimeline(0))(t)
		e := Need(mine.NewEvent(EventDisableTiming))(t)
		if err := errors.Join(line.Block(s, 1), e.Record(s)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*watch.Long)
		defer cancel()
		if err := e.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		counts := func() core.WaitCounts { return core.Of(drv).WaitCounts() }
		if !soon(func() bool { n := counts(); return n.Waits == 0 && n.Descriptors == 0 }) {
			t.Errorf("nobody waits any more, and there are %+v", counts())
		}
		late += counts().Wakeups
		if err := errors.Join(line.Set(1), s.Synchronize()); err != nil {
			t.Error(err)
		}
		if !soon(func() bool { return counts().Wakeups == 0 }) {
			t.Errorf("the stream has got on, and there are %+v", counts())
		}
		if err := e.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if err := errors.Join(e.Close(), line.Close(), s.Close(), mine.Close()); err != nil {
			t.Error(err)
		}
	}
	use() // what is opened once and stays
	before := OpenFiles()
	for range 5 {
		use()
	}
	t.Logf("%d wake-ups came when nobody waited", late)
	if !soon(func() bool { return OpenFiles() <= before }) {
		t.Errorf("%d files were open, and then %d", before, OpenFiles())
	}
}

// TestGPUOrder holds the GPU to what the watcher concludes from: when a record has completed, the
// driver says so of each that was made on the stream before, whatever kind of event it is of, and
// whatever is between them.
func TestGPUOrder(t *testing.T) {
	gpu := GPUContext(t)
	tab := core.Of(gpu).Context.Drv.Table()
	const of, each = 8, 500
	rounds := rounds(40)
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	spin := Need(mod.Function("spin"))(t)
	mem := Need(gpu.Alloc(1 << 16))(t)
	defer mem.Close()
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	// Code may be loaded when it is first launched, which waits for the GPU.
	warm := Need(gpu.NewStream(StreamNonBlocking))(t)
	if err := errors.Join(spin.Launch(warm, one, U64(0)), warm.Memset(mem, 1), warm.Synchronize(), warm.Close()); err != nil {
		t.Fatal(err)
	}
	// Held streams of an H200 take no more than some four hundred records that wake threads.
	flags := []EventFlags{EventDisableTiming, EventDefault, EventBlockingSync, EventDisableTiming | EventBlockingSync}
	var streams [of]*Stream
	var events [of][each]*Event
	for i := range streams {
		streams[i] = Need(gpu.NewStream([]StreamFlags{StreamDefault, StreamNonBlocking}[i%2]))(t)
		defer streams[i].Close()
		for k := range events[i] {
			events[i][k] = Need(gpu.NewEvent(flags[rand.IntN(2)+rand.IntN(32)/31*2]))(t)
			defer events[i][k].Close()
			// A first record may take memory, which waits for the GPU, too.
			if err := events[i][k].Record(streams[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	complete := func(i, k int) bool {
		t.Helper()
		res := tab.EventQuery(driver.At{}, EventOf(events[i][k]).Slot.Load().Raw)
		if res != driver.ResultSuccess && res != driver.ResultNotReady {
			t.Fatalf("record %d of stream %d: %v", k, i, res)
		}
		return res == driver.ResultSuccess
	}
	var looked, pending int
	for round := range rounds {
		func() {
			g := NewGate(t, gpu)
			defer g.Close(t)
			if round%2 == 0 {
				for _, s := range streams {
					g.Hold(t, s)
				}
			}
			for k := range each {
				for i, s := range streams {
					var err error
					switch rand.IntN(20) {
					case 0:
						err = spin.Launch(s, one, U64(uint64(rand.IntN(20_000))))
					case 1:
						err = s.Memset(mem, 1)
					case 2:
						err = s.WaitEvent(events[rand.IntN(of)][k])
					}
					if err = errors.Join(err, events[i][k].Record(s)); err != nil {
						t.Fatal(err)
					}
				}
				if k == each/2 {
					g.Open()
				}
			}
			began := time.Now()
			for left := of; left > 0; {
				if left = 0; time.Since(began) > 10*time.Second {
					t.Fatalf("round %d: the streams do not get on", round)
				}
				for i := range streams {
					if !complete(i, each-1) {
						left++
					}
					last := rand.IntN(each)
					if !complete(i, last) {
						pending++
						continue
					}
					for k := last - 1; k >= 0; k -= 1 + rand.IntN(16) {
						if looked++; !complete(i, k) {
							t.Fatalf("record %d of stream %d has completed, and record %d has not", last, i, k)
						}
					}
				}
			}
		}()
	}
	t.Logf("%d records that precede one that has completed have, and %d were still pending when they were asked for",
		looked, pending)
}

// TestGPUPagesOutlastContexts releases contexts whose timelines had memory, while a stream is held. Nobody
// unregisters it, which would wait for the stream, and records there for that. Other timelines get
// it: of a later claim where the CUDA context goes on for others, else of any context.
func TestGPUPagesOutlastContexts(t *testing.T) {
	others := GPUContext(t) // another driver's claim to the primary context
	if core.Of(others).Context.Drv.Table().Software() {
		t.Skip("the memory is Go's, and unregistered")
	}
	stream := Need(others.NewStream(StreamNonBlocking))(t)
	e := Need(stream.RecordNew(EventDisableTiming))(t)
	d := GPUDriver(t)
	dev := Need(d.Device(0))(t)
	in := func(at driver.HostPtr) (in core.ContextKey, ok bool) {
		core.Of(d).Slabs.Unmap(func(s driver.HostPtr, its slab.Place[core.ContextKey]) bool {
			if s == at {
				in, ok = its.Key, true
			}
			return false
		})
		return in, ok
	}
	created := func() (*Context, error) { return dev.NewContext(0) }
	seen := map[driver.HostPtr]bool{}
	for round, c := range []struct {
		name string
		open func() (*Context, error)
		in   bool // the CUDA context goes on
	}{{"primary", dev.PrimaryContext, true}, {"created", created, false}, {"primary", dev.PrimaryContext, true}, {"created", created, false}} {
		gpu := Need(c.open())(t)
		cc := core.Of(gpu).Context
		want := core.ContextKey{}
		if c.in {
			want = cc.Key
		}
		s := Need(gpu.NewStream(StreamNonBlocking))(t)
		line := Need(gpu.NewTimeline(1))(t)
		at := driver.HostPtr(unsafe.Pointer(TimelineWord(line))) // of the first cell of a slab
		if before := round > 1; seen[at] != before {
			t.Errorf("%s, round %d: the timeline's memory is at %#x; it was another's: %v", c.name, round, at, seen[at])
		}
		seen[at] = true
		if err := errors.Join(line.Signal(s, 5), line.Wait(t.Context(), 5), line.Block(s, 5), s.Synchronize(), line.Close()); err != nil {
			t.Fatal(err)
		}
		if !Eventually(func() bool { return UnfinishedOf(gpu) == 0 }) {
			t.Fatalf("%s: the timeline is in use", c.name)
		}
		g := NewGate(t, others)
		g.Hold(t, stream)
		late := time.AfterFunc(10*time.Second, g.Open) // so that nothing waits for ever
		err := errors.Join(s.Close(), gpu.Close(), e.Record(stream))
		gone := Eventually(cc.Gone.Load)
		switch waited := !late.Stop() || !gone; {
		case waited && c.in:
			t.Errorf("%s: the context's end waits for the work of others", c.name)
		case waited: // to destroy a CUDA context may
			t.Logf("%s: the context's end waits for the work of others", c.name)
		}
		g.Open()
		if err := errors.Join(err, stream.Synchronize()); err != nil || !Eventually(cc.Gone.Load) {
			t.Errorf("%s: %v; released: %v", c.name, err, cc.Gone.Load())
		}
		if key, ok := in(at); !ok || key != want {
			t.Fatalf("%s: the memory at %#x is free: %v; it may be registered in %v, want %v", c.name, at, ok, key,
				want)
		}
	}
	if err := errors.Join(e.Close(), stream.Close()); err != nil {
		t.Error(err)
	}
}

// TestGPULegacyStreamOfOtherDrivers releases a context that another driver keeps, while its legacy
// stream has work to do with memory of another context: that is freed when it is done.
func TestGPULegacyStreamOfOtherDrivers(t *testing.T) {
	others := GPUContext(t) // another driver's claim to the primary context
	if core.Of(others).Context.Drv.Table().Software() {
		t.Skip("each Driver is a software driver of its own here: TestLegacyStreamOfOtherDrivers has two of one")
	}
	blocking := Need(others.NewStream(StreamDefault))(t)
	dev := Need(GPUDriver(t).Device(0))(t)
	gpu, other := Need(dev.PrimaryContext())(t), Need(dev.NewContext(0))(t)
	host := Need(other.AllocHost(1<<20, HostPortable|HostDeviceMap))(t)
	legacy := Need(gpu.LegacyStream())(t)
	g := NewGate(t, others)
	g.Hold(t, blocking) // which the legacy stream waits for
	if err := errors.Join(legacy.Memset(host, 1), legacy.Close()); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(10*time.Second, g.Open).Stop() // so that nothing waits for ever
	closed := make(chan error, 1)
	go func() { closed <- gpu.Close() }()
	if !Eventually(func() bool { return core.Of(gpu).Context.Users.None() }) {
		t.Error("nobody releases the context")
	}
	if err := host.Close(); err != nil {
		t.Error(err)
	}
	time.Sleep(50 * time.Millisecond)
	if len(closed) != 0 || core.Of(gpu).Context.Gone.Load() || core.Of(host).Freed.Load() {
		t.Error("it is over before the work is done")
	}
	g.Open()
	if err := errors.Join(<-closed, other.Close(), blocking.Close()); err != nil {
		t.Error(err)
	}
	if !Eventually(core.Of(host).Freed.Load) {
		t.Error("the memory is never freed")
	}
}
