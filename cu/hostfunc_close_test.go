package cu

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// behind is work that comes after a host function, and what it uses.
type behind struct {
	*soft
	event  *Event
	mem    *DeviceMem
	host   *HostMem
	mod    *Module
	exec   *GraphExec
	virt   *VirtualMem
	onHost *Stream // the stream of the host function
}

// inHostFunc are the methods and functions that wait for work, or close what work uses. None may wait in a host function
// for what comes after it. Those that are refused are true; the others return at once.
var inHostFunc = map[string]struct {
	refused bool
	call    func(b *behind) error
}{
	"Stream.Synchronize":  {true, func(b *behind) error { return b.onHost.Synchronize() }},
	"Stream.Wait":         {true, func(b *behind) error { return b.onHost.Wait(context.Background()) }},
	"Event.Synchronize":   {true, func(b *behind) error { return b.event.Synchronize() }},
	"Event.Wait":          {true, func(b *behind) error { return b.event.Wait(context.Background()) }},
	"Context.Synchronize": {true, func(b *behind) error { return b.gpu.Synchronize() }},
	"DeviceMem.Close":     {true, func(b *behind) error { return b.mem.Close() }},
	"HostMem.Close":       {true, func(b *behind) error { return b.host.Close() }},
	"Module.Close":        {true, func(b *behind) error { return b.mod.Close() }},
	"GraphExec.Close":     {true, func(b *behind) error { return b.exec.Close() }},
	"VirtualMem.Close":    {true, func(b *behind) error { return b.virt.Close() }},
	"Stream.Close":        {false, func(b *behind) error { return b.onHost.Close() }},
	"Event.Close":         {false, func(b *behind) error { return b.event.Close() }},
	"Graph.Close":         {false, func(b *behind) error { g, err := b.gpu.NewGraph(); return errors.Join(err, g.Close()) }},
}

// TestHostFuncCloses calls in a host function what would wait for the work behind the function.
func TestHostFuncCloses(t *testing.T) {
	if driver.CurrentThread() == 0 {
		t.Skip("this platform does not tell threads apart")
	}
	for name, c := range inHostFunc {
		t.Run(name, func(t *testing.T) {
			r := newSoft(t)
			b := &behind{soft: r, onHost: r.s, event: must(r.gpu.NewEvent(0))(t), mem: must(r.gpu.Alloc(64))(t),
				host: must(r.gpu.AllocHost(64, 0))(t), mod: must(r.gpu.LoadModule([]byte(spinPTX)))(t),
				virt: must(r.gpu.Reserve(1 << 21))(t)}
			r.ok(b.virt.Grow(1 << 21))
			spin := must(b.mod.Function("spin"))(t)
			g := must(r.gpu.NewGraph())(t)
			must(g.AddEmpty())(t)
			b.exec = must(g.Instantiate())(t)
			begin, got := make(chan bool), make(chan error, 1)
			r.ok(r.s.HostFunc(func() { <-begin; got <- c.call(b) }))
			r.ok(errors.Join(r.s.Copy(b.host, b.mem), spin.Launch(r.s, oneThread, U64(1)), b.exec.Launch(r.s),
				r.s.Memset(b.virt, 1), b.event.Record(r.s)))
			close(begin)
			var err error
			select {
			case err = <-got:
			case <-time.After(20 * time.Second):
				buf := make([]byte, 1<<20)
				t.Fatalf("the call does not return:\n%s", buf[:runtime.Stack(buf, true)])
			}
			if refused := errors.Is(err, ResultNotPermitted); refused != c.refused || !refused && err != nil {
				t.Errorf("the call returned %v", err)
			}
			r.misuses = len(r.sim.Misuses())
			r.ok(r.gpu.Synchronize()) // everything is freed that was closed
			r.ok(errors.Join(b.event.Close(), b.mem.Close(), b.host.Close(), b.exec.Close(), g.Close(), b.mod.Close(),
				b.virt.Close()))
			if st := r.drv.Stats(); !eventually(func() bool { st = r.drv.Stats(); return st.DeferredObjects == 0 }) {
				t.Errorf("deferred objects are left: %+v", st)
			}
		})
	}
}

// TestHostFuncClosesAll finds methods that wait or close, and that inHostFunc does not have.
func TestHostFuncClosesAll(t *testing.T) {
	// These close nothing that work uses, are called by the methods above, or need what the test does not have.
	others := strings.Fields("Context.Close Driver.Close EventPool.Close ExternalSemaphore.Close GreenContext.Close " +
		"Library.Close MemPool.Close PhysicalMem.Close Ticket.Wait Timeline.Close Timeline.Wait")
	for _, v := range []any{new(Stream), new(Event), new(Context), new(Ticket), new(DeviceMem), new(HostMem), new(Module),
		new(GraphExec), new(VirtualMem), new(Graph), new(Driver), new(EventPool), new(ExternalSemaphore),
		new(GreenContext), new(Library), new(MemPool), new(PhysicalMem), new(Timeline)} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumMethod() {
			switch m := typ.Method(i).Name; m {
			case "Close", "Wait", "Synchronize":
				name := typ.Elem().Name() + "." + m
				if _, has := inHostFunc[name]; !has && !slices.Contains(others, name) {
					t.Errorf("%s is not tested in a host function", name)
				}
			}
		}
	}
}
