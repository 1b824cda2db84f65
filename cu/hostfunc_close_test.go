package cu_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/driver"
	. "github.com/purecu/purecu/internal/testrig"
)

// behind is work that comes after a host function, and what it uses.
type behind struct {
	*Soft
	on       *Stream // the stream of the host function and of the work
	event    *Event
	pooled   Pooled
	ticket   *Ticket
	mem      *DeviceMem
	inPool   *DeviceMem
	host     *HostMem
	managed  *HostMem
	ours     *HostMem // registered
	mod      *Module
	lib      *library.Library
	exec     *graph.Exec
	virt     *memory.Virtual
	timeline *Timeline
	pool     *memory.Pool
	graph    *graph.Graph
	green    *green.Context
	another  *Context
}

// inHostFunc are the calls that wait for work, or close what work uses. None may wait in a host function for what comes
// after it. Those that are refused are true; the others return at once.
var inHostFunc = map[string]struct {
	refused bool
	call    func(b *behind) error
}{
	"Stream.Synchronize":   {true, func(b *behind) error { return b.on.Synchronize() }},
	"Stream.Wait":          {true, func(b *behind) error { return b.on.Wait(context.Background()) }},
	"Event.Synchronize":    {true, func(b *behind) error { return b.event.Synchronize() }},
	"Event.Wait":           {true, func(b *behind) error { return b.event.Wait(context.Background()) }},
	"Event.Wait, deadline": {true, func(b *behind) error { return b.event.Wait(b.soon()) }},
	"Pooled.Wait":          {true, func(b *behind) error { return b.pooled.Wait(context.Background()) }},
	"Pooled.Synchronize":   {true, func(b *behind) error { return b.pooled.Synchronize() }},
	"Ticket.Wait":          {true, func(b *behind) error { return b.ticket.Wait(context.Background()) }},
	"WaitAll":              {true, func(b *behind) error { return WaitAll(context.Background(), b.done(), b.event) }},
	"WaitAll, deadline":    {true, func(b *behind) error { return WaitAll(b.soon(), b.event) }},
	"WaitAny": {true, func(b *behind) error {
		_, err := WaitAny(context.Background(), b.event, b.event)
		return err
	}},
	"WaitAny, one is done": {false, func(b *behind) error {
		_, err := WaitAny(context.Background(), b.event, b.done())
		return err
	}},
	"WaitAny, one is of another stream": {false, func(b *behind) error {
		b.OK(b.Spin.Launch(b.Other, OneThread, U64(uint64(50*time.Millisecond))))
		e := b.Soft.Event(EventDefault)
		b.OK(e.Record(b.Other))
		_, err := WaitAny(context.Background(), b.event, e)
		return err
	}},
	"Elapsed": {true, func(b *behind) error {
		e := b.Soft.Event(EventDefault)
		b.OK(e.Record(b.Other))
		_, err := Elapsed(context.Background(), e, b.event)
		return err
	}},
	"Stream.Time": {true, func(b *behind) error {
		_, err := b.on.Time(context.Background(), func() error { return nil })
		return err
	}},
	"Context.Synchronize":       {true, func(b *behind) error { return b.GPU.Synchronize() }},
	"DeviceMem.CopyFrom":        {true, func(b *behind) error { return b.mem.CopyFrom(make([]byte, 64)) }},
	"DeviceMem.CopyTo":          {true, func(b *behind) error { return b.mem.CopyTo(make([]byte, 64)) }},
	"DeviceMem.ReadAt":          {true, func(b *behind) error { _, err := b.mem.ReadAt(make([]byte, 1), 0); return err }},
	"DeviceMem.WriteAt":         {true, func(b *behind) error { _, err := b.mem.WriteAt(make([]byte, 1), 0); return err }},
	"DeviceMem.Close":           {true, func(b *behind) error { return b.mem.Close() }},
	"DeviceMem.Close, pool":     {false, func(b *behind) error { return b.inPool.Close() }},
	"HostMem.Close":             {true, func(b *behind) error { return b.host.Close() }},
	"HostMem.Close, managed":    {true, func(b *behind) error { return b.managed.Close() }},
	"HostMem.Close, registered": {true, func(b *behind) error { return b.ours.Close() }},
	"Module.Close":              {true, func(b *behind) error { return b.mod.Close() }},
	"library.Library.Close":     {true, func(b *behind) error { return b.lib.Close() }},
	"graph.Exec.Close":          {true, func(b *behind) error { return b.exec.Close() }},
	"green.Context.Close":       {true, func(b *behind) error { return b.green.Close() }},
	"memory.Virtual.Close":      {true, func(b *behind) error { return b.virt.Close() }},
	"memory.Virtual.Unmap":      {true, func(b *behind) error { return b.virt.Unmap(0, 1<<21) }},
	"memory.Virtual.Shrink":     {true, func(b *behind) error { return b.virt.Shrink(0) }},
	"memory.Virtual.SetAccess":  {true, func(b *behind) error { return b.virt.SetAccess(b.GPU.Device(), memory.AccessNone) }},
	"Context.Close":             {true, func(b *behind) error { return b.another.Close() }},
	"Context.Close, in use":     {false, func(b *behind) error { return b.GPU.Close() }},
	"Driver.Close":              {false, func(b *behind) error { b.host.Close(); b.Misuses++; return b.Drv.Close() }},
	"Context.LoadModule": {false, func(b *behind) error {
		b.host.Close() // deferred, and not freed by the next call
		m, err := b.GPU.LoadModule([]byte(SpinPTX))
		t := b.T // the cleanup must not keep b, as the collector closes some of it
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
		return err
	}},
	"Context.Alloc": {false, func(b *behind) error {
		b.Is(b.mem.Close(), ResultNotPermitted)
		_, err := b.GPU.Alloc(1 << 50)
		b.Is(err, ResultOutOfMemory)
		return nil
	}},
	"Context.SetLimit":        {false, func(b *behind) error { return b.GPU.SetLimit(LimitStackSize, 4096) }},
	"Stream.Free":             {false, func(b *behind) error { return b.on.Free(b.inPool) }},
	"Stream.Close":            {false, func(b *behind) error { return b.on.Close() }},
	"Event.Close":             {false, func(b *behind) error { return b.event.Close() }},
	"memory.Pool.Close":       {false, func(b *behind) error { return b.pool.Close() }},
	"Timeline.Close":          {false, func(b *behind) error { return b.timeline.Close() }},
	"graph.Graph.Close":       {false, func(b *behind) error { return b.graph.Close() }},
	"graph.Graph.Instantiate": {false, func(b *behind) error { x, err := b.graph.Instantiate(); return errors.Join(err, x.Close()) }},
}

