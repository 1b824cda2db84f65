package core

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/capturegate"
	"github.com/purecu/purecu/internal/watch"
)

// This file is how a stream joins a capture that another stream began: it waits for an event that was
// recorded in the capture. The library makes the stream part of the capture before the driver does,
// and no stream joins while the capture ends. So the end of the capture knows the contexts of all
// streams.

// WaitEvent makes the stream wait for a CUevent. If the event's record is part of a capture, the
// stream joins this capture; else the capture is nil.
func (sc *Stream) WaitEvent(e driver.Event, of *capture) driver.Result {
	captures := &sc.Ctx.Drv.Captures
	if of == nil || sc.Raw == driver.CU_STREAM_LEGACY { // the legacy stream joins no capture
		sc.EnterGate()
		defer sc.LeaveGate()
		return sc.Ctx.Drv.Table().StreamWaitEvent(sc.At, sc.Raw, e, driver.CU_EVENT_WAIT_DEFAULT)
	}
	defer sc.Shared.lockForCapture()()
	joins := captures.beginJoin(of, sc)
	res := func() driver.Result {
		if sc.isBlocking() {
			// A mark of the library on the legacy stream would invalidate the capture.
			defer capturegate.Shut([]*capturegate.Gate{&sc.Ctx.CaptureGate.Legacy}, sc.Ctx.Drv.Table().Clock())()
		}
		return sc.Ctx.Drv.Table().StreamWaitEvent(sc.At, sc.Raw, e, driver.CU_EVENT_WAIT_DEFAULT)
	}()
	if joins {
		// The event may have been recorded again, and the capture may be invalidated.
		if i, r := sc.CaptureInfo(sc.At); r == driver.ResultSuccess && !i.mayBe(of) {
			captures.undoJoin(of, sc)
		}
	}
	sc.joined(of) // also after undoJoin: another wait may have made the stream part of the capture
	return res
}

// mayBe reports whether a stream's capture may be c. The driver tells the ID of a capture only if it
// is not invalidated.
func (i captureInfo) mayBe(c *capture) bool {
	return i.Status == driver.CU_STREAM_CAPTURE_STATUS_INVALIDATED ||
		i.Status == driver.CU_STREAM_CAPTURE_STATUS_ACTIVE && i.ID == c.id
}

// joined asks the driver whether the stream has joined a capture, and notes the answer. The driver
// does not tell the ID of an invalidated capture: then joined takes likely, if that capture is
// active.
//
// If the program records the event in a capture while the stream waits for it, the stream can join
// the capture before the library knows it. If the capture ends at that moment, its end does not
// shut the gates of the stream's context. The program has left the order of these calls open.
func (sc *Stream) joined(likely *capture) {
	if sc.KnownCapture() != nil || sc.Raw == driver.CU_STREAM_LEGACY { // the legacy stream joins no capture
		return
	}
	i, r := sc.CaptureInfo(sc.At)
	if r != driver.ResultSuccess || i.Status == driver.CU_STREAM_CAPTURE_STATUS_NONE {
		return
	}
	captures := &sc.Ctx.Drv.Captures
	captures.mu.Lock()
	defer captures.mu.Unlock()
	c := captures.ByID[i.ID] // nil if other code began the capture, or it is invalidated
	if i.Status == driver.CU_STREAM_CAPTURE_STATUS_INVALIDATED && likely.Active() {
		c = likely
	}
	if c != nil {
		c.join(sc)
	}
}

// beginJoin makes a stream part of a capture before the driver does. So the end of the capture also
// shuts the gates of this stream's context. If the capture is ending, beginJoin waits for its end. It
// reports false if the capture is over, or the stream is part of a capture.
func (c *captures) beginJoin(of *capture, sc *Stream) bool {
	if sc.KnownCapture() != nil {
		return false // the driver will refuse another capture
	}
	b := watch.BackOff{Policy: watch.Brief, Clock: sc.Ctx.Drv.Table().Clock()}
	defer b.End()
	for of.Active() { // for at most capturegate.Patience, and as long as the driver takes
		if c.tryJoin(of, sc) {
			return true
		}
		b.Wait()
	}
	return false
}

func (c *captures) tryJoin(of *capture, sc *Stream) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of.ending || !of.Active() {
		return false
	}
	of.join(sc)
	return true
}

// undoJoin undoes beginJoin for a stream that the driver has not made part of the capture. The
// capture may have ended meanwhile.
func (c *captures) undoJoin(of *capture, sc *Stream) {
	c.mu.Lock()
	i := slices.Index(of.streams, sc)
	if i >= 0 {
		of.streams = slices.Delete(of.streams, i, i+1)
		sc.Shared.Capture.CompareAndSwap(of, nil)
	}
	c.mu.Unlock()
	if i >= 0 {
		sc.countBlocking(-1)
		sc.EndCall()
	}
}
