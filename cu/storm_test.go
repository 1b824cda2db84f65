package cu_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
)

// fewer returns n, or a tenth of it with -short, and under the race detector, where each operation takes far longer: it
// needs not many of them to see two that no lock orders. The whole of n is for mistakes that need luck.
func fewer(n int) int {
	if testing.Short() || core.RaceEnabled {
		return n / 10
	}
	return n
}

var stormOps = flag.Int("storm", 2000, "operations of each goroutine of TestStorm")

// shelf holds an object that goroutines use, close and replace at any time.
type shelf[T any] struct {
	p atomic.Pointer[T]
}

func (s *shelf[T]) get() *T { return s.p.Load() }

// TestStorm lets goroutines enqueue work on memory, in two contexts of their own
// and the primary one, and close everything, also by abandoning it, while others
// use it. The driver aborts if something is used or freed at the wrong time.
func TestStorm(t *testing.T) {
	r := newRig(t)
	r.tell("fake_spread", 1)
	dev := need(r.drv.Device(0))(t)

	// world is a context and what is in it. Its parts come and go together and
	// apart.
	type world struct {
		gpu     *Context
		streams [2]shelf[Stream]
		mem     [2]shelf[DeviceMem]
		host    [2]shelf[HostMem]
		module  shelf[Module]
	}
	build := func(created bool) *world {
		w := new(world)
		if created {
			w.gpu = need(dev.NewContext(0))(t)
		} else {
			w.gpu = need(dev.PrimaryContext())(t)
		}
		for i := range 2 {
			w.streams[i].p.Store(need(w.gpu.NewStream(StreamNonBlocking))(t))
			w.mem[i].p.Store(need(w.gpu.Alloc(64))(t))
			w.host[i].p.Store(need(w.gpu.AllocHost(64, 0))(t))
		}
		w.module.p.Store(need(w.gpu.LoadModule([]byte("fake")))(t))
		return w
	}
	var worlds [3]shelf[world]
	for i := range worlds {
		worlds[i].p.Store(build(i > 0))
	}
	closeAll := func(w *world) {
		for i := range 2 {
			w.streams[i].get().Close()
			w.mem[i].get().Close()
			w.host[i].get().Close()
		}
		w.module.get().Close()
		w.gpu.Close()
	}

	var fine, refused atomic.Int64
	// What can go wrong, in a storm. Nothing else may.
	note := func(err error) {
		switch {
		case err == nil:
			fine.Add(1)
		case errors.Is(err, ErrClosed), errors.Is(err, ErrContextMismatch):
			refused.Add(1)
		default:
			t.Error(err)
		}
	}
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			for range fewer(*stormOps) {
				i, j := rnd.IntN(2), rnd.IntN(2)
				w := worlds[rnd.IntN(len(worlds))].get()
				other := worlds[rnd.IntN(len(worlds))].get()
				s, d, h := w.streams[i].get(), w.mem[j].get(), w.host[i].get()
				switch rnd.IntN(20) {
				case 0:
					note(s.Copy(d, h))
				case 1:
					note(s.Copy(h.Span(8, 56), d.Span(0, 56)))
				case 2:
					note(s.Copy(d, other.mem[i].get())) // of another context, perhaps
				case 3:
					note(s.Copy(d, other.host[j].get()))
				case 4:
					note(s.Memset(d.Span(8, 8), byte(g)))
				case 5:
					note(s.WaitStream(other.streams[j].get()))
				case 6:
					fn, err := w.module.get().Function("axpy")
					note(err)
					if err == nil {
						note(fn.Launch(s, one, Ptr(d), F32(1), U64(1)))
						note(fn.Launch(s, one, Ptr(other.host[j].get()), F32(1), U64(1)))
					}
				case 7:
					note(h.View(func(b []byte) error { b[g]++; return nil }))
				case 8:
					note(w.gpu.Do(func(th *Thread) error {
						ptds, err := th.DefaultStream()
						if err != nil {
							return err
						}
						return ptds.Copy(d, h)
					}))
				case 9:
					legacy, err := w.gpu.LegacyStream()
					note(err)
					if err == nil {
						note(legacy.Copy(d, h))
						if i == 0 {
							note(legacy.Close())
						}
					}
				case 10:
					v, err := w.module.get().Global("counter")
					note(err)
					if err == nil {
						note(s.Memset32(v, 1))
						if i == 0 {
							note(v.Close())
						}
					}
				case 11:
					note(s.Close())
					if fresh, err := w.gpu.NewStreamPriority(0, -1); err == nil {
						w.streams[i].p.Store(fresh) // what was there is abandoned, if it was another's
					} else {
						note(err)
					}
				case 12:
					note(d.Close())
					if fresh, err := w.gpu.Alloc(64); err == nil {
						w.mem[j].p.Store(fresh)
					} else {
						note(err)
					}
				case 13:
					if i == 0 {
						note(h.Close())
					}
					if fresh, err := w.gpu.AllocHost(64, HostPortable); err == nil {
						w.host[i].p.Store(fresh)
					} else {
						note(err)
					}
				case 14:
					note(w.module.get().Close())
					if fresh, err := w.gpu.LoadModule([]byte("fake")); err == nil {
						w.module.p.Store(fresh)
					} else {
						note(err)
					}
				case 15:
					if rnd.IntN(20) == 0 {
						k := rnd.IntN(len(worlds))
						old := worlds[k].p.Swap(build(k > 0))
						if i == 0 {
							closeAll(old)
						} else {
							old.gpu.Close() // and the rest is abandoned
						}
					}
				case 16:
					if rnd.IntN(50) == 0 {
						runtime.GC()
					}
				case 17:
					d.Handle()
					h.Handle()
					note(d.CopyFrom([]byte{1}))
				case 18:
					_, err := d.ReadAt(make([]byte, 8), 8)
					note(err)
				case 19:
					_, err := s.ID()
					note(err)
				}
			}
		})
	}
	// Meanwhile streams are held and released, so that work is still to be done
	// when memory is closed.
	done := make(chan struct{})
	var holder sync.WaitGroup
	holder.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			s := worlds[i%len(worlds)].get().streams[i%2].get()
			r.hold(s)
			runtime.Gosched()
			r.release(s)
			runtime.KeepAlive(s)
		}
	})
	wg.Wait()
	close(done)
	holder.Wait()
	for i := range worlds {
		closeAll(worlds[i].get())
		worlds[i].p.Store(nil)
	}
	t.Logf("%d calls went well, %d were refused", fine.Load(), refused.Load())
	if fine.Load() == 0 {
		t.Error("nothing went well")
	}
}
