package sim

import (
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// rig is a driver with a primary context, and methods for calls in it.
type rig struct {
	t   testing.TB
	d   *Driver
	tab *driver.Table
	in  driver.At // in the primary context
}

func newRig(t testing.TB, opts ...Option) *rig {
	t.Helper()
	d := New(opts...)
	r := &rig{t: t, d: d, tab: driver.NewSoftware(d)}
	r.ok(r.tab.Init(driver.At{}, 0))
	c, res := r.tab.DevicePrimaryCtxRetain(driver.At{}, 0)
	r.ok(res)
	r.in = driver.At{Context: c}
	return r
}

func (r *rig) ok(res driver.Result) {
	r.t.Helper()
	if res != ok {
		r.t.Fatal(res)
	}
}

func (r *rig) want(want, got driver.Result) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("got %v, want %v", got, want)
	}
}

func (r *rig) stream(flags uint32) driver.Stream {
	r.t.Helper()
	s, res := r.tab.StreamCreate(r.in, flags)
	r.ok(res)
	return s
}

func (r *rig) event(flags uint32) driver.Event {
	r.t.Helper()
	e, res := r.tab.EventCreate(r.in, flags)
	r.ok(res)
	return e
}

func (r *rig) record(e driver.Event, s driver.Stream) {
	r.t.Helper()
	at := driver.At{}
	if s <= driver.CU_STREAM_PER_THREAD {
		at = r.in
	}
	r.ok(r.tab.EventRecord(at, e, s))
}

func (r *rig) pending(e driver.Event) {
	r.t.Helper()
	r.want(driver.ResultNotReady, r.tab.EventQuery(driver.At{}, e))
}

func (r *rig) complete(e driver.Event) {
	r.t.Helper()
	r.want(ok, r.tab.EventQuery(driver.At{}, e))
}

// work enqueues work that takes d.
func (r *rig) work(s driver.Stream, d time.Duration) {
	r.t.Helper()
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	str, res := find[stream](r.d, "test", streamKind, uintptr(s))
	r.ok(res)
	r.d.enqueue(str, &op{Duration: int64(d)})
}

const nonBlocking = driver.CU_STREAM_NON_BLOCKING

// TestOrder runs work on two streams in virtual time. One stream waits for the other. All work
// completes at its time, and not before.
func TestOrder(t *testing.T) {
	r := newRig(t, VirtualTime())
	a, b := r.stream(nonBlocking), r.stream(nonBlocking)
	begin, ofA, ofB := r.event(0), r.event(0), r.event(0)
	r.record(begin, a)
	r.complete(begin)
	r.work(a, 10*time.Millisecond)
	r.record(ofA, a)
	r.work(b, 4*time.Millisecond)
	r.ok(r.tab.StreamWaitEvent(driver.At{}, b, ofA, 0))
	r.work(b, 5*time.Millisecond)
	r.record(ofB, b)
	for _, c := range []struct {
		by   time.Duration
		a, b bool
	}{{0, false, false}, {9 * time.Millisecond, false, false}, {time.Millisecond, true, false}, {4999 * time.Microsecond, true, false}, {time.Microsecond, true, true}} {
		r.d.Advance(c.by)
		for e, done := range map[driver.Event]bool{ofA: c.a, ofB: c.b} {
			if done {
				r.complete(e)
			} else {
				r.pending(e)
			}
		}
	}
	ms, res := r.tab.EventElapsedTime(driver.At{}, begin, ofB)
	if ms != 15 || res != ok {
		t.Errorf("elapsed %v ms, %v", ms, res)
	}
	if ms, _ := r.tab.EventElapsedTimeV2(driver.At{}, ofB, ofA); ms != -5 {
		t.Errorf("elapsed %v ms, backwards", ms)
	}
	r.want(ok, r.tab.StreamQuery(driver.At{}, b))
}

// TestLegacyBarrier checks that the legacy default stream and blocking streams wait for each other,
// and no other streams. An event is a barrier, too.
func TestLegacyBarrier(t *testing.T) {
	r := newRig(t, VirtualTime())
	blocking, free := r.stream(0), r.stream(nonBlocking)
	legacy, after, unrelated := r.event(0), r.event(0), r.event(0)
	r.work(blocking, time.Millisecond)
	r.record(legacy, driver.CU_STREAM_LEGACY)
	r.record(unrelated, free)
	other := r.stream(0)
	r.record(after, other)
	r.complete(unrelated)
	r.pending(legacy)
	r.pending(after)
	r.d.Advance(time.Millisecond)
	r.complete(legacy)
	r.complete(after)

	// A destroyed stream still delays the legacy stream.
	r.work(blocking, time.Millisecond)
	r.ok(r.tab.StreamDestroy(driver.At{}, blocking))
	r.record(legacy, driver.CU_STREAM_LEGACY)
	r.pending(legacy)
	r.d.Advance(time.Millisecond)
	r.complete(legacy)
}

// TestHold holds and releases a stream.
func TestHold(t *testing.T) {
	r := newRig(t)
	s := r.stream(nonBlocking)
	e, again := r.event(0), r.event(0)
	r.d.Hold(uintptr(s))
	r.record(e, s)
	r.record(again, s)
	r.pending(e)
	var wg sync.WaitGroup
	wg.Go(func() { r.ok(r.tab.EventSynchronize(driver.At{}, again)) })
	r.d.Release(uintptr(s))
	wg.Wait()
	r.complete(e)
	r.complete(again)
}

