package core

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/slab"
)

// cells has the memory of a context's timelines, and its closed timelines whose work may not be
// done.
//
// A slab stays registered until the CUDA context ends: unregistering waits for all work in the
// context, and blocks calls that enqueue work there. Only cu.Driver.Close unregisters slabs, and only
// slabs that no context of the driver has: see UnmapSlabs.
type cells struct {
	slab.Cells

	Mu lock.Mutex[lock.Timelines]
	// probe is an event that is never recorded. A query of it tells whether the context still
	// works. It is 0 until the first timeline is created.
	probe driver.Event
	// open is the number of open timelines. Unfinished is the number of closed timelines that still
	// have a cell, because a graph uses them, or work that is not known to be done.
	open, Unfinished int
	// closed has the unfinished timelines on which no call is in flight. They are checked when no
	// cell is free and there are checkAt of them.
	closed  []closedTimeline
	checkAt int

	// drained says that the context is being released, and that the release has waited for the work
	// on its own streams. From then on, only streamEnds.lost and tails with an error report work
	// that may not be done.
	drained atomic.Bool
}

// closedTimeline is a closed timeline on which no call is in flight: a *Timeline.
type closedTimeline interface {
	// freeIfDone frees the cell if all work is done, and reports whether it is. An error says that the end of the work
	// can never be known.
	freeIfDone() (done bool, err error)
	// waitAndFree waits for the work, and then frees the cell.
	waitAndFree() error
	// keepForever reports the timeline as leaked.
	keepForever(err error)
}

// The functions of the driver that timelines need.
const (
	SignalOp = "cuStreamWriteValue64"
	BlockOp  = "cuStreamWaitValue64"
)

// MinLook is the number of closed timelines from which they are checked.
const MinLook = 32

// TakeCell returns a cell whose words are all 0.
func (c *Context) TakeCell(at driver.At) (x slab.Cell, err error) {
	k := &c.Cells
	x, ok := k.Take()
	if !ok {
		if k.checkDue() {
			c.FreeFinishedTimelines()
		}
		if x, err = k.Grow(func(size int) (*slab.Slab, error) { return c.newSlab(size, at) }); err != nil {
			return x, err
		}
	}
	x.Clear()
	return x, nil
}

// newSlab returns a slab that is registered in the context.
func (c *Context) newSlab(size int, at driver.At) (*slab.Slab, error) {
	if n, _ := c.Cells.Count(); n == 0 {
		if err := c.supportsTimelines(); err != nil {
			return nil, err
		}
	}
	s, f := c.Drv.Slabs.New(size, slab.Context[ContextKey]{Place: c.place(), Table: &c.Drv.Calls, At: at})
	switch {
	case f == nil:
		return s, nil
	case f.Err != nil:
		return nil, NewError(f.Op, c, driver.ResultOutOfMemory, f.Err,
			"the operating system has no memory for the counters of timelines")
	}
	return nil, c.CallError(f.Op, 0, f.Result)
}

// supportsTimelines returns an error if the device's streams cannot use counters.
func (c *Context) supportsTimelines() error {
	for _, op := range []string{SignalOp, BlockOp} {
		if sym, known := driver.FindSymbol(op); known && !c.Drv.Has(op) {
			return c.Drv.ResultError(op, 0, driver.NotImplemented(sym))
		}
	}
	const op = "cuDeviceGetAttribute"
	const attribute = driver.CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
	can, res := c.Drv.Table().DeviceGetAttribute(driver.At{}, attribute, c.Dev)
	switch {
	case res == driver.ResultInvalidValue:
		return BadValue(op, c, "the driver does not know whether streams can use counters in memory: use events instead")
	case res != driver.ResultSuccess:
		return c.Drv.ResultError(op, 0, res)
	case can == 0:
		return NewError(SignalOp, c, driver.ResultNotSupported, errNoValues, fmt.Sprintf(
			"CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS of device %d is 0: use events instead", c.Dev))
	}
	return nil
}

// place returns the context as a place where slabs are registered.
func (c *Context) place() slab.Place[ContextKey] {
	c.Drv.Mu.Lock()
	defer c.Drv.Mu.Unlock()
	return slab.Place[ContextKey]{Key: c.Key, Primary: c.Claim == Retained, Device: c.Dev}
}

// checkDue reports whether to check the closed timelines: when there are twice as many as the
// last check left. So the amortized cost per timeline is constant.
func (k *cells) checkDue() bool {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	return len(k.closed) >= max(k.checkAt, MinLook)
}

