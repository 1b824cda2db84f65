package cu_test

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// unmarked is a software driver on which no stream can write a word, if refuse is set, and which counts the contexts
// that are destroyed.
type unmarked struct {
	Software  driver.Software
	refuse    atomic.Bool
	destroyed atomic.Int32
}

func (d *unmarked) StreamWriteValue64(th *driver.Thread, s driver.Stream, p driver.DevicePtr, value uint64,
	flags uint32) driver.Result {
	if d.refuse.Load() {
		return driver.ResultNotSupported
	}
	return d.Software.StreamWriteValue64(th, s, p, value, flags)
}

func (d *unmarked) CtxDestroy(th *driver.Thread, ctx driver.Context) driver.Result {
	d.destroyed.Add(1)
	return d.Software.CtxDestroy(th, ctx)
}

// TestTracerPanicsBeforeRelease has a tracer panic, once or whenever it is called, while the context is released and
// asks whether the work of a closed timeline is done, which another context's stream has. After one panic the context
// is destroyed. After two nobody knows of the work, so that the context is left as it is, and the timeline is reported.
func TestTracerPanicsBeforeRelease(t *testing.T) {
	for how, end := range map[string]func(){"panics": func() { panic("tracer") }, "ends": runtime.Goexit} {
		for times, want := range map[string]int32{"once": 1, "always": 0} {
			t.Run(how+" "+times, func(t *testing.T) {
				ok := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				sim := &unmarked{Software: cusim.New().Software()}
				var leaks atomic.Int32
				hook := WithLeakHook(func(Leak) { leaks.Add(1) })
				drv := Need(OpenNeverWait(WithSoftware(driver.Provide(override.Driver(sim))), hook))(t)
				dev := Need(drv.Device(0))(t)
				gpu, other := Need(dev.NewContext(0))(t), Need(dev.NewContext(0))(t)
				s := Need(other.NewStream(StreamNonBlocking))(t)
				tl, held := Need(gpu.NewTimeline(0))(t), Need(other.NewTimeline(0))(t)
				ok(errors.Join(held.Block(s, 1), tl.Signal(s, 1)))
				sim.refuse.Store(true) // no stream can mark the end of the timeline's work
				ok(tl.Close())
				ok(errors.Join(held.Set(1), s.Synchronize()))

				hit, before := false, sim.destroyed.Load()
				remove := trace.Add(drv, func(tr trace.Operation) {
					if tr.Op == trace.StreamQuery && (!hit || times == "always") {
						hit = true
						end()
					}
				})
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() { recover() }()
					gpu.Close()
				})
				wg.Wait()
				remove()
				if n := sim.destroyed.Load() - before; !hit || n != want {
					t.Errorf("the tracer was called: %v; %d contexts were destroyed, not %d", hit, n, want)
				}
				if !Eventually(func() bool { return leaks.Load() == 1-want }) {
					t.Errorf("%d leaks were reported, not %d", leaks.Load(), 1-want)
				}
				ok(errors.Join(s.Close(), held.Close(), other.Close(), drv.Close()))
			})
		}
	}
}