// TestRealTime waits for work by the machine's clock.
func TestRealTime(t *testing.T) {
	r := newRig(t)
	s := r.stream(nonBlocking)
	start, stop := r.event(0), r.event(0)
	r.record(start, s)
	r.work(s, 3*time.Millisecond)
	r.record(stop, s)
	r.ok(r.tab.EventSynchronize(driver.At{}, stop))
	if ms, res := r.tab.EventElapsedTime(driver.At{}, start, stop); ms < 3 || res != ok {
		t.Errorf("elapsed %v ms, %v", ms, res)
	}
	r.work(s, time.Millisecond)
	r.ok(r.tab.CtxSynchronize(r.in))
	r.want(ok, r.tab.StreamQuery(driver.At{}, s))
}

// TestMisuse uses handles of destroyed objects and of other kinds of objects. NVIDIA's driver finds no context, or
// crashes.
func TestMisuse(t *testing.T) {
	r := newRig(t)
	s, e := r.stream(0), r.event(0)
	r.ok(r.tab.EventDestroy(driver.At{}, e))
	r.want(driver.ResultContextIsDestroyed, r.tab.EventDestroy(driver.At{}, e))
	r.want(driver.ResultContextIsDestroyed, r.tab.EventQuery(driver.At{}, e))
	r.want(driver.ResultInvalidHandle, r.tab.EventQuery(driver.At{}, 4711))
	r.want(driver.ResultContextIsDestroyed, r.tab.EventQuery(driver.At{}, driver.Event(s)))
	late := r.event(0)
	r.ok(r.tab.StreamDestroy(driver.At{}, s))
	r.want(driver.ResultContextIsDestroyed, r.tab.EventRecord(driver.At{}, late, s))
	r.ok(r.tab.DevicePrimaryCtxRelease(driver.At{}, 0))
	r.want(driver.ResultContextIsDestroyed, r.tab.EventQuery(driver.At{}, late))
	var ops []string
	for _, m := range r.d.Misuses() {
		ops = append(ops, m.Op+": "+m.What)
		if m.What == "the event was destroyed" && m.Destroyed == "" {
			t.Errorf("the stack of the destruction is missing: %v", m)
		}
	}
	want := []string{
		"cuEventDestroy: the event was destroyed", "cuEventQuery: the event was destroyed", "cuEventQuery: this is no handle",
		"cuEventQuery: this handle is of kind stream, not event", "cuEventRecord: the stream was destroyed", "cuEventQuery: the event's context was destroyed",
	}
	if len(ops) != len(want) {
		t.Fatalf("misuses %q", ops)
	}
	for i := range want {
		if ops[i] != want[i] {
			t.Errorf("misuse %d: %q, want %q", i, ops[i], want[i])
		}
	}
}

// TestRecordAllocates checks that a record on an idle stream, and a query, allocate nothing. Tests
// of users make these calls most often.
func TestRecordAllocates(t *testing.T) {
	r := newRig(t)
	s, e := r.stream(nonBlocking), r.event(driver.CU_EVENT_DISABLE_TIMING)
	if n := testing.AllocsPerRun(100, func() {
		r.tab.EventRecord(driver.At{}, e, s)
		r.tab.EventQuery(driver.At{}, e)
	}); n != 0 {
		t.Errorf("a record and a query allocate %v times", n)
	}
}

// TestCallsAllocate counts the allocations of calls that tests of users make often. Those in a context push it onto the
// stack of a thread that only the call has.
func TestCallsAllocate(t *testing.T) {
	r := newRig(t)
	s := r.stream(nonBlocking)
	image := []byte(header + ".entry e(.param .u64 a, .param .u32 b) { .reg .b32 %r; mov.u32 %r, %tid.x; ret; }")
	m, res := r.tab.ModuleLoadData(r.in, image)
	r.ok(res)
	f, res := r.tab.ModuleGetFunction(r.in, m, "e")
	r.ok(res)
	args := params(uint64(1), uint32(2))
	for name, tt := range map[string]struct {
		most float64
		call func()
	}{
		"an event": {3, func() {
			e, res := r.tab.EventCreate(r.in, 0)
			r.ok(res)
			r.ok(r.tab.EventDestroy(r.in, e))
		}},
		"a launch, and a wait": {11, func() {
			r.ok(r.tab.LaunchKernel(driver.At{}, f, 1, 1, 1, 32, 1, 1, 0, s, args))
			r.ok(r.tab.StreamSynchronize(driver.At{}, s))
		}},
	} {
		if n := testing.AllocsPerRun(200, tt.call); n > tt.most && !raceEnabled { // with it, a sync.Pool forgets at random
			t.Errorf("%s: %v allocations, want %v at most", name, n, tt.most)
		}
	}
}

// BenchmarkRecordQuery measures a record and a query, the most frequent calls of tests.
func BenchmarkRecordQuery(b *testing.B) {
	r := newRig(b)
	s, e := r.stream(nonBlocking), r.event(driver.CU_EVENT_DISABLE_TIMING)
	for b.Loop() {
		r.tab.EventRecord(driver.At{}, e, s)
		if r.tab.EventQuery(driver.At{}, e) != ok {
			b.Fatal("the event is pending")
		}
	}
}

// TestDeviceAttribute sets an attribute of all devices.
func TestDeviceAttribute(t *testing.T) {
	const which = driver.CU_DEVICE_ATTRIBUTE_WARP_SIZE
	r := newRig(t, Devices(2), DeviceAttribute(which, 64), DeviceAttribute(driver.CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 0))
	for dev := range driver.Device(2) {
		for a, want := range map[int32]int32{which: 64, driver.CU_DEVICE_ATTRIBUTE_ECC_ENABLED: 0, driver.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: 1024} {
			if got, res := r.tab.DeviceGetAttribute(driver.At{}, a, dev); got != want || res != ok {
				t.Errorf("attribute %d of device %d is %d, %v", a, dev, got, res)
			}
		}
	}
}
