package cu_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/purecu/purecu/cu"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestStorm lets goroutines enqueue work on memory, in two contexts of their own
// and the primary one, and close everything, also by abandoning it, while others
// use it. The driver aborts if something is used or freed at the wrong time.
func TestStorm(t *testing.T) {
	r := newRig(t)
	r.tell("fake_spread", 1)
	dev := Need(r.drv.Device(0))(t)

	// world is a context and what is in it. Its parts come and go together and
	// apart.
	type world struct {
		gpu     *Context
		streams [2]Shelf[Stream]
		mem     [2]Shelf[DeviceMem]
		host    [2]Shelf[HostMem]
		module  Shelf[Module]
	}
	build := func(created bool) *world {
		w := new(world)
		if created {
			w.gpu = Need(dev.NewContext(0))(t)
		} else {
			w.gpu = Need(dev.PrimaryContext())(t)
		}
		for i := range 2 {
			w.streams[i].P.Store(Need(w.gpu.NewStream(StreamNonBlocking))(t))
			w.mem[i].P.Store(Need(w.gpu.Alloc(64))(t))
			w.host[i].P.Store(Need(w.gpu.AllocHost(64, 0))(t))
		}
		w.module.P.Store(Need(w.gpu.LoadModule([]byte("fake")))(t))
		return w
	}
	var worlds [3]Shelf[world]
	for i := range worlds {
		worlds[i].P.Store(build(i > 0))
	}
	closeAll := func(w *world) {
		for i := range 2 {
			w.streams[i].Get().Close()
			w.mem[i].Get().Close()
			w.host[i].Get().Close()
		}
		w.module.Get().Close()
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
			for range Fewer(*StormOps) {
				i, j := rnd.IntN(2), rnd.IntN(2)
				w := worlds[rnd.IntN(len(worlds))].Get()
				other := worlds[rnd.IntN(len(worlds))].Get()
				s, d, h := w.streams[i].Get(), w.mem[j].Get(), w.host[i].Get()
				switch rnd.IntN(20) {
				case 0:
					note(s.Copy(d, h))
				case 1:
					note(s.Copy(h.Span(8, 56), d.Span(0, 56)))
				case 2:
					note(s.Copy(d, other.mem[i].Get())) // of another context, perhaps
				case 3:
					note(s.Copy(d, other.host[j].Get()))
				case 4:
					note(s.Memset(d.Span(8, 8), byte(g)))
				case 5:
					note(s.WaitStream(other.streams[j].Get()))
				case 6:
					fn, err := w.module.Get().Function("axpy")
					note(err)
					if err == nil {
						note(fn.Launch(s, one, Ptr(d), F32(1), U64(1)))
						note(fn.Launch(s, one, Ptr(other.host[j].Get()), F32(1), U64(1)))
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
					v, err := w.module.Get().Global("counter")
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
						w.streams[i].P.Store(fresh) // what was there is abandoned, if it was another's
					} else {
						note(err)
					}
				case 12:
					note(d.Close())
					if fresh, err := w.gpu.Alloc(64); err == nil {
						w.mem[j].P.Store(fresh)
					} else {
						note(err)
					}
				case 13:
					if i == 0 {
						note(h.Close())
					}
					if fresh, err := w.gpu.AllocHost(64, HostPortable); err == nil {
						w.host[i].P.Store(fresh)
					} else {
						note(err)
					}
				case 14:
					note(w.module.Get().Close())
					if fresh, err := w.gpu.LoadModule([]byte("fake")); err == nil {
						w.module.P.Store(fresh)
					} else {
						note(err)
					}
				case 15:
					if rnd.IntN(20) == 0 {
						k := rnd.IntN(len(worlds))
						old := worlds[k].P.Swap(build(k > 0))
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
			s := worlds[i%len(worlds)].Get().streams[i%2].Get()
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
		closeAll(worlds[i].Get())
		worlds[i].P.Store(nil)
	}
	t.Logf("%d calls went well, %d were refused", fine.Load(), refused.Load())
	if fine.Load() == 0 {
		t.Error("nothing went well")
	}
}
