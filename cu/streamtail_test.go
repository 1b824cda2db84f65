package cu_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
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
					r := NewSoft(t)
					unmarkedStream(r, function, kind, busy)
				})
			}
		}
	}
}

func unmarkedStream(r *Soft, function, kind string, busy bool) {
	before, streams := r.Sim.Census(), r.Streams()
	used := []string{"module", "executable graph", "host memory"}
	in := func(s *Stream) []io.Closer {
		m := Need(r.GPU.LoadModule([]byte(SpinPTX)))(r.T)
		g := Need(graph.New(r.GPU))(r.T)
		_, err := g.Add(&graph.Kernel{Function: Need(m.Function("spin"))(r.T), Config: OneThread, Args: []Arg{U64(1000)}})
		r.OK(err)
		x := Need(g.Instantiate())(r.T)
		r.OK(g.Close())
		h, d := Need(r.GPU.AllocHost(64, 0))(r.T), Need(r.GPU.Alloc(64))(r.T)
		r.T.Cleanup(func() { d.Close() })
		if busy {
			r.Sim.Hold(s.Handle())
		}
		r.OK(x.Launch(s))
		r.OK(s.Copy(d, h))
		if !busy {
			r.OK(s.Synchronize())
		}
		r.Sim.Inject(cusim.Fault{Function: function, Every: true, Code: int(ResultOutOfMemory)})
		return []io.Closer{h, x, m}
	}
	end := func(s *Stream, objects []io.Closer) {
		r.OK(s.Close())
		for _, o := range objects {
			go o.Close() // one that frees memory waits
		}
	}
	handle := uintptr(0)
	switch kind {
	case "created":
		s := Need(r.GPU.NewStream(StreamNonBlocking))(r.T)
		handle = s.Handle()
		end(s, in(s))
	case "green":
		g := NewGreen(r)
		s := Need(g.NewStream(0))(r.T)
		handle = s.Handle()
		end(s, in(s))
		r.OK(g.Close())
	case "pool":
		s := Need(r.GPU.PoolStream(0))(r.T)
		handle = s.Handle()
		end(s, in(s))
	case "thread":
		var objects []io.Closer
		r.OK(r.GPU.Do(func(t *Thread) error {
			s := Need(t.DefaultStream())(r.T)
			objects = in(s)
			return nil
		}))
		for _, o := range objects {
			r.OK(o.Close())
		}
	}
	if busy {
		for range 100 {
			now := r.Sim.Census()
			for _, k := range used {
				if now[k] != before[k]+1 {
					r.T.Fatalf("%s: there are %d, want %d: the work is not done", k, now[k], before[k]+1)
				}
			}
		}
	}
	r.Sim.ClearFaults()
	if busy {
		r.Sim.Release(handle)
	}
	if !r.Freed(func() bool {
		now := r.Sim.Census()
		for _, k := range used {
			if now[k] != before[k] {
				return false
			}
		}
		return kind == "pool" || r.Streams() == streams
	}) {
		r.T.Errorf("left: %v, before: %v, %d streams, before %d", r.Sim.Census(), before, r.Streams(), streams)
	}
	for _, l := range r.Leaks() {
		if l.Err != nil {
			r.T.Errorf("leak: %+v", l)
		}
	}
}

// TestUnknownStream closes a green context's stream of which the driver never tells when its work is done. The stream and
// the green context are destroyed. What the work uses is kept.
func TestUnknownStream(t *testing.T) {
	r := NewSoft(t)
	before, streams := r.Sim.Census(), r.Streams()
	g := NewGreen(r)
	s := Need(g.NewStream(0))(t)
	d, h := Need(r.GPU.Alloc(64))(t), Need(r.GPU.RegisterHost(make([]byte, 64), 0))(t)
	r.Hold(s)
	r.OK(s.Copy(d, h))
	r.Sim.Inject(cusim.Fault{Function: "cuEventRecord", Every: true, Code: int(ResultOutOfMemory)})
	r.OK(s.Close())
	r.Sim.Inject(cusim.Fault{Function: "cuStreamQuery", Every: true, Code: int(ResultUnknown)})
	r.OK(errors.Join(h.Close(), g.Close()))
	if !r.Freed(func() bool {
		return r.Sim.Census()["green context"] == before["green context"] && r.Streams() == streams
	}) {
		t.Errorf("left: %v, before: %v", r.Sim.Census(), before)
	}
	r.Sim.ClearFaults()
	r.OK(d.Close())
	if !Eventually(func() bool {
		return slices.ContainsFunc(r.Leaks(), func(l Leak) bool { return l.Kind == "host memory" && l.Err != nil })
	}) {
		t.Errorf("reported are %+v", r.Leaks())
	}
	core.Of(r.Drv).Table().MemHostUnregister(driver.At{Context: core.Of(r.GPU).Context.Raw}, core.Of(h).Host)
}
