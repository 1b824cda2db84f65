package timelines

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/slab"
	"github.com/purecu/purecu/internal/watch"
)

// Timeline is the shared state of a timeline. Another timeline gets the cell when this timeline
// is closed, no call on it is in flight, and all work that uses the cell is done.
type Timeline struct {
	handle.Refs
	Ctx  *core.Context
	Cell slab.Cell
	Word *atomic.Uint64   // the counter, in the cell
	Raw  driver.DevicePtr // the counter's address in the context
	// Probe is an event that is never recorded. A query of it fails if the context has failed.
	Probe driver.Event
	// UsedStreams is the set of streams on which work with the counter was enqueued.
	UsedStreams *core.StreamSet
	// Freed is set when the timeline no longer has the cell; Final is the value then.
	Freed atomic.Bool
	// Observed says that there was a race detector when the timeline was created.
	Observed atomic.Bool
	Final    uint64
	// Raises counts the raises that the library began, for the race detector. The detector does not
	// see the atomic operations on memory outside of Go; this counter shows it the same order.
	Raises atomic.Uint64

	timelineMarks
	// Waits are the waits for the counter.
	Waits watch.Counter
}

// timelineMarks are the known ends of the work on streams. After the last call the timeline's cell waits for them.
type timelineMarks struct {
	MarksMu lock.Mutex[lock.Marks]
	Marks   []mark
	words   int         // how many marks have a word
	more    []slab.Cell // for the words that the cell has no room for
}

// ObserveValue is called when the program has seen the counter at the value, or above it.
func (tc *Timeline) ObserveValue(value uint64) {
	if o := tc.Ctx.Drv.Observer(); o != nil {
		o.HostSees(uintptr(tc.Raw), value)
		o.Report()
	}
}

// Context returns the context that the object belongs to.
func (tc *Timeline) Context() *core.Context { return tc.Ctx }

// Kind names the kind of the object in errors and reports.
func (tc *Timeline) Kind() string { return "timeline" }

// Handle returns the driver's handle.
func (tc *Timeline) Handle() uintptr { return uintptr(tc.Raw) }

const (
	RaiseOp = "Timeline.Set"
	WaitOp  = "Timeline.Wait"
)

// EndCall ends a call that Enter began.
func (tc *Timeline) EndCall() { tc.Release(tc) }

// Refused returns the error of a call that began after the timeline was closed.
func (tc *Timeline) Refused(op string) error { return drivercall.ClosedError(op, tc) }

// Last releases the cell when the last call on a closed timeline has ended.
func (tc *Timeline) Last(later bool) { tc.Ctx.Drv.AfterLastCall(later, tc.retire) }

// Wait waits for a value. The caller has a call in flight.
func (tc *Timeline) Wait(ctx context.Context, value uint64) error {
	word, w := tc.Word, &tc.Ctx.Drv.Watch
	closings := tc.Ctx.Closings.Load()
	ended, err := w.Poll(func() (ended bool, err error) {
		switch {
		case watch.Reached(word.Load(), value):
		case tc.Closed():
			err = ClosedError(tc)
		case tc.Ctx.Closings.Load() != closings:
			err = tc.ErrContextClosed()
		case ctx.Err() != nil:
			err = tc.errEnded(ctx, value)
		default:
			return false, nil
		}
		return true, err
	})
	if ended {
		return err
	}
	v := watch.NewNumberSub(value)
	w.AddNumberSub(&tc.Waits, v)
	if tc.Ctx.Closings.Load() != closings && w.Cancel(&v.Sub) {
		return tc.ErrContextClosed()
	}
	if !v.Wait(ctx.Done()) && w.Cancel(&v.Sub) {
		return tc.errEnded(ctx, value)
	}
	return v.Err
}

// ClosedError returns the error of a wait whose timeline was closed meanwhile.
func ClosedError(tc *Timeline) error {
	return drivercall.Misuse(WaitOp, tc, mistake.ErrClosed, "the timeline was closed while this call waited for it")
}

// ErrContextClosed returns the error of waits when the context was closed.
func (tc *Timeline) ErrContextClosed() error {
	return drivercall.Misuse(WaitOp, tc, mistake.ErrClosed, drivercall.ContextClosedDetail)
}

func (tc *Timeline) errEnded(ctx context.Context, value uint64) error {
	return drivercall.NewError(WaitOp, tc, driver.ResultSuccess, drivercall.EndedError(ctx),
		fmt.Sprintf("the counter was at %d, and had not reached %d", tc.Word.Load(), value))
}

// works returns an error if the context has failed.
func (tc *Timeline) works() error {
	if p := tc.Ctx.Poison.Load(); p != nil {
		return tc.Ctx.BackgroundError(WaitOp, tc.Handle(), p.Res)
	}
	if res := tc.Ctx.QueryEvent(tc.Probe); res != driver.ResultSuccess {
		return tc.Ctx.BackgroundError("cuEventQuery", uintptr(tc.Probe), res)
	}
	return nil
}

// Load returns the counter.
func (tc *Timeline) Load() uint64 { return tc.Word.Load() }

// ErrClosed returns the error of waits for a closed timeline.
func (tc *Timeline) ErrClosed() error {
	if tc.Closed() {
		return ClosedError(tc)
	}
	return nil
}

// Works returns an error if nothing can raise the counter any more: see works.
func (tc *Timeline) Works() error { return tc.works() }

// Drop ends a call that Retain began.
func (tc *Timeline) Drop() { tc.EndCall() }
