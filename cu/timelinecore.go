package cu

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/internal/lock"
	"github.com/purecu/purecu/internal/mistake"
	"github.com/purecu/purecu/internal/slab"
	"github.com/purecu/purecu/internal/watch"
)

// timelineCore is the shared state of a timeline. Another timeline gets the cell when this timeline
// is closed, no call on it is in flight, and all work that uses the cell is done.
type timelineCore struct {
	handle.Refs
	ctx  *contextCore
	cell slab.Cell
	word *atomic.Uint64   // the counter, in the cell
	raw  driver.DevicePtr // the counter's address in the context
	// probe is an event that is never recorded. A query of it fails if the context has failed.
	probe driver.Event
	// usedStreams is the set of streams on which work with the counter was enqueued.
	usedStreams *streamSet
	// freed is set when the timeline no longer has the cell; final is the value then.
	freed atomic.Bool
	// observed says that there was a race detector when the timeline was created.
	observed atomic.Bool
	final    uint64
	// raises counts the raises that this package began, for the race detector. The detector does
	// not see the atomic operations on memory outside of Go; this counter shows it the same order.
	raises atomic.Uint64

	timelineMarks
	// waits are the waits for the counter.
	waits watch.Counter
}

// timelineMarks are the known ends of the work on streams. After the last call the timeline's cell waits for them.
type timelineMarks struct {
	marksMu lock.Mutex[lock.Marks]
	marks   []mark
	words   int         // how many marks have a word
	more    []slab.Cell // for the words that the cell has no room for
}

// observeValue is called when the program has seen the counter at the value, or above it.
func (tc *timelineCore) observeValue(value uint64) {
	if o := tc.ctx.drv.observer(); o != nil {
		o.HostSees(uintptr(tc.raw), value)
		o.Report()
	}
}

func (tc *timelineCore) context() *contextCore { return tc.ctx }

func (tc *timelineCore) kind() string { return "timeline" }

func (tc *timelineCore) handle() uintptr { return uintptr(tc.raw) }

const (
	raiseOp = "Timeline.Set"
	waitOp  = "Timeline.Wait"
)

// leave ends a call that Enter began.
func (tc *timelineCore) leave() { tc.Release(tc) }

// Refused returns the error of a call that began after the timeline was closed.
func (tc *timelineCore) Refused(op string) error { return errClosed(op, tc) }

// Last releases the cell when the last call on a closed timeline has ended.
func (tc *timelineCore) Last(later bool) { tc.ctx.drv.afterLastCall(later, tc.retire) }

// wait waits for a value. The caller has a call in flight.
func (tc *timelineCore) wait(ctx context.Context, value uint64) error {
	word, w := tc.word, &tc.ctx.drv.watch
	closings := tc.ctx.closings.Load()
	over, err := w.Poll(func() (over bool, err error) {
		switch {
		case watch.Reached(word.Load(), value):
		case tc.Closed():
			err = errTimelineClosed(tc)
		case tc.ctx.closings.Load() != closings:
			err = errTimelineContextClosed(tc)
		case ctx.Err() != nil:
			err = tc.errEnded(ctx, value)
		default:
			return false, nil
		}
		return true, err
	})
	if over {
		return err
	}
	v := watch.NewValue(value)
	w.AddValue(&tc.waits, v)
	if tc.ctx.closings.Load() != closings && w.Cancel(&v.Sub) {
		return errTimelineContextClosed(tc)
	}
	if !v.Wait(ctx.Done()) && w.Cancel(&v.Sub) {
		return tc.errEnded(ctx, value)
	}
	return v.Err
}

func errTimelineClosed(tc *timelineCore) error {
	return misuse(waitOp, tc, mistake.ErrClosed, "the timeline was closed while this call waited for it")
}

func errTimelineContextClosed(tc *timelineCore) error {
	return misuse(waitOp, tc, mistake.ErrClosed, contextClosedDetail)
}

func (tc *timelineCore) errEnded(ctx context.Context, value uint64) error {
	return newError(waitOp, tc, driver.ResultSuccess, errEnded(ctx),
		fmt.Sprintf("the counter was at %d, and had not reached %d", tc.word.Load(), value))
}

// works returns an error if the context has failed.
func (tc *timelineCore) works() error {
	if p := tc.ctx.poison.Load(); p != nil {
		return tc.ctx.backgroundError(waitOp, tc.handle(), p.res)
	}
	if res := tc.ctx.queryEvent(tc.probe); res != driver.ResultSuccess {
		return tc.ctx.backgroundError("cuEventQuery", uintptr(tc.probe), res)
	}
	return nil
}

// Load returns the counter.
func (tc *timelineCore) Load() uint64 { return tc.word.Load() }

// ErrClosed returns the error of waits for a closed timeline.
func (tc *timelineCore) ErrClosed() error {
	if tc.Closed() {
		return errTimelineClosed(tc)
	}
	return nil
}

// Works returns an error if nothing can raise the counter any more: see works.
func (tc *timelineCore) Works() error { return tc.works() }

// Drop ends a call that Retain began.
func (tc *timelineCore) Drop() { tc.leave() }
