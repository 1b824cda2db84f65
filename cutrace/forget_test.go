package cutrace

import (
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cutest"
)

// TestForgets ends streams and events in every way, while a recorder and a log run. They keep nothing for what is gone.
func TestForgets(t *testing.T) {
	drv, _ := cutest.Soft(t)
	r := &rig{T: t, drv: drv}
	r.gpu = must(must(drv.Device(0))(r).PrimaryContext())(r)
	defer r.gpu.Close()
	rec := must(Start(t.Context(), r.gpu, Options{}))(r)
	defer rec.Close(t.Context())
	lg := &logger{h: slog.DiscardHandler, level: slog.LevelDebug, failed: slog.LevelWarn}
	defer trace.Add(drv, lg.before)()
	defer trace.AddCalls(drv, lg.log)()
	known := func() map[string]int {
		rec.host.mu.Lock()
		defer rec.host.mu.Unlock()
		lg.mu.Lock()
		defer lg.mu.Unlock()
		n := map[string]int{"lanes": len(rec.host.order.lanes), "records": len(rec.host.order.records),
			"own": len(rec.host.own.live) + len(rec.host.own.dying)}
		for name, o := range map[string]*objects{"recorder": &rec.host.objects, "log": &lg.objects} {
			n[name+": streams"] = len(o.streams.live) + len(o.streams.dying)
			n[name+": events"] = len(o.events.live) + len(o.events.dying)
		}
		return n
	}
	use := func(gpu *cu.Context, s *cu.Stream) *cu.Event {
		e := must(gpu.NewEvent(cu.EventDisableTiming))(r)
		r.ok(e.Record(s))
		r.ok(s.WaitEvent(e))
		rec.Name(s, "a name")
		return e
	}
	const rounds = 100
	for name, f := range map[string]func(){
		"closed": func() {
			s := must(r.gpu.NewStream(0))(r)
			e := use(r.gpu, s)
			r.ok(e.Close())
			r.ok(s.Close())
		},
		"abandoned": func() { use(r.gpu, must(r.gpu.NewStream(0))(r)) },
		"used by memory": func() {
			h := must(r.gpu.AllocHost(64, 0))(r)
			s := must(r.gpu.NewStream(0))(r)
			use(r.gpu, s)
			m := must(r.gpu.Alloc(64))(r)
			r.ok(s.Copy(m, h))
			r.ok(h.Close())
			r.ok(m.Close())
		},
		"of a context": func() {
			gpu := must(r.gpu.Device().NewContext(0))(r)
			e := use(gpu, must(gpu.PoolStream(0))(r))
			r.ok(e.Close())
			r.ok(gpu.Close())
		},
		"of an abandoned context": func() {
			gpu := must(r.gpu.Device().NewContext(0))(r)
			use(gpu, must(gpu.NewStream(0))(r))
		},
		"of a thread": func() {
			r.ok(r.gpu.Do(func(t *cu.Thread) error {
				s := must(t.DefaultStream())(r)
				return use(r.gpu, s).Close()
			}))
		},
		"wrapped": func() {
			s := must(r.gpu.NewStream(0))(r)
			e := use(r.gpu, s)
			w := must(r.gpu.WrapStream(s.Handle()))(r)
			v := must(r.gpu.WrapEvent(e.Handle(), 0))(r)
			r.ok(v.Record(w))
			r.ok(w.Close())
			r.ok(v.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			settle := func() map[string]int {
				var n map[string]int
				for range 20 {
					runtime.GC()
					drv.Close()
					time.Sleep(2 * time.Millisecond)
					n = known()
				}
				return n
			}
			for range rounds {
				f()
			}
			before := settle()
			for range rounds {
				f()
			}
			after := settle()
			for k, n := range after {
				if n > before[k]+rounds/10 {
					t.Errorf("%s: %d, and %d after %d more", k, before[k], n, rounds)
				}
			}
		})
	}
}
