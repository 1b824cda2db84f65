package cu_test

import (
	"errors"
	"sync/atomic"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
	"github.com/purecu/purecu/internal/timelines"
)

// unregisters is a software driver that counts how often memory is unregistered, which waits for the GPU.
type unregisters struct {
	Software driver.Software
	n        atomic.Int32
}

func (d *unregisters) MemHostUnregister(th *driver.Thread, p driver.HostPtr) driver.Result {
	d.n.Add(1)
	return d.Software.MemHostUnregister(th, p)
}

// TestSlabsOfAbandonedBorrowedContext closes a timeline in another program part's context after the context, so that a
// goroutine releases the context. It may not wait for the GPU, so that the timeline's memory stays registered, and is
// used again in the same context. Close of the context may wait, and unregisters it.
func TestSlabsOfAbandonedBorrowedContext(t *testing.T) {
	sim := cusim.New()
	counting := &unregisters{Software: sim.Software()}
	provider := driver.Provide(override.Driver(counting))
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	owner, drv := Need(Open(WithSoftware(provider)))(t), Need(OpenNeverWait(WithSoftware(provider)))(t)
	own := Need(Need(owner.Device(0))(t).NewContext(0))(t)
	gpu := Need(drv.WrapContext(own.Handle()))(t)
	tl := Need(gpu.NewTimeline(1))(t)
	cc := core.Of(gpu).Context
	ok(errors.Join(gpu.Close(), tl.Close()))
	if !Eventually(cc.Gone.Load) {
		t.Fatal("the context is not released")
	}
	if n := counting.n.Load(); n != 0 {
		t.Errorf("memory was unregistered %d times in the background", n)
	}

	gpu = Need(drv.WrapContext(own.Handle()))(t)
	tl = Need(gpu.NewTimeline(2))(t)
	if v, n := tl.Value(), timelines.CountsOf(core.Of(drv)).Mappings; v != 2 || n != 1 {
		t.Errorf("the next timeline is at %d, of %d slabs in all", v, n)
	}
	ok(errors.Join(tl.Close(), gpu.Close()))
	if n := counting.n.Load(); n != 1 {
		t.Errorf("memory was unregistered %d times by Close", n)
	}
	ok(errors.Join(drv.Close(), own.Close(), owner.Close()))
	sim.Check(t)
}
