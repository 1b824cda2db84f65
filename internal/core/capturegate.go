package core

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/capturegate"
)

// GatesOf returns the gates of a CUDA context. Each context of a software driver has gates of its
// own, because it is no context of the process.
func (d *Driver) GatesOf(key ContextKey) *capturegate.Context {
	if d.Table().Software() {
		return new(capturegate.Context)
	}
	return capturegate.Of(key)
}

// shutGates makes calls that the driver checks against captures wait until open is called, in the
// contexts of streams that are, or will be, part of a capture: see [capturegate.Shut]. There is at
// least one stream.
func shutGates(streams ...*Stream) (open func()) {
	var shut []*capturegate.Gate
	for _, sc := range streams {
		gates := sc.Ctx.CaptureGate
		if !slices.Contains(shut, &gates.Whole) {
			shut = append(shut, &gates.Whole)
		}
		// Other code that has the handle of a stream may have made its own streams part of the
		// capture.
		if (sc.isBlocking() || sc.Exposed.Load()) && !slices.Contains(shut, &gates.Legacy) {
			shut = append(shut, &gates.Legacy)
		}
	}
	return capturegate.Shut(shut, streams[0].Ctx.Drv.Table().Clock())
}

// beginWhole precedes a call of the driver on all streams of the context, and endWhole follows it.
func (c *Context) beginWhole() { c.CaptureGate.Whole.Begin(c.Drv.Table().Clock()) }
func (c *Context) endWhole()   { c.CaptureGate.Whole.End() }

// EnterGate precedes a call of the driver on the stream, and LeaveGate follows it. Both do
// nothing if the stream is not the legacy default stream.
func (sc *Stream) EnterGate() {
	if sc.Raw == driver.CU_STREAM_LEGACY && !sc.Ctx.CaptureGate.Legacy.TryBegin() {
		sc.Ctx.CaptureGate.Legacy.Begin(sc.Ctx.Drv.Table().Clock())
	}
}

// LeaveGate follows a call of the driver that EnterGate preceded.
func (sc *Stream) LeaveGate() {
	if sc.Raw == driver.CU_STREAM_LEGACY {
		sc.Ctx.CaptureGate.Legacy.End()
	}
}

// TryEnterGate is EnterGate for background calls of the library. It reports false instead of
// waiting.
func (sc *Stream) TryEnterGate() bool {
	return sc.Raw != driver.CU_STREAM_LEGACY || sc.Ctx.CaptureGate.Legacy.TryBegin()
}

// isBlocking reports whether the stream may be a blocking stream.
func (sc *Stream) isBlocking() bool { return sc.Flags&driver.CU_STREAM_NON_BLOCKING == 0 }