// soon returns a context.Context that ends late in a test.
func (b *behind) soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	b.T.Cleanup(cancel)
	return ctx
}

// done returns an event that is complete.
func (b *behind) done() *Event {
	e := b.Soft.Event(EventDefault)
	b.OK(errors.Join(e.Record(b.Other), e.Synchronize()))
	return e
}

// notInHostFunc are methods of docs/blocking.md, and others that wait, which inHostFunc does not have, by the reason. A
// method that waits only while a queue is full needs no reason here: the queues of the software driver have no end.
var notInHostFunc = map[string]string{
	"the driver waits for room in its tables, or for a change of the device, and the software driver does not": "" +
		"Context.NewStream Context.NewStreamPriority Context.PoolStream Device.PoolStream green.Context.NewStream " +
		"green.New green.NewWithQueues green.SMResource.SplitGroups green.StreamSMs " +
		"Context.StartProfile Context.StopProfile library.Library.Module library.Library.Managed library.Kernel.Function library.Kernel.SetAttribute " +
		"graph.Node.Work graph.Graph.InstantiateWithFlags Function.Launch Function.Load PreparedLaunch.Launch memory.Prefetch",
	"it frees what no work uses when memory is short, as Context.Alloc does": "" +
		"Device.NewContext Device.NewContextWithSMs Device.PrimaryContext Device.RetainPrimaryContext Context.AllocHost " +
		"Context.AllocPitch memory.AllocManaged Context.RegisterHost memory.Reserve memory.NewPhysical " +
		"memory.Virtual.Grow Stream.Alloc memory.Pool.Alloc memory.Pool.AllocHost graph.Graph.Add graph.Graph.Clone graph.New memory.NewPool " +
		"Context.EnablePeerAccess memory.ImportPhysical interop.ImportMem memory.OpenIPC memory.ImportPool " +
		"memory.Pool.Open library.Load library.LoadFile Module.Function Module.Global graph.Exec.Upload DeviceMem.Memset",
	"it is as Context.LoadModule": "Context.LoadModuleFile",
	"another goroutine, or a kernel, may raise the counter, so nobody knows whether the wait would end": "Timeline.Wait",
	"the semaphore belongs to another API, which the test does not have":                                "interop.Semaphore.Close",
	"it is a call on a stream, and the host does not wait": "Stream.WaitEvent Stream.WaitEvents interop.Wait " +
		"Stream.WaitStream Stream.WaitEventWithFlags Context.WaitEvent green.Context.WaitEvent WaitWord32 WaitWord64",
	"it frees nothing that work uses":                                                  "EventPool.Close memory.Physical.Close",
	"it waits for another process, or for the driver's own lock, and not for a stream": "Event.IPCHandle OpenContext",
	"it waits for nothing":                                                             "WithStream CurrentStream Event.RecordCurrent",
}

