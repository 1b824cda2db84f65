package cu

import (
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/capturegate"
)

// gatesOf returns the gates of a CUDA context. Each context of a software driver has gates of its
// own, because it is no context of the process.
func (d *driverCore) gatesOf(key contextKey) *capturegate.Context {
	if d.table().Software() {
		return new(capturegate.Context)
	}
	return capturegate.Of(key)
}

// shutGates makes calls that the driver checks against captures wait until open is called, in the
// contexts of streams that are, or will be, part of a capture: see [capturegate.Shut]. There is at
// least one stream.
func shutGates(streams ...*streamCore) (open func()) {
	var shut []*capturegate.Gate
	for _, sc := range streams {
		gates := sc.ctx.captureGate
		if !slices.Contains(shut, &gates.Whole) {
			shut = append(shut, &gates.Whole)
		}
		// Other code that has the handle of a stream may have made its own streams part of the
		// capture.
		if (sc.isBlocking() || sc.exposed.Load()) && !slices.Contains(shut, &gates.Legacy) {
			shut = append(shut, &gates.Legacy)
		}
	}
	return capturegate.Shut(shut, streams[0].ctx.drv.table().Clock())
}

// beginWhole precedes a call of the driver on all streams of the context, and endWhole follows it.
func (c *contextCore) beginWhole() { c.captureGate.Whole.Begin(c.drv.table().Clock()) }
func (c *contextCore) endWhole()   { c.captureGate.Whole.End() }

// beginLegacy precedes a call of the driver on the stream, and endLegacy follows it. Both do
// nothing if the stream is not the legacy default stream.
func (sc *streamCore) beginLegacy() {
	if sc.raw == driver.CU_STREAM_LEGACY && !sc.ctx.captureGate.Legacy.TryBegin() {
		sc.ctx.captureGate.Legacy.Begin(sc.ctx.drv.table().Clock())
	}
}

func (sc *streamCore) endLegacy() {
	if sc.raw == driver.CU_STREAM_LEGACY {
		sc.ctx.captureGate.Legacy.End()
	}
}

// tryBeginLegacy is beginLegacy for background calls of this package. It reports false instead of
// waiting.
func (sc *streamCore) tryBeginLegacy() bool {
	return sc.raw != driver.CU_STREAM_LEGACY || sc.ctx.captureGate.Legacy.TryBegin()
}

// isBlocking reports whether the stream may be a blocking stream.
func (sc *streamCore) isBlocking() bool { return sc.flags&driver.CU_STREAM_NON_BLOCKING == 0 }
