package timelines

import (
	"errors"
	"fmt"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/slab"
)

// This file gives timelines their counters, and takes them back.

// The functions of the driver that timelines need.
const (
	SignalOp = "cuStreamWriteValue64"
	BlockOp  = "cuStreamWaitValue64"
)

// TakeCell returns a cell whose words are all 0.
func TakeCell(c *core.Context, at driver.At) (x slab.Cell, err error) {
	k := &c.Cells
	x, ok := k.Take()
	if !ok {
		if k.CheckDue() {
			FreeFinished(c)
		}
		if x, err = k.Grow(func(size int) (*slab.Slab, error) { return newSlab(c, size, at) }); err != nil {
			return x, err
		}
	}
	x.Clear()
	return x, nil
}

// newSlab returns a slab that is registered in the context.
func newSlab(c *core.Context, size int, at driver.At) (*slab.Slab, error) {
	if n, _ := c.Cells.Count(); n == 0 {
		if err := supported(c); err != nil {
			return nil, err
		}
	}
	s, f := c.Drv.Slabs.New(size, slab.Context[core.ContextKey]{Place: c.Place(), Table: &c.Drv.Functions, At: at})
	switch {
	case f == nil:
		return s, nil
	case f.Err != nil:
		return nil, drivercall.NewError(f.Op, c, driver.ResultOutOfMemory, f.Err,
			"the operating system has no memory for the counters of timelines")
	}
	return nil, c.CallError(f.Op, 0, f.Result)
}

// supported returns an error if the device's streams cannot use counters.
func supported(c *core.Context) error {
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
		return drivercall.BadValue(op, c,
			"the driver does not know whether streams can use counters in memory: use events instead")
	case res != driver.ResultSuccess:
		return c.Drv.ResultError(op, 0, res)
	case can == 0:
		return drivercall.NewError(SignalOp, c, driver.ResultNotSupported, errNoValues, fmt.Sprintf(
			"CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS of device %d is 0: use events instead", c.Dev))
	}
	return nil
}

// FreeFinished frees the cells of closed timelines whose work is done. It does not wait. The caller
// is a user of the context.
func FreeFinished(c *core.Context) {
	k := &c.Cells
	k.Mu.Lock()
	list := k.Closed
	k.Closed = nil // concurrent checks find nothing
	k.Mu.Unlock()
	list = slices.DeleteFunc(list, func(tc core.UnfinishedTimeline) bool {
		done, err := tc.FreeIfDone()
		if err != nil {
			c.Hold() // never released
			tc.KeepForever(err)
		}
		return done || err != nil
	})
	k.Mu.Lock()
	k.CheckAt = 2 * len(list)
	k.Closed = append(list, k.Closed...)
	k.Mu.Unlock()
}

// Probe returns the context's probe, and creates it for the first timeline.
func Probe(c *core.Context) (driver.Event, error) {
	k := &c.Cells
	k.Mu.Lock()
	probe := k.Probe
	k.Mu.Unlock()
	if probe != 0 {
		return probe, nil
	}
	// The event is created without the lock, because tracers are called.
	e, err := c.CreateEvent(driver.CU_EVENT_DISABLE_TIMING, core.BackgroundAt())
	if err != nil {
		return 0, err
	}
	k.Mu.Lock()
	if probe = k.Probe; probe == 0 {
		k.Probe = e
	}
	k.Mu.Unlock()
	if probe == 0 {
		return e, nil
	}
	c.DoneWith(driver.CU_EVENT_DISABLE_TIMING, e)
	return probe, nil
}

// errNoValues is wrapped in the error for a device without the functions that timelines need.
var errNoValues = fmt.Errorf("streams of the device cannot write 64-bit values, or wait for them: %w",
	errors.ErrUnsupported)

// CountsOf returns the numbers of the driver.
func CountsOf(d *core.Driver) (n Counts) {
	n.Mappings = d.Slabs.Mapped()
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for _, c := range d.Contexts {
		c.Cells.Mu.Lock()
		n.Open += c.Cells.Open
		n.Unfinished += c.Cells.Unfinished
		c.Cells.Mu.Unlock()
	}
	return n
}

// Counts has the number of slabs, and how many timelines are open, or closed and still in
// use.
type Counts struct{ Mappings, Open, Unfinished int }
