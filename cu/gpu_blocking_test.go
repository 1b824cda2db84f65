package cu_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/loaded"
	"github.com/purecu/purecu/internal/memstate"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/watch"
)

// mostStreams is with how many streams backgroundHoldsNobody ends: the driver waits for the GPU before it
// makes the 36th, the 79th and the 122nd stream of a context.
const mostStreams = 130

// heldUp is how long a call may take that does not wait for the stream that is held. It is for a machine that is
// slow, and says nothing of what calls cost.
const heldUp = 5 * time.Second

func TestGPUBackgroundHoldsNobody(t *testing.T) {
	if isExporter(t) {
		return
	}
	step := 1
	if testing.Short() {
		step = 11
	}
	x := startExporter(t, "TestGPUBackgroundHoldsNobody")
	made, _ := backgroundHoldsNobody(t, GPUContext(t), x, step)
	t.Logf("abandoned were %v", made)
}

// TestBackgroundHoldsNobody does so on the software driver, where it checks that objects of all types with a
// method Close were abandoned.
func TestBackgroundHoldsNobody(t *testing.T) {
	var mu sync.Mutex
	abandoned := make(map[string]int)
	x := startExporter(t, "TestGPUBackgroundHoldsNobody", GPUEnv+"=") // of a software driver
	drv := Need(OpenNeverWait(WithSoftware(cusim.New()), WithLeakHook(func(l Leak) {
		mu.Lock()
		defer mu.Unlock()
		if abandoned[l.Kind]++; !l.Abandoned || l.Err != nil {
			t.Errorf("report %+v", l)
		}
	})))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	made, memories := backgroundHoldsNobody(t, gpu, x, 11)
	Eventually(func() bool {
		runtime.GC()
		mu.Lock()
		defer mu.Unlock()
		return maps.Equal(made, abandoned)
	})
	if err := errors.Join(gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(made, abandoned); diff != "" {
		t.Errorf("objects that were abandoned, and reports of them (-objects +reports):\n%s", diff)
	}
	for _, k := range []memstate.Kind{memstate.DeviceMemory, loaded.ModuleVariable, loaded.ManagedVariable,
		memstate.DevicePoolMemory,
		RegisteredMemory} { // objects makes pinned memory; graphMemory has no address of its own
		if !memories[k] {
			t.Errorf("no %s (%+v) is abandoned", k.Name, k.Traits)
		}
	}
	names := map[string]bool{}
	for k := range memories {
		names[memoryName(k)] = true
	}
	want := []string{"host memory of a pool", "managed memory of a pool", "managed memory", "virtual memory",
		"memory of other code", "managed memory of other code"}
	if x != nil {
		want = append(want, "memory of another process")
	}
	if runtime.GOOS != "windows" {
		want = append(want, "external memory")
	}
	for _, name := range want {
		if !names[name] {
			t.Errorf("no %s is abandoned", name)
		}
	}
	kinds := map[reflect.Type]string{
		reflect.TypeFor[*Context]():           "context",
		reflect.TypeFor[*DeviceMem]():         "device memory",
		reflect.TypeFor[*Event]():             "event",
		reflect.TypeFor[*EventPool]():         "event pool",
		reflect.TypeFor[*interop.Semaphore](): "external semaphore",
		reflect.TypeFor[*graph.Graph]():       "graph",
		reflect.TypeFor[*graph.Exec]():        "executable graph",
		reflect.TypeFor[*green.Context]():     "green context",
		reflect.TypeFor[*HostMem]():           "host memory",
		reflect.TypeFor[*library.Library]():   "library",
		reflect.TypeFor[*memory.Pool]():       "memory pool",
		reflect.TypeFor[*Module]():            "module",
		reflect.TypeFor[*memory.Physical]():   "physical memory",
		reflect.TypeFor[*Stream]():            "stream",
		reflect.TypeFor[*Timeline]():          "timeline",
		reflect.TypeFor[*memory.Virtual]():    "virtual memory",
	}
	for _, v := range apiTypes {
		if _, closes := v.(io.Closer); !closes || reflect.TypeOf(v) == reflect.TypeFor[*Driver]() {
			continue
		}
		if runtime.GOOS == "windows" && reflect.TypeOf(v) == reflect.TypeFor[*interop.Semaphore]() {
			continue // the software driver has none there
		}
		if kind := kinds[reflect.TypeOf(v)]; made[kind] == 0 {
			t.Errorf("no %T is abandoned", v)
		}
	}
}

// backgroundHoldsNobody holds the last stream in a context with more and more streams, while goroutines wait for
// the stream in all ways, and objects of all kinds that nobody refers to are collected. Calls on another stream return
// meanwhile: nothing that the library does of its own accord waits for the GPU, as that would hold them up.
//
// Where the stream that is held is the only one, the other stream is the context's legacy default stream: that is there
// without being made, and waits for no stream that is non-blocking. It cannot be captured: the held stream is, then,
// which enqueues nothing; and no stream is abandoned. Of two streams, the other one is captured, too. From the fourth
// stream on, it is held with each step's, and where the driver itself waits. It returns how many objects of each kind
// were abandoned, and the kinds of memory that the held stream used. Objects of other processes come from an exporter,
// unless it is nil.
func backgroundHoldsNobody(t *testing.T, gpu *Context, x *exporter, step int) (made map[string]int,
	memories map[memstate.Kind]bool) {
	legacy := Need(gpu.LegacyStream())(t)
	defer legacy.Close()
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	spin := Need(mod.Function("spin"))(t)
	if err := errors.Join(spin.Launch(legacy, OneThread, U64(1)), legacy.Synchronize()); err != nil {
		t.Fatal(err) // a kernel's first launch may wait
	}
	var streams []*Stream
	defer func() { closeAll(t, streams) }()
	took := make(map[string][]time.Duration)
	made, memories = make(map[string]int), make(map[memstate.Kind]bool)
	for n := 1; n <= mostStreams; n++ {
		held := Need(gpu.NewStream(StreamNonBlocking))(t) // while nothing is held
		streams = append(streams, held)
		if n > 3 && n%step != 0 && n%43 != 36 && n%43 != 35 {
			continue
		}
		other, capturing := streams[0], streams[0]
		switch {
		case n == 1:
			other = legacy
		case n > 2:
			capturing = streams[1]
		}
		b := &besideHeld{
			t:         t,
			gpu:       gpu,
			exporter:  x,
			streams:   n,
			held:      held,
			other:     other,
			capturing: capturing,
			spin:      spin,
			took:      took,
			made:      made,
			memories:  memories,
		}
		b.run(n%43 == 36)
	}
	for _, name := range slices.Sorted(maps.Keys(took)) {
		d := took[name]
		slices.Sort(d)
		t.Logf("%-28s p50 %8v, longest %8v of %d", name, d[len(d)/2], d[len(d)-1], len(d))
	}
	return made, memories
}

// besideHeld is one round: a stream is held by a timeline.
type besideHeld struct {
	t                      *testing.T
	gpu                    *Context
	exporter               *exporter // or nil
	streams                int       // that the program made
	held, other, capturing *Stream
	spin                   *Function
	took                   map[string][]time.Duration
	made                   map[string]int // objects that are abandoned, by their kinds
	memories               map[memstate.Kind]bool
	owners                 []io.Closer // they free what the abandoned memory of other code is
}

func (b *besideHeld) run(contexts bool) {
	t, drv := b.t, core.Of(b.gpu).Context.Drv
	t.Helper()
	tl := Need(b.gpu.NewTimeline(0))(t)
	defer tl.Close()
	complete, pending, twice := Need(b.gpu.NewEvent(0))(t), Need(b.gpu.NewEvent(0))(t), Need(b.gpu.NewEvent(0))(t)
	events := []*Event{complete, pending, twice}
	defer func() {
		closeAll(t, events)
		closeAll(t, b.owners)
	}()
	b.ok(errors.Join(complete.Record(b.other), b.other.Synchronize()))
	forget := b.objects(contexts)

	b.ok(tl.Block(b.held, 1))
	b.ok(errors.Join(pending.Record(b.held), twice.Record(b.held)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for _, wait := range []func() error{
		func() error { return pending.Wait(ctx) },
		func() error { return twice.Wait(ctx) },
		func() error { return b.held.Wait(ctx) },
		func() error { return tl.Wait(ctx, 1) },
		func() error { <-Need(pending.Ticket())(t).Done(); return nil },
	} {
		wg.Go(func() {
			if err := wait(); err != nil {
				t.Errorf("a wait: %v", err)
			}
		})
	}
	// Longer than it takes until the watcher has streams wake it.
	Eventually(func() bool { return drv.Watch.Waiters() >= 4 })
	time.Sleep(2 * watch.Long)
	enqueued := make(chan error, 1)
	go func(forget func() error) { enqueued <- forget() }(forget)
	forget = nil
	select {
	case err := <-enqueued:
		b.ok(err)
	case <-time.After(heldUp):
		t.Errorf("the work is held up, beside %d streams of the program", b.streams)
		b.ok(tl.Set(1))
		b.ok(<-enqueued)
	}
	collected := make(chan struct{})
	runtime.AddCleanup(&[8]*int{}, func(c chan struct{}) { close(c) }, collected)
	for range 3 {
		runtime.GC()
	}
	<-collected

	var first Event
	var fresh *Timeline
	e := Need(b.gpu.NewEvent(0))(t)
	events = append(events, e, &first)
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"Event.Query", func() error {
			if st, err := pending.Query(); st != Pending || err != nil {
				return fmt.Errorf("%v, %w", st, err)
			}
			_, err := complete.Query()
			return err
		}},
		{"Event.Record", func() error { return e.Record(b.other) }},
		{"Event.Record, waited for", func() error { return twice.Record(b.other) }},
		{"Event.Record, RecordExternal", func() error {
			g, err := graph.Capture(b.capturing, graph.CaptureRelaxed, func() error {
				return pending.RecordWithFlags(b.capturing, RecordExternal)
			})
			if err != nil {
				return err
			}
			return g.Close()
		}},
		{"Event.Record, its first", func() error { return first.Record(b.other) }},
		{"Function.Launch", func() error { return b.spin.Launch(b.other, OneThread, U64(1)) }},
		{"Stream.WaitEvent", func() error { return b.other.WaitEvent(complete) }},
		{"Stream.HostFunc", func() error { return b.other.HostFunc(func() {}) }},
		{"Context.NewTimeline", func() (err error) { fresh, err = b.gpu.NewTimeline(0); return err }},
		{"Context.NewEvent, Close", func() error {
			e, err := b.gpu.NewEvent(0)
			if err != nil {
				return err
			}
			return e.Close()
		}},
		{"Context.Alloc", func() error { // and abandons it
			b.made["device memory"]++
			_, err := b.gpu.Alloc(64)
			return err
		}},
	} {
		begun, done := time.Now(), make(chan error, 1)
		go func() { done <- c.call() }()
		select {
		case err := <-done:
			b.took[c.name] = append(b.took[c.name], time.Since(begun))
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		case <-time.After(heldUp):
			t.Errorf("%s is held up, beside %d streams of the program and %d in all", c.name, b.streams,
				len(core.Of(b.gpu).Context.SharedStates))
			b.ok(tl.Set(1))
			<-done
		}
	}
	if tl.Value() != 0 {
		t.Fatal("the stream was let go")
	}
	b.ok(tl.Set(1))
	wg.Wait()
	b.ok(errors.Join(b.other.Synchronize(), fresh.Close()))
}

// objects makes objects of all kinds, while nothing is held, and returns a function that enqueues work with some of
// them and abandons all.
func (b *besideHeld) objects(contexts bool) (forget func() error) {
	t := b.t
	mem, host := Need(b.gpu.Alloc(1<<20))(t), Need(b.gpu.AllocHost(1<<16, 0))(t)
	mod := Need(b.gpu.LoadModule([]byte(SpinPTX)))(t)
	s := b.held
	if b.streams > 1 {
		s = Need(b.gpu.NewStream(StreamNonBlocking))(t)
		b.made["stream"]++
	}
	tl := Need(b.gpu.NewTimeline(0))(t)
	g := Need(graph.Capture(s, graph.CaptureRelaxed, func() error { return s.Memset(mem, 1) }))(t)
	x := Need(g.Instantiate())(t)
	e := Need(b.gpu.NewEvent(0))(t)
	used := Need(b.gpu.Alloc(1 << 10))(t)
	for _, kind := range []string{"device memory", "device memory", "host memory", "module", "timeline", "graph",
		"executable graph", "event"} {
		b.made[kind]++
	}
	var another *Context
	if contexts {
		another = Need(b.gpu.Device().NewContext(0))(t)
		Need(another.NewEvent(0))(t)
		b.made["context"]++
		b.made["event"]++
	}
	useMemory, useCode, useOthers, useExported := b.memory(s), b.code(s), b.others(contexts), b.exported()
	return func() error {
		err := errors.Join(e.Record(s), b.held.Memset(used, 1), b.held.Copy(mem, host.Span(0, 16)),
			tl.Signal(b.held, 1), x.Launch(b.held), e.Record(b.held),
			useMemory(), useCode(), useOthers(), useExported())
		runtime.KeepAlive(mod)
		runtime.KeepAlive(another)
		return err
	}
}

// missing reports whether the driver or the device has no objects of a kind. Otherwise it counts an object.
func (b *besideHeld) missing(kind string, err error) bool {
	b.t.Helper()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ResultNotSupported) {
		return true
	}
	b.ok(err)
	b.made[kind]++
	return false
}