// TestHostFuncCloses calls in a host function what would wait for the work behind the function.
func TestHostFuncCloses(t *testing.T) {
	if driver.CurrentThread() == 0 {
		t.Skip("this platform does not tell threads apart")
	}
	for name, c := range inHostFunc {
		t.Run(name, func(t *testing.T) {
			r := NewSoft(t)
			own := name == "Context.Close" // its context has no other user
			if own {
				another := Need(Need(r.Drv.Device(1))(t).NewContext(ContextDefault))(t)
				s, began, release := Need(another.NewStream(0))(t), make(chan bool), make(chan bool)
				got := make(chan error, 1)
				b := &behind{Soft: r, another: another}
				r.OK(s.HostFunc(func() { close(began); <-release; got <- c.call(b) }))
				<-began
				r.OK(errors.Join(s.HostFunc(func() {}), s.Close()))
				close(release)
				wantRefused(r, c.refused, got)
				return
			}
			b := &behind{Soft: r, on: Need(r.GPU.NewStream(0))(t), event: r.Event(EventDefault),
				mem: Need(r.GPU.Alloc(64))(t), host: Need(r.GPU.AllocHost(64, 0))(t),
				managed: Need(memory.AllocManaged(r.GPU, 64, memory.AttachGlobal))(t),
				ours:    Need(r.GPU.RegisterHost(make([]byte, 4096), 0))(t),
				mod:     Need(r.GPU.LoadModule([]byte(SpinPTX)))(t), lib: Need(library.Load(r.Drv, []byte(SpinPTX)))(t),
				virt: Need(memory.Reserve(r.GPU, 1<<21))(t), timeline: Need(r.GPU.NewTimeline(0))(t),
				pool: Need(memory.NewPool(r.GPU, memory.PoolOptions{}))(t), graph: Need(graph.New(r.GPU))(t)}
			r.OK(b.virt.Grow(1 << 21))
			b.inPool = Need(b.pool.Alloc(b.on, 64))(t)
			events := Need(r.GPU.EventPool())(t)
			b.pooled = Need(events.Acquire())(t)
			spin := Need(b.mod.Function("spin"))(t)
			kernel := Need(Need(b.lib.Kernel("spin"))(t).Function(r.GPU))(t)
			Need(b.graph.Add(&graph.Empty{}))(t)
			b.exec = Need(b.graph.Instantiate())(t)
			sms := Need(green.DeviceSMs(Need(r.Drv.Device(0))(t)))(t)
			b.green = Need(green.New(r.GPU, sms))(t)
			green := Need(b.green.NewStream(0))(t)
			begin, got := make(chan bool), make(chan error, 1)
			r.OK(b.on.HostFunc(func() { <-begin; got <- c.call(b) }))
			r.OK(errors.Join(b.on.Copy(b.host, b.mem), spin.Launch(b.on, OneThread, U64(1)),
				kernel.Launch(b.on, OneThread, U64(1)), b.exec.Launch(b.on), b.on.Memset(b.virt.Mem(), 1),
				b.on.Memset(b.managed, 1), b.on.Memset(b.ours, 1), b.on.Memset(b.inPool, 1), b.timeline.Signal(b.on, 1),
				b.event.Record(b.on), b.pooled.Record(b.on), green.WaitEvent(b.event), green.Memset(b.mem, 1)))
			b.ticket = Need(b.event.Ticket())(t)
			r.OK(green.Close())
			close(begin)
			wantRefused(r, c.refused, got)
			// The collector must not close the module of the library, or library.Library.Close has nothing to wait for.
			runtime.KeepAlive(kernel)
			other := Need(Need(r.Drv.Device(0))(t).PrimaryContext())(t) // r.gpu may be closed
			r.OK(errors.Join(other.Synchronize(), other.Close()))
			r.OK(errors.Join(b.event.Close(), b.pooled.Release(), b.mem.Close(), b.inPool.Close(), b.host.Close(),
				b.managed.Close(), b.ours.Close(), b.exec.Close(), b.graph.Close(), b.mod.Close(), b.lib.Close(),
				b.virt.Close(), b.timeline.Close(), b.pool.Close(), events.Close(), b.green.Close(), b.on.Close()))
			// A stream may let go of the library's module only now. Then the next freeing call frees both.
			if st := r.Drv.Stats(); !Eventually(func() bool {
				other := Need(Need(r.Drv.Device(0))(t).PrimaryContext())(t)
				r.OK(errors.Join(other.Synchronize(), other.Close()))
				st = r.Drv.Stats()
				return st.DeferredObjects == 0
			}) {
				t.Errorf("deferred objects are left: %+v", st)
			}
		})
	}
}