// FreeFinishedTimelines frees the cells of closed timelines whose work is done. It does not wait. The caller
// is a user of the context.
func (c *Context) FreeFinishedTimelines() {
	k := &c.Cells
	k.Mu.Lock()
	list := k.closed
	k.closed = nil // concurrent checks find nothing
	k.Mu.Unlock()
	list = slices.DeleteFunc(list, func(tc closedTimeline) bool {
		done, err := tc.freeIfDone()
		if err != nil {
			c.Hold() // never released
			tc.keepForever(err)
		}
		return done || err != nil
	})
	k.Mu.Lock()
	k.checkAt = 2 * len(list)
	k.closed = append(list, k.closed...)
	k.Mu.Unlock()
}

// endTimelines waits for the work of closed timelines. The context is being released, and the work
// on its own streams is done. An error, which is set also if a tracer panics, says that work may
// still use the memory, which therefore has to stay registered.
func (c *Context) endTimelines(err *error) {
	k := &c.Cells
	k.drained.Store(true)
	closed := k.closed // no lock: the context has no users
	k.closed = nil
	EachDespitePanic(len(closed), func(i int) {
		tc := closed[i]
		e := errTracer
		EachDespitePanic(3, func(step int) {
			switch {
			case step < 2 && e == errTracer: // try again if a tracer panicked
				e = tc.waitAndFree()
			case step == 2 && e != nil:
				*err = e
				tc.keepForever(e)
			}
		})
	})
}

// errTracer says why the end of a timeline's work is not known.
var errTracer = errors.New("a tracer panicked twice while the library waited for the work")

// detachSlabs takes the slabs away from the context and returns them. A software driver's slabs are
// unregistered and dropped instead, unless the caller must not wait for the GPU.
func (c *Context) detachSlabs(at driver.At) []*slab.Slab {
	left := c.Cells.Detach()
	c.forgetAddresses()
	if !c.Drv.Table().Software() || at.NoWait {
		return left
	}
	at.Context, at.Relaxed = c.Raw, true
	for _, s := range left {
		if res := c.Drv.Table().MemHostUnregister(at, s.Addr()); res != driver.ResultSuccess {
			err := c.BackgroundError("cuMemHostUnregister", uintptr(s.Raw()), res)
			c.Drv.Leak(LeakReport{Kind: "timeline", Handle: uintptr(s.Raw()), Err: err})
		}
	}
	c.Drv.Slabs.Drop(len(left))
	return nil
}

// forgetAddresses removes the addresses that slabs of other contexts have in this one, which is
// released.
func (c *Context) forgetAddresses() {
	c.Drv.Mu.Lock()
	defer c.Drv.Mu.Unlock()
	for _, other := range c.Drv.Contexts {
		other.Cells.Forget(c)
	}
}

// UnmapSlabs unmaps the slabs that no context has. If other code keeps the primary context in which
// a slab is registered, the slab is unregistered first, which waits for all work in that context.
func (d *Driver) UnmapSlabs() { d.Slabs.Unmap(d.unregister) }

// unregister unregisters a slab, and reports whether it is registered nowhere now. It waits for the
// GPU.
func (d *Driver) unregister(s driver.HostPtr, in slab.Place[ContextKey]) bool {
	switch {
	case in.Key == ContextKey{}:
		return true
	case !in.Primary:
		return false // other code may destroy the context at any time
	}
	_, active, res := d.Table().DevicePrimaryCtxGetState(driver.At{Relaxed: true}, in.Device)
	if res != driver.ResultSuccess || active == 0 {
		return res == driver.ResultSuccess
	}
	raw, res := d.Table().DevicePrimaryCtxRetain(driver.At{}, in.Device)
	if res != driver.ResultSuccess {
		return false
	}
	defer d.ReleasePrimary(in.Device)
	key, err := d.KeyOf(raw)
	if err != nil || key != in.Key { // the primary context is a new one
		return err == nil
	}
	res = d.Table().MemHostUnregister(driver.At{Context: raw, Relaxed: true}, s)
	return res == driver.ResultSuccess || res == driver.ResultHostMemoryNotRegistered
}

// TimelineProbe returns the context's probe, and creates it for the first timeline.
func (c *Context) TimelineProbe() (driver.Event, error) {
	k := &c.Cells
	k.Mu.Lock()
	probe := k.probe
	k.Mu.Unlock()
	if probe != 0 {
		return probe, nil
	}
	e, err := c.CreateEvent(driver.CU_EVENT_DISABLE_TIMING, BackgroundAt()) // without the lock, because tracers are called
	if err != nil {
		return 0, err
	}
	k.Mu.Lock()
	if probe = k.probe; probe == 0 {
		k.probe = e
	}
	k.Mu.Unlock()
	if probe == 0 {
		return e, nil
	}
	c.doneWith(driver.CU_EVENT_DISABLE_TIMING, e)
	return probe, nil
}

// errNoValues is wrapped in the error for a device without the functions that timelines need.
var errNoValues = fmt.Errorf("streams of the device cannot write 64-bit values, or wait for them: %w",
	errors.ErrUnsupported)
