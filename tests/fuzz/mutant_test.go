package fuzz

import (
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/testrig/override"
)

// base is a driver whose synchronization does not hang, whatever a mutant does with the work.
type base struct {
	driver.Software
	relaxed  *driver.Thread // a thread in relaxed mode
	captures *bool          // whether there was a capture, which a mutant's calls could affect
}

func newBase(s driver.Software) base {
	th := new(driver.Thread)
	s.ThreadExchangeStreamCaptureMode(th, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
	return base{s, th, new(bool)}
}

// EventSynchronize queries the event first, which fails for the same reasons. If the query does not
// succeed, it returns the query's result, and does not wait.
func (b base) EventSynchronize(th *driver.Thread, e driver.Event) driver.Result {
	if r := b.Software.EventQuery(th, e); r != ok {
		return r
	}
	return b.Software.EventSynchronize(th, e)
}

// StreamSynchronize is like EventSynchronize.
func (b base) StreamSynchronize(th *driver.Thread, s driver.Stream) driver.Result {
	if r := b.Software.StreamQuery(th, s); r != ok {
		return r
	}
	return b.Software.StreamSynchronize(th, s)
}

// StreamBeginCapture notes that there was a capture.
func (b base) StreamBeginCapture(th *driver.Thread, s driver.Stream, mode int32) driver.Result {
	*b.captures = true
	return b.Software.StreamBeginCapture(th, s, mode)
}

// pending reports whether an event is certainly pending.
func (b base) pending(e driver.Event) bool {
	return !*b.captures && b.Software.EventQuery(b.relaxed, e) == driver.ResultNotReady
}

// complete reports whether an event is certainly complete.
func (b base) complete(e driver.Event) bool {
	return !*b.captures && b.Software.EventQuery(b.relaxed, e) == ok
}

// capturing reports whether a stream is being captured.
func (b base) capturing(th *driver.Thread, s driver.Stream) bool {
	status, r := b.Software.StreamIsCapturing(th, s)
	return r == ok && status != driver.CU_STREAM_CAPTURE_STATUS_NONE
}

// Each mutant has one fault.

// noLegacyBarrier creates streams that do not wait for the legacy default stream, although their
// flags say so.
type noLegacyBarrier struct {
	Software base
	flags    map[driver.Stream]uint32
}

func (d noLegacyBarrier) StreamCreate(th *driver.Thread, flags uint32) (driver.Stream, driver.Result) {
	s, r := d.Software.StreamCreate(th, flags|driver.CU_STREAM_NON_BLOCKING)
	d.flags[s] = flags
	return s, r
}

func (d noLegacyBarrier) StreamGetFlags(th *driver.Thread, s driver.Stream) (uint32, driver.Result) {
	if flags, set := d.flags[s]; set {
		return flags, ok
	}
	return d.Software.StreamGetFlags(th, s)
}

// staysComplete returns that an event of an ended capture is complete.
type staysComplete struct{ Software base }

func (d staysComplete) EventQuery(th *driver.Thread, e driver.Event) driver.Result {
	if r := d.Software.EventQuery(th, e); r != driver.ResultInvalidValue {
		return r
	}
	return ok
}

// oldPoint always keeps the first record of an event.
type oldPoint struct {
	Software base
	recorded map[driver.Event]bool
}

func (d oldPoint) EventRecord(th *driver.Thread, e driver.Event, s driver.Stream) driver.Result {
	if d.recorded[e] && !d.Software.capturing(th, s) {
		return ok
	}
	r := d.Software.EventRecord(th, e, s)
	d.recorded[e] = r == ok
	return r
}

// noWait does not make streams wait for events.
type noWait struct{ Software base }

func (d noWait) StreamWaitEvent(th *driver.Thread, s driver.Stream, e driver.Event, flags uint32) driver.Result {
	if flags == 0 && d.Software.pending(e) {
		return ok
	}
	return d.Software.StreamWaitEvent(th, s, e, flags)
}

// early returns that events are complete before they are.
type early struct{ Software base }

func (d early) EventQuery(th *driver.Thread, e driver.Event) driver.Result {
	if r := d.Software.EventQuery(th, e); r != driver.ResultNotReady {
		return r
	}
	return ok
}

// otherEvent measures the time to the event that was recorded last, if possible.
type otherEvent struct {
	Software base
	last     *driver.Event
}

func (d otherEvent) EventRecord(th *driver.Thread, e driver.Event, s driver.Stream) driver.Result {
	*d.last = e
	return d.Software.EventRecord(th, e, s)
}

func (d otherEvent) EventDestroy(th *driver.Thread, e driver.Event) driver.Result {
	if *d.last == e {
		*d.last = 0
	}
	return d.Software.EventDestroy(th, e)
}

func (d otherEvent) EventElapsedTimeV2(th *driver.Thread, start, end driver.Event) (float32, driver.Result) {
	ms, r := d.Software.EventElapsedTimeV2(th, start, end)
	if r == ok && start != end && *d.last != 0 && d.Software.complete(*d.last) {
		if other, r := d.Software.EventElapsedTimeV2(th, start, *d.last); r == ok {
			return other, ok
		}
	}
	return ms, r
}

// noExternal makes no node of an external record.
type noExternal struct{ Software base }

func (d noExternal) EventRecordWithFlags(th *driver.Thread, e driver.Event, s driver.Stream, flags uint32) driver.Result {
	status, r := d.Software.StreamIsCapturing(th, s)
	if r == ok && status == driver.CU_STREAM_CAPTURE_STATUS_ACTIVE && flags != 0 {
		return ok
	}
	return d.Software.EventRecordWithFlags(th, e, s, flags)
}

// noOldMode does not return the old mode of an exchange.
type noOldMode struct{ Software base }

func (d noOldMode) ThreadExchangeStreamCaptureMode(th *driver.Thread, mode int32) (int32, driver.Result) {
	_, r := d.Software.ThreadExchangeStreamCaptureMode(th, mode)
	return 0, r
}

// anyContext accepts events of other contexts.
type anyContext struct{ Software base }

func (d anyContext) EventRecord(th *driver.Thread, e driver.Event, s driver.Stream) driver.Result {
	if r := d.Software.EventRecord(th, e, s); r != driver.ResultInvalidHandle {
		return r
	}
	return ok
}

// alwaysTimed makes every event a timed one.
type alwaysTimed struct{ Software base }

func (d alwaysTimed) EventCreate(th *driver.Thread, flags uint32) (driver.Event, driver.Result) {
	if flags <= 3 {
		flags &^= driver.CU_EVENT_DISABLE_TIMING
	}
	return d.Software.EventCreate(th, flags)
}

// newestOnly ignores records in the status of a stream.
type newestOnly struct {
	Software base
	newest   map[driver.Stream]bool
}

func (d newestOnly) EventRecord(th *driver.Thread, e driver.Event, s driver.Stream) driver.Result {
	r := d.Software.EventRecord(th, e, s)
	d.newest[s] = r == ok
	return r
}

func (d newestOnly) StreamQuery(th *driver.Thread, s driver.Stream) driver.Result {
	if r := d.Software.StreamQuery(th, s); r != driver.ResultNotReady || !d.newest[s] {
		return r
	}
	return ok
}

// anyGraph accepts a wrong end of a capture.
type anyGraph struct {
	Software base
	code     driver.Result
}

func (d anyGraph) StreamEndCapture(th *driver.Thread, s driver.Stream) (driver.Graph, driver.Result) {
	g, r := d.Software.StreamEndCapture(th, s)
	if r == d.code {
		return d.Software.GraphCreate(th, 0)
	}
	return g, r
}

// pushTwice pushes a context twice.
type pushTwice struct{ Software base }

func (d pushTwice) CtxPushCurrent(th *driver.Thread, c driver.Context) driver.Result {
	d.Software.CtxPushCurrent(th, c)
	return d.Software.CtxPushCurrent(th, c)
}

// popOne leaves the last context on the stack.
type popOne struct{ Software base }

func (d popOne) CtxPopCurrent(th *driver.Thread) (driver.Context, driver.Result) {
	c, r := d.Software.CtxPopCurrent(th)
	if now, _ := d.Software.CtxGetCurrent(th); r == ok && now == 0 {
		d.Software.CtxPushCurrent(th, c)
	}
	return c, r
}

// leaks destroys no streams.
type leaks struct{ Software base }

func (d leaks) StreamDestroy(*driver.Thread, driver.Stream) driver.Result { return ok }

// freePriority does not limit priorities to their range.
type freePriority struct {
	Software base
	asked    map[driver.Stream]int32
}

func (d freePriority) StreamCreateWithPriority(th *driver.Thread, flags uint32, p int32) (driver.Stream, driver.Result) {
	s, r := d.Software.StreamCreateWithPriority(th, flags, p)
	d.asked[s] = p
	return s, r
}

func (d freePriority) StreamGetPriority(th *driver.Thread, s driver.Stream) (int32, driver.Result) {
	p, r := d.Software.StreamGetPriority(th, s)
	if asked, set := d.asked[s]; set {
		return asked, r
	}
	return p, r
}

// noContextWait does not make a context wait for an event.
type noContextWait struct{ Software base }

func (d noContextWait) CtxWaitEvent(th *driver.Thread, c driver.Context, e driver.Event) driver.Result {
	if d.Software.pending(e) {
		return ok
	}
	return d.Software.CtxWaitEvent(th, c, e)
}

// noLaunch launches graphs without their work.
type noLaunch struct{ Software base }

func (d noLaunch) GraphLaunch(*driver.Thread, driver.GraphExec, driver.Stream) driver.Result {
	return ok
}

// oneThread uses a thread in global mode for every query of an event.
type oneThread struct{ Software base }

func (d oneThread) EventQuery(_ *driver.Thread, e driver.Event) driver.Result {
	return d.Software.EventQuery(new(driver.Thread), e)
}

// failedRecord records an event even if the record fails: on another stream.
type failedRecord struct{ Software base }

func (d failedRecord) EventRecordWithFlags(th *driver.Thread, e driver.Event, s driver.Stream, flags uint32) driver.Result {
	r := d.Software.EventRecordWithFlags(th, e, s, flags)
	if r == driver.ResultIllegalState {
		d.Software.EventRecord(th, e, s)
	}
	return r
}

// staysCapturing returns that streams are being captured although their capture has ended.
type staysCapturing struct {
	Software base
	was      map[driver.Stream]bool
}

func (d staysCapturing) StreamBeginCapture(th *driver.Thread, s driver.Stream, mode int32) driver.Result {
	d.was[s] = s > driver.CU_STREAM_PER_THREAD
	return d.Software.StreamBeginCapture(th, s, mode)
}

func (d staysCapturing) StreamIsCapturing(th *driver.Thread, s driver.Stream) (int32, driver.Result) {
	status, r := d.Software.StreamIsCapturing(th, s)
	if r == ok && status == driver.CU_STREAM_CAPTURE_STATUS_NONE && d.was[s] {
		status = driver.CU_STREAM_CAPTURE_STATUS_INVALIDATED
	}
	return status, r
}

// mutants returns a function for each mutant, which makes from a driver what override.Driver takes.
func mutants() map[string]func(base) any {
	return map[string]func(base) any{
		"a legacy barrier is dropped": func(b base) any {
			return noLegacyBarrier{b, make(map[driver.Stream]uint32)}
		},
		"a captured event stays complete": func(b base) any { return staysComplete{b} },
		"a record keeps the old point": func(b base) any {
			return oldPoint{b, make(map[driver.Event]bool)}
		},
		"a wait is ignored":                   func(b base) any { return noWait{b} },
		"a query says complete too early":     func(b base) any { return early{b} },
		"a time is that of another event":     func(b base) any { return otherEvent{b, new(driver.Event)} },
		"an external record is not made":      func(b base) any { return noExternal{b} },
		"an exchange forgets the old mode":    func(b base) any { return noOldMode{b} },
		"another context's event is accepted": func(b base) any { return anyContext{b} },
		"a flag is ignored":                   func(b base) any { return alwaysTimed{b} },
		"a stream ignores its newest work": func(b base) any {
			return newestOnly{b, make(map[driver.Stream]bool)}
		},
		"an unjoined capture is accepted": func(b base) any {
			return anyGraph{b, driver.ResultStreamCaptureUnjoined}
		},
		"an invalidated capture is accepted": func(b base) any {
			return anyGraph{b, driver.ResultStreamCaptureInvalidated}
		},
		"a push pushes twice":       func(b base) any { return pushTwice{b} },
		"a pop leaves the last one": func(b base) any { return popOne{b} },
		"a stream is not destroyed": func(b base) any { return leaks{b} },
		"a priority is out of range": func(b base) any {
			return freePriority{b, make(map[driver.Stream]int32)}
		},
		"a context's wait is ignored": func(b base) any { return noContextWait{b} },
		"a graph is not run":          func(b base) any { return noLaunch{b} },
		"a thread's mode is ignored":  func(b base) any { return oneThread{b} },
		"a stream is not free after its capture": func(b base) any {
			return staysCapturing{b, make(map[driver.Stream]bool)}
		},
		"a record that fails changes an event": func(b base) any { return failedRecord{b} },
	}
}

// TestMutants checks that each fault is found, by a program that succeeds on a driver without the
// fault.
func TestMutants(t *testing.T) {
	const most = 5_000
	healthy := simulated("healthy", true, func(s driver.Software) driver.Software { return newBase(s) })
	for name, mutate := range mutants() {
		t.Run(name, func(t *testing.T) {
			sick := simulated("mutant", true, func(s driver.Software) driver.Software {
				return override.Driver(mutate(newBase(s)))
			})
			fails := func(p program, patience time.Duration) error {
				_, err := sick.run(p, patience)
				return err
			}
			for seed := range uint64(most) {
				p := generate(seed+1, contextSlots, nil)
				stop := watch(t, seed+1, p)
				err := fails(p, patient)
				stop()
				if err == nil {
					continue
				}
				p = shrink(p, func(p program) bool { return fails(p, impatient) != nil })
				if _, err := healthy.run(p, patient); err != nil {
					t.Errorf("the program fails without the fault too: %v\n%v", err, p)
				}
				t.Logf("found after %d programs: %v\n%v", seed+1, fails(p, impatient), p)
				return
			}
			t.Errorf("%d programs did not find it", most)
		})
	}
}