// wantRefused checks what a call in a host function returns.
func wantRefused(r *Soft, want bool, got <-chan error) {
	r.T.Helper()
	var err error
	select {
	case err = <-got:
	case <-time.After(20 * time.Second):
		buf := make([]byte, 1<<20)
		r.T.Fatalf("the call does not return:\n%s", buf[:runtime.Stack(buf, true)])
	}
	if refused := errors.Is(err, ResultNotPermitted); refused != want || !refused && err != nil {
		r.T.Errorf("the call returned %v", err)
	}
	r.Misuses = len(r.Sim.Misuses())
	for _, m := range r.Sim.Misuses() {
		if !strings.Contains(m.String(), "a host function waits for what comes after it") {
			r.T.Errorf("misuse: %v", m)
		}
	}
	if want && r.Misuses == 0 {
		r.T.Error("the software driver has reported no misuse")
	}
}

// TestHostFuncClosesAll finds methods that wait or close, and that inHostFunc and notInHostFunc do not have: those of
// docs/blocking.md, and others that look like it.
func TestHostFuncClosesAll(t *testing.T) {
	known := map[string]bool{}
	for name := range inHostFunc {
		name, _, _ = strings.Cut(name, ",")
		known[name] = true
	}
	for why, names := range notInHostFunc {
		for _, name := range strings.Fields(names) {
			if known[name] {
				t.Errorf("%s is named twice: %s", name, why)
			}
			known[name] = true
		}
	}
	have := waiters(t)
	for name := range known {
		if !have[name] {
			t.Errorf("%s does not exist, or does not wait", name)
		}
	}
	for name := range have {
		if !known[name] {
			t.Errorf("%s is not tested in a host function", name)
		}
	}
}

// waiters returns the methods and functions that may wait, by the list of docs/blocking.md, by their names, and by
// their parameters. It leaves out those that wait only while a queue is full.
func waiters(t *testing.T) map[string]bool {
	list, err := os.ReadFile("../tools/gen-blocking/methods.tsv")
	if err != nil {
		t.Fatal(err)
	}
	when, found := map[string]string{}, map[string]bool{}
	for line := range strings.Lines(string(list)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 3 {
			when[f[0]] = f[2]
		}
	}
	onlyFull := regexp.MustCompile(`^full(, .*)?$|^as ([\w.]+)$`)
	for name, w := range when {
		for m := onlyFull.FindStringSubmatch(w); ; m = onlyFull.FindStringSubmatch(w) {
			if m == nil {
				found[name] = true
				break
			} else if m[2] == "" {
				break
			}
			w = when[m[2]]
		}
	}
	var files []string
	for _, dir := range append([]string{"."}, subjects...) {
		files = append(files, Need(filepath.Glob(filepath.Join(dir, "*.go")))(t)...)
	}
	closes := regexp.MustCompile(`^(Close|Synchronize|Unmap|Wait.*)$`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, is := d.(*ast.FuncDecl)
			if !is || !fn.Name.IsExported() {
				continue
			}
			name := fn.Name.Name
			if fn.Recv != nil {
				of := fn.Recv.List[0].Type
				if p, is := of.(*ast.StarExpr); is {
					of = p.X
				}
				id, is := of.(*ast.Ident)
				if !is || !id.IsExported() {
					continue
				}
				name = id.Name + "." + name
			}
			name = strings.TrimPrefix(f.Name.Name+".", "cu.") + name
			waits := closes.MatchString(fn.Name.Name)
			for _, p := range fn.Type.Params.List {
				s, is := p.Type.(*ast.SelectorExpr)
				waits = waits || is && s.Sel.Name == "Context"
			}
			found[name] = found[name] || waits
		}
	}
	maps.DeleteFunc(found, func(_ string, waits bool) bool { return !waits })
	return found
}