// code makes a library, and graphs of newer nodes, and returns a function that launches them.
func (b *besideHeld) code(s *Stream) (use func() error) {
	t := b.t
	uses := []func() error{func() error { return nil }}
	if l, err := library.Load(b.gpu.Device().Driver(), []byte(CountPTX)); !b.missing("library", err) {
		tick := Need(Need(l.Kernel("tick"))(t).Function(b.gpu))(t)
		m := Need(b.gpu.Alloc(4))(t)
		b.made["device memory"]++
		b.ok(tick.Launch(s, OneThread, Ptr(m)))
		uses = append(uses, func() error {
			defer runtime.KeepAlive(l)
			return tick.Launch(b.held, OneThread, Ptr(m))
		})
	}
	launches := func(g *graph.Graph, flags graph.InstantiateFlags) {
		x := Need(g.InstantiateWithFlags(flags))(t)
		b.ok(x.Launch(s))
		b.made["executable graph"]++
		uses = append(uses, func() error {
			defer runtime.KeepAlive(g)
			return x.Launch(b.held)
		})
	}
	allocates := Need(graph.New(b.gpu))(t)
	b.made["graph"]++
	if n, m, err := AddAlloc(allocates, 64); !b.missing("memory of a graph", err) {
		Need(allocates.Add(&graph.Memset{Dst: m, Value: 1}, n))(t)
		launches(allocates, graph.InstantiateAutoFree)
	}
	chooses := Need(graph.New(b.gpu))(t)
	b.made["graph"]++
	if c, err := chooses.NewConditionAt(1); !b.missing("condition", err) {
		delete(b.made, "condition") // it belongs to its graph
		_, body, err := AddIf(chooses, c)
		b.ok(err)
		Need(body.Add(&graph.Empty{}))(t)
		launches(chooses, 0)
	}
	launches(b.nodes(), 0)
	b.ok(s.Synchronize())
	return func() error {
		var errs []error
		for _, use := range uses {
			errs = append(errs, use())
		}
		return errors.Join(errs...)
	}
}

