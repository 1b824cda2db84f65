package cu

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

func TestRvSetArgBoth(t *testing.T) {
	r := newRig(t)
	axpy := must(r.module(r.gpu).Function("axpy"))(t)
	_ = axpy
	f := *axpy
	f.known = false
	a, b := must(r.gpu.Alloc(64))(t), must(r.gpu.Alloc(64))(t)
	p := must(f.Prepare(oneThread, Ptr(a), Ptr(b), U64(2)))(t)
	r.ok(errors.Join(a.Close(), b.Close()))
	c := r.memory(r.gpu, 64)
	if err := errors.Join(p.SetArg(0, Ptr(c)), p.SetArg(1, Ptr(c))); err != nil {
		t.Error(err)
	}
}

func TestRvDoubleClose(t *testing.T) {
	r := newRig(t)
	h := r.host(r.gpu, 8)
	left := 0
	for range 20000 {
		d := must(r.gpu.AllocHost(8, 0))(t)
		_ = h
		r.ok(r.s.Memset(d, 1))
		var wg sync.WaitGroup
		var at atomic.Int32
		for range 2 {
			wg.Go(func() {
				for at.Add(1); at.Load() < 2; {
				}
				d.Close()
			})
		}
		wg.Wait()
		if len(r.gpu.own.core.deferred.all()) != 0 {
			left++
			r.ok(r.gpu.Synchronize())
		}
	}
	if left != 0 {
		t.Errorf("%d deferred", left)
	}
}

func TestRvStreamClose(t *testing.T) {
	r := newRig(t)
	late := 0
	for i := range 20000 {
		spins := i % 300
		d := must(r.gpu.Alloc(8))(t)
		s := must(r.gpu.NewStream(StreamNonBlocking))(t)
		r.ok(s.Memset(d, 1))
		r.ok(s.Synchronize())
		var wg sync.WaitGroup
		var at atomic.Int32
		wg.Go(func() {
			for at.Add(1); at.Load() < 2; {
			}
			d.Close()
		})
		wg.Go(func() {
			for at.Add(1); at.Load() < 2; {
			}
			for range spins {
			}
			s.Close()
			if !s.core.freed.Load() {
				late++
			}
		})
		wg.Wait()
	}
	if late != 0 {
		t.Errorf("%d late", late)
	}
}

func TestRvUnrelated(t *testing.T) {
	r := newRig(t)
	d := must(r.gpu.AllocHost(8, 0))(t)
	noop := must(r.module(r.gpu).Function("noop"))(t)
	r.ok(r.s.Memset(d, 1))
	goOn := r.blocked("cuLaunchKernel", func() error { return noop.Launch(r.s, oneThread) })
	r.ok(d.Close())
	n := r.census(kindHost)
	goOn()
	if n != 0 {
		t.Errorf("not freed")
	}
}

type panicky struct {
	driver.Software
	on atomic.Bool
}

func (d *panicky) MemsetD8Async(th *driver.Thread, p driver.DevicePtr, v uint8, n uint64, s driver.Stream) driver.Result {
	if d.on.Load() {
		panic("driver")
	}
	return d.Software.MemsetD8Async(th, p, v, n, s)
}

func TestRvPanic(t *testing.T) {
	sim := &panicky{Software: cusim.New().Software()}
	drv := must(Open(WithSoftware(driver.Provide(sim))))(t)
	gpu := must(must(drv.Device(0))(t).PrimaryContext())(t)
	s := must(gpu.NewStream(StreamNonBlocking))(t)
	d, e := must(gpu.Alloc(8))(t), must(gpu.Alloc(8))(t)
	if err := errors.Join(s.Memset(d, 1), s.Memset(e, 1)); err != nil {
		t.Fatal(err)
	}
	sim.on.Store(true)
	func() {
		defer func() { recover() }()
		s.Memset(d, 1)
	}()
	sim.on.Store(false)
	t.Log("calls", s.core.Calls(), d.core.Calls(), e.core.Calls())
	if err := errors.Join(e.Close(), d.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	t.Log("freed", s.core.freed.Load(), d.core.freed.Load(), e.core.freed.Load())
}
