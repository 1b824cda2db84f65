package cu_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// TestUnmarkedStream closes streams and what their work uses, while the driver can create or record no event. What the
// work uses stays until the work is done, and nothing stays for ever.
func TestUnmarkedStream(t *testing.T) {
	for _, function := range []string{"cuEventCreate", "cuEventRecord"} {
		for _, kind := range []string{"created", "green", "pool", "thread"} {
			for _, busy := range []bool{false, true} {
				if kind == "thread" && busy {
					continue // it cannot be asked when its thread has ended: its objects are kept
				}
				t.Run(fmt.Sprintf("%s/%s/busy=%v", function, kind, busy), func(t *testing.T) {
					r := newSoft(t)
					unmarkedStream(r, function, kind, busy)
				})
			}
		}
	}
}

func unmarkedStream(r *soft, function, kind string, busy bool) {
	before, streams := r.sim.Census(), r.streams()
	used := []string{"module", "executable graph", "host memory"}
	in := func(s *Stream) []io.Closer {
		m := need(r.gpu.LoadModule([]byte(spinPTX)))(r.t)
		g := need(r.gpu.NewGraph())(r.t)
		_, err := g.Add(&KernelNode{Kernel: need(m.Function("spin"))(r.t), Config: oneThread, Args: []Arg{U64(1000)}})
		r.ok(err)
		x := need(g.Instantiate())(r.t)
		r.ok(g.Close())
		h, d := need(r.gpu.AllocHost(64, 0))(r.t), need(r.gpu.Alloc(64))(r.t)
		r.t.Cleanup(func() { d.Close() })
		if busy {
			r.sim.Hold(s.Handle())
		}
		r.ok(x.Launch(s))
		r.ok(s.Copy(d, h))
		if !busy {
			r.ok(s.Synchronize())
		}
		r.sim.Inject(cusim.Fault{Function: function, Every: true, Code: int(ResultOutOfMemory)})
		return []io.Closer{h, x, m}
	}
	end := func(s *Stream, objects []io.Closer) {
		r.ok(s.Close())
		for _, o := range objects {
			go o.Close() // one that frees memory waits
		}
	}
	handle := uintptr(0)
	switch kind {
	case "created":
		s := need(r.gpu.NewStream(StreamNonBlocking))(r.t)
		handle = s.Handle()
		end(s, in(s))
	case "green":
		g := r.green()
		s := need(g.NewStream(0))(r.t)
		handle = s.Handle()
		end(s, in(s))
		r.ok(g.Close())
	case "pool":
		s := need(r.gpu.PoolStream(0))(r.t)
		handle = s.Handle()
		end(s, in(s))
	case "thread":
		var objects []io.Closer
		r.ok(r.gpu.Do(func(t *Thread) error {
			s := need(t.DefaultStream())(r.t)
			objects = in(s)
			return nil
		}))
		for _, o := range objects {
			r.ok(o.Close())
		}
	}
	if busy {
		for range 100 {
			now := r.sim.Census()
			for _, k := range used {
				if now[k] != before[k]+1 {
					r.t.Fatalf("%s: there are %d, want %d: the work is not done", k, now[k], before[k]+1)
				}
			}
		}
	}
	r.sim.ClearFaults()
	if busy {
		r.sim.Release(handle)
	}
	if !r.freed(func() bool {
		now := r.sim.Census()
		for _, k := range used {
			if now[k] != before[k] {
				return false
			}
		}
		return kind == "pool" || r.streams() == streams
	}) {
		r.t.Errorf("left: %v, before: %v, %d streams, before %d", r.sim.Census(), before, r.streams(), streams)
	}
	for _, l := range r.leaks {
		if l.Err != nil {
			r.t.Errorf("leak: %+v", l)
		}
	}
}

// TestUnknownStream closes a green context's stream of which the driver never tells when its work is done. The stream and
// the green context are destroyed. What the work uses is kept.
func TestUnknownStream(t *testing.T) {
	r := newSoft(t)
	before, streams := r.sim.Census(), r.streams()
	g := r.green()
	s := need(g.NewStream(0))(t)
	d, h := need(r.gpu.Alloc(64))(t), need(r.gpu.RegisterHost(make([]byte, 64), 0))(t)
	r.hold(s)
	r.ok(s.Copy(d, h))
	r.sim.Inject(cusim.Fault{Function: "cuEventRecord", Every: true, Code: int(ResultOutOfMemory)})
	r.ok(s.Close())
	r.sim.Inject(cusim.Fault{Function: "cuStreamQuery", Every: true, Code: int(ResultUnknown)})
	r.ok(errors.Join(h.Close(), g.Close()))
	if !r.freed(func() bool {
		return r.sim.Census()["green context"] == before["green context"] && r.streams() == streams
	}) {
		t.Errorf("left: %v, before: %v", r.sim.Census(), before)
	}
	r.sim.ClearFaults()
	r.ok(d.Close())
	if !eventually(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.ContainsFunc(r.leaks, func(l Leak) bool { return l.Kind == "host memory" && l.Err != nil })
	}) {
		t.Errorf("reported are %+v", r.leaks)
	}
	core.Of(r.drv).Table().MemHostUnregister(driver.At{Context: core.Of(r.gpu).Context.Raw}, core.Of(h).Host)
}