// nodes returns a graph of one row, with a node of each type that needs no newer driver.
func (b *besideHeld) nodes() *graph.Graph {
	t := b.t
	g, child := Need(graph.New(b.gpu))(t), Need(graph.New(b.gpu))(t)
	m, h := Need(b.gpu.Alloc(64))(t), Need(b.gpu.AllocHost(64, 0))(t)
	e := Need(b.gpu.NewEvent(0))(t)
	for _, kind := range []string{"graph", "graph", "device memory", "host memory", "event"} {
		b.made[kind]++
	}
	Need(child.Add(&graph.Empty{}))(t)
	var last []graph.Node
	for _, add := range []func(deps ...graph.Node) (graph.Node, error){
		func(deps ...graph.Node) (graph.Node, error) { return g.Add(&graph.Record{Event: e}, deps...) },
		func(deps ...graph.Node) (graph.Node, error) {
			return g.Add(&graph.Kernel{Function: b.spin, Config: OneThread, Args: []Arg{U64(1)}}, deps...)
		},
		func(deps ...graph.Node) (graph.Node, error) { return g.Add(&graph.Copy{Dst: m, Src: h}, deps...) },
		func(deps ...graph.Node) (graph.Node, error) { return g.Add(&graph.Memset{Dst: m, Value: 1}, deps...) },
		func(deps ...graph.Node) (graph.Node, error) { return g.Add(&graph.Child{Graph: child}, deps...) },
		func(deps ...graph.Node) (graph.Node, error) { return g.Add(&graph.HostFunc{Func: func() {}}, deps...) },
		func(deps ...graph.Node) (graph.Node, error) {
			return g.Add(&graph.MemOps{Ops: []MemOp{WriteWord32(m.Span(0, 4), 1)}}, deps...)
		},
		func(deps ...graph.Node) (graph.Node, error) { return g.Add(&graph.Wait{Event: e}, deps...) },
	} {
		n, err := add(last...)
		if !errors.Is(err, errors.ErrUnsupported) {
			b.ok(err)
			last = []graph.Node{n}
		}
	}
	return g
}

// others makes a pool of events, and, with contexts, a green context, and returns a function that uses them.
func (b *besideHeld) others(contexts bool) (use func() error) {
	t := b.t
	pool := Need(b.gpu.EventPool())(t)
	e := Need(pool.AcquireTracked())(t)
	b.made["event pool"]++
	b.made["pooled event"]++
	var greenCtx *green.Context
	var s *Stream
	if contexts {
		sms, err := green.DeviceSMs(b.gpu.Device())
		if err == nil {
			greenCtx, err = green.New(b.gpu, sms)
		}
		if !b.missing("green context", err) {
			s = Need(greenCtx.NewStream(0))(t)
			b.made["stream"]++
		}
	}
	return func() error {
		err := e.Record(b.held)
		if s != nil {
			mem := Need(b.gpu.Alloc(4))(t)
			b.made["device memory"]++
			err = errors.Join(err, s.Memset(mem, 1))
		}
		runtime.KeepAlive(greenCtx)
		return err
	}
}

func (b *besideHeld) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// memoryName names the kinds of memory of subjects, which tests cannot name otherwise.
func memoryName(k memstate.Kind) string {
	name := k.Name
	if k.Managed && !strings.HasPrefix(name, "managed") {
		name = "managed " + name
	}
	if k.Pooled != nil {
		name += " of a pool"
	}
	return name
}
