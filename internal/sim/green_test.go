package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
)

// smCounts returns the sizes of several shares.
func smCounts(rs ...driver.DevResource) (n []uint32) {
	for i := range rs {
		n = append(n, rs[i].SMCount())
	}
	return n
}

// TestShares splits a device's multiprocessors, and creates descriptors of the parts.
func TestShares(t *testing.T) {
	d := New(Devices(2))
	const sm = driver.CU_DEV_RESOURCE_TYPE_SM
	if _, r := d.DeviceGetDevResource(nil, 0, sm); r != driver.ResultNotInitialized {
		t.Errorf("before cuInit: %v", r)
	}
	d.Init(nil, 0)
	want := func(what string, want, got driver.Result) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	all, r := d.DeviceGetDevResource(nil, 0, sm)
	want("all", ok, r)
	far, r := d.DeviceGetDevResource(nil, 1, sm)
	want("another device's", ok, r)
	_, r = d.DeviceGetDevResource(nil, 2, sm)
	want("no device's", driver.ResultInvalidDevice, r)
	_, r = d.DeviceGetDevResource(nil, 0, 2)
	want("of another type", driver.ResultInvalidResourceType, r)
	if all.SMCount() != 132 {
		t.Fatalf("there are %d multiprocessors", all.SMCount())
	}

	multiprocessors := driver.DevSmResource{SmCount: 132, MinSmPartitionSize: 8, SmCoscheduledAlignment: 8}
	if got, _ := all.SM(); got != multiprocessors {
		t.Errorf("the device has %+v, want %+v", got, multiprocessors)
	}

	for _, c := range []struct {
		room, least, flags uint32
		n, size, rest      uint32
	}{
		{16, 0, 0, 16, 8, 4},
		{16, 8, 0, 16, 8, 4},
		{16, 9, 0, 8, 16, 4},
		{2, 9, 0, 2, 16, 100},
		{99, 60, 0, 2, 64, 4},
		{99, 66, 0, 1, 72, 60},
		{99, 66, 1, 2, 66, 0},
		{99, 3, 1, 33, 4, 0},
	} {
		n, rest, r := d.DevSmResourceSplitByCount(nil, nil, all, c.flags, c.least)
		want("how many", ok, r)
		if n < c.n || rest.SMCount() != 0 {
			t.Errorf("%+v: there can be %d, and %d are left", c, n, rest.SMCount())
		}
		parts := make([]driver.DevResource, c.room)
		n, rest, r = d.DevSmResourceSplitByCount(nil, parts, all, c.flags, c.least)
		want("a split", ok, r)
		if n != c.n || rest.SMCount() != c.rest {
			t.Errorf("%+v: %d parts %v, and %d are left", c, n, smCounts(parts...), rest.SMCount())
		}
		for i, p := range append(parts, rest) {
			if got, is := p.SM(); is && (got.MinSmPartitionSize != 0 || got.SmCoscheduledAlignment != 0) {
				t.Errorf("%+v: part %d says %+v, what only a whole device says", c, i, got)
			}
		}
		for i, p := range parts {
			if size := p.SMCount(); i < int(n) && size != c.size || i >= int(n) && size != 0 {
				t.Errorf("%+v: part %d has %d", c, i, size)
			}
		}
	}
	for _, c := range []struct {
		what         string
		input        driver.DevResource
		flags, least uint32
		want         driver.Result
	}{
		{"nothing", driver.DevResource{}, 0, 8, driver.ResultInvalidResourceType},
		{"too many", all, 0, 133, driver.ResultInvalidResourceConfiguration},
		{"more than fit the steps", all, 0, 131, ok},
		{"large clusters", all, 2, 8, ok},
		{"large clusters, and any multiprocessors", all, 3, 8, driver.ResultInvalidValue},
	} {
		_, _, r := d.DevSmResourceSplitByCount(nil, nil, c.input, c.flags, c.least)
		want(c.what, c.want, r)
	}

	parts, others := make([]driver.DevResource, 2), make([]driver.DevResource, 2)
	_, rest, r := d.DevSmResourceSplitByCount(nil, parts, all, 0, 16)
	want("a split", ok, r)
	_, _, r = d.DevSmResourceSplitByCount(nil, others, all, 0, 16)
	want("another split", ok, r)
	_, _, r = d.DevSmResourceSplitByCount(nil, nil, parts[0], 0, 8)
	want("a part of it", driver.ResultInvalidResourceConfiguration, r)
	for _, c := range []struct {
		what string
		of   []driver.DevResource
		want driver.Result
	}{
		{"nothing", nil, driver.ResultInvalidValue},
		{"not multiprocessors", []driver.DevResource{{}}, driver.ResultInvalidResourceType},
		{"all", []driver.DevResource{all}, ok},
		{"parts of a split", []driver.DevResource{parts[0], rest, parts[1]}, ok},
		{"parts of two splits", []driver.DevResource{parts[0], others[1]}, ok},
		{"two devices", []driver.DevResource{all, far}, driver.ResultInvalidResourceConfiguration},
	} {
		_, r := d.DevResourceGenerateDesc(nil, c.of)
		want("a descriptor of "+c.what, c.want, r)
	}

	desc, r := d.DevResourceGenerateDesc(nil, parts[:1])
	want("a descriptor", ok, r)
	_, r = d.GreenCtxCreate(nil, desc, 0, 0)
	want("without its flag", driver.ResultInvalidValue, r)
	unlimited, r := d.GreenCtxCreate(nil, 0, 0, driver.CU_GREEN_CTX_DEFAULT_STREAM)
	want("without a descriptor", ok, r)
	whole, r := d.GreenCtxGetDevResource(nil, unlimited, sm)
	want("its share", ok, r)
	if n := whole.SMCount(); n != uint32(profile.Default().Multiprocessors) {
		t.Errorf("without a descriptor the green context has %d multiprocessors", n)
	}
	want("destroy", ok, d.GreenCtxDestroy(nil, unlimited))
	_, _, r = d.DevSmResourceSplitByCount(nil, others, whole, 0, 16)
	want("a split of a green context's", ok, r)
	_, r = d.DevResourceGenerateDesc(nil, []driver.DevResource{others[0], parts[0]})
	want("a descriptor of parts of a green context and of the device", driver.ResultInvalidResourceConfiguration, r)
	_, r = d.GreenCtxCreate(nil, desc, 1, driver.CU_GREEN_CTX_DEFAULT_STREAM)
	want("of another device", driver.ResultInvalidDevice, r)
	g, r := d.GreenCtxCreate(nil, desc, 0, driver.CU_GREEN_CTX_DEFAULT_STREAM)
	want("a green context", ok, r)
	its, r := d.GreenCtxGetDevResource(nil, g, sm)
	want("its share", ok, r)
	if its.SMCount() != 16 {
		t.Errorf("it has %d multiprocessors", its.SMCount())
	}
	_, _, r = d.DevSmResourceSplitByCount(nil, nil, its, 0, 8)
	want("a split of its share", ok, r)
	_, r = d.GreenCtxGetDevResource(nil, g, 1000)
	want("its share of something else", driver.ResultInvalidResourceType, r)
	if n := d.Census(); n["green context"] != 1 || n["context"] != 1 {
		t.Errorf("alive are %v", n)
	}
	want("the primary context, whose only user is the green context", ok, d.GreenCtxDestroy(nil, g))
	if n := d.Census(); len(n) != 0 {
		t.Errorf("alive are %v", n)
	}
	want("destroyed", driver.ResultContextIsDestroyed, d.GreenCtxDestroy(nil, g))
	want("none", driver.ResultInvalidContext, d.GreenCtxDestroy(nil, 0))
	if n := len(d.Misuses()); n != 1 {
		t.Errorf("misuses: %v", d.Misuses())
	}
}

// TestSharesOfH200 splits multiprocessors as an H200 does (driver 580, 2026-11-28).
func TestSharesOfH200(t *testing.T) {
	const bad = driver.ResultInvalidResourceConfiguration
	r := newLab(t)
	all, res := r.DeviceGetDevResource(r.th, 0, driver.CU_DEV_RESOURCE_TYPE_SM)
	r.must(res)
	for _, c := range []struct {
		room         int
		least, flags uint32
		want         driver.Result
		sizes        []uint32 // of the parts, and of what is left
	}{
		{1, 0, 0, ok, []uint32{8, 124}},
		{2, 8, 0, ok, []uint32{8, 8, 116}},
		{2, 16, 0, ok, []uint32{16, 16, 100}},
		{4, 32, 0, ok, []uint32{32, 32, 32, 32, 4}},
		{1, 1, 1, ok, []uint32{2, 130}},
		{2, 1, 1, ok, []uint32{2, 2, 128}},
		{3, 16, 1, ok, []uint32{16, 16, 16, 84}},
		{1, 1, 4, ok, []uint32{8, 124}}, // no such flag is defined
		{2, 16, 4, ok, []uint32{16, 16, 100}},
		{4, 1000, 0, bad, []uint32{0, 0, 0, 0, 0}},
		{3, 1000, 1, bad, []uint32{0, 0, 0, 0}},
		{2, 1000, 4, bad, []uint32{0, 0, 0}},
	} {
		parts := make([]driver.DevResource, c.room)
		n, rest, res := r.DevSmResourceSplitByCount(r.th, parts, all, c.flags, c.least)
		sizes := smCounts(append(parts, rest)...)
		if res != c.want || int(n) != c.room || !slices.Equal(sizes, c.sizes) {
			t.Errorf("%d parts of %d, flags %d: %v, %d parts, sizes %d, want %v, %d", c.room, c.least, c.flags, res, n,
				sizes, c.want, c.sizes)
		}
	}

	parts := make([]driver.DevResource, 3)
	_, _, res = r.DevSmResourceSplitByCount(r.th, parts, all, 0, 16)
	r.must(res)
	for _, of := range [][]driver.DevResource{{parts[0], parts[0]}, append(parts, parts[0])} {
		_, res := r.DevResourceGenerateDesc(r.th, of)
		r.want("a descriptor with a part that is there twice", ok, res)
	}
	desc, res := r.DevResourceGenerateDesc(r.th, parts[:1])
	r.must(res)
	for _, c := range []struct {
		dev   driver.Device
		flags uint32
		want  driver.Result
	}{
		{0, 0, driver.ResultInvalidValue},
		{0, 2, driver.ResultInvalidValue},
		{99, 1, driver.ResultInvalidDevice},
		{99, 2, driver.ResultInvalidDevice},
	} {
		_, res := r.GreenCtxCreate(r.th, desc, c.dev, c.flags)
		r.want("a green context", c.want, res)
	}
}

// greenLab is a lab with a green context.
type greenLab struct {
	*Driver
	t    *testing.T
	th   *driver.Thread
	ctx  driver.Context
	g    driver.GreenCtx
	s    driver.Stream // a stream of the green context
	rest driver.Stream // a stream of the primary context
}

func newGreenLab(t *testing.T) *greenLab {
	l := &greenLab{Driver: New(), t: t, th: new(driver.Thread)}
	l.Init(nil, 0)
	l.ctx, _ = l.DevicePrimaryCtxRetain(nil, 0)
	l.CtxSetCurrent(l.th, l.ctx)
	all, _ := l.DeviceGetDevResource(nil, 0, driver.CU_DEV_RESOURCE_TYPE_SM)
	desc, _ := l.DevResourceGenerateDesc(nil, []driver.DevResource{all})
	var r driver.Result
	l.g, r = l.GreenCtxCreate(nil, desc, 0, driver.CU_GREEN_CTX_DEFAULT_STREAM)
	l.want("a green context", ok, r)
	l.s, r = l.GreenCtxStreamCreate(nil, l.g, driver.CU_STREAM_NON_BLOCKING, -1)
	l.want("its stream", ok, r)
	l.rest, _ = l.StreamCreate(l.th, driver.CU_STREAM_NON_BLOCKING)
	return l
}

func (l *greenLab) want(what string, want, got driver.Result) {
	l.t.Helper()
	if want != got {
		l.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (l *greenLab) event() driver.Event {
	e, r := l.EventCreate(l.th, driver.CU_EVENT_DISABLE_TIMING)
	l.want("an event", ok, r)
	return e
}

// behind returns an event that is recorded at the end of a stream's work.
func (l *greenLab) behind(s driver.Stream) driver.Event {
	e := l.event()
	l.want("cuEventRecord", ok, l.EventRecord(l.th, e, s))
	return e
}

// TestGreenStreams records and waits for a whole green context. Both affect its streams only,
// including destroyed streams, and a wait also affects later ones.
func TestGreenStreams(t *testing.T) {
	l := newGreenLab(t)
	if p, r := l.StreamGetPriority(nil, l.s); p != -1 || r != ok {
		t.Errorf("priority %d, %v", p, r)
	}
	c, r := l.StreamGetCtx(nil, l.s)
	l.want("cuStreamGetCtx", ok, r)
	th := new(driver.Thread)
	l.want("cuCtxPushCurrent", ok, l.CtxPushCurrent(th, c))
	if at, r := l.CtxGetCurrent(th); at != c || r != ok || driver.GreenCtx(c) != l.g {
		t.Errorf("%#x is current (%v), the stream's context is %#x, and the green one %#x", at, r, c, l.g)
	}
	if at, r := l.CtxPopCurrent(th); at != c || r != ok {
		t.Errorf("popped %#x (%v), not %#x", at, r, c)
	}
	for _, flags := range []uint32{0, 2, 3} {
		_, r := l.GreenCtxStreamCreate(nil, l.g, flags, 0)
		l.want("a stream with other flags", driver.ResultInvalidValue, r)
	}

	// A record of the green context is for its own streams only, a record of the primary context
	// for all streams.
	e, all := l.event(), l.event()
	l.Hold(uintptr(l.rest))
	l.behind(l.rest)
	l.want("cuGreenCtxRecordEvent", ok, l.GreenCtxRecordEvent(nil, l.g, e))
	l.want("during work on a stream of the primary context", ok, l.EventQuery(nil, e))
	l.Release(uintptr(l.rest))
	l.Hold(uintptr(l.s))
	l.behind(l.s)
	l.want("cuGreenCtxRecordEvent", ok, l.GreenCtxRecordEvent(nil, l.g, e))
	l.want("cuCtxRecordEvent", ok, l.CtxRecordEvent(nil, l.ctx, all))
	l.want("behind its stream", driver.ResultNotReady, l.EventQuery(nil, e))
	l.want("all, behind its stream", driver.ResultNotReady, l.EventQuery(nil, all))
	l.Release(uintptr(l.s))
	l.want("done", ok, l.EventQuery(nil, e))
	l.want("all done", ok, l.EventQuery(nil, all))

	// A wait delays the green context's streams, including later ones.
	l.Hold(uintptr(l.rest))
	first := l.behind(l.rest)
	l.want("cuGreenCtxWaitEvent", ok, l.GreenCtxWaitEvent(nil, l.g, first))
	late, r := l.GreenCtxStreamCreate(nil, l.g, driver.CU_STREAM_NON_BLOCKING, 0)
	l.want("another stream", ok, r)
	other, _ := l.StreamCreate(l.th, driver.CU_STREAM_NON_BLOCKING)
	waits, later, free := l.behind(l.s), l.behind(late), l.behind(other)
	l.want("its stream", driver.ResultNotReady, l.EventQuery(nil, waits))
	l.want("its later stream", driver.ResultNotReady, l.EventQuery(nil, later))
	l.want("the primary context's", ok, l.EventQuery(nil, free))
	l.want("of a stream that is destroyed", ok, l.StreamDestroy(nil, late))
	l.want("cuGreenCtxRecordEvent", ok, l.GreenCtxRecordEvent(nil, l.g, e))
	l.want("after pending work", driver.ResultNotReady, l.EventQuery(nil, e))
	l.Release(uintptr(l.rest))
	for _, e := range []driver.Event{waits, later, e} {
		l.want("released", ok, l.EventQuery(nil, e))
	}

	// Captures of its streams make the calls fail, other captures do not.
	l.StreamBeginCapture(l.th, l.rest, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
	l.want("during a capture of the primary context", ok, l.GreenCtxRecordEvent(l.th, l.g, e))
	l.want("during a capture of the primary context", ok, l.GreenCtxWaitEvent(l.th, l.g, e))
	g, r := l.StreamEndCapture(l.th, l.rest)
	l.want("that capture", ok, r)
	l.GraphDestroy(l.th, g)
	for _, call := range []func(*driver.Thread, driver.GreenCtx, driver.Event) driver.Result{l.GreenCtxRecordEvent, l.GreenCtxWaitEvent} {
		l.StreamBeginCapture(l.th, l.s, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
		l.want("while its stream is captured", driver.ResultStreamCaptureUnsupported, call(l.th, l.g, e))
		_, r = l.StreamEndCapture(l.th, l.s)
		l.want("the capture", driver.ResultStreamCaptureInvalidated, r)
	}
	l.StreamBeginCapture(l.th, l.rest, driver.CU_STREAM_CAPTURE_MODE_RELAXED)
	inside := l.behind(l.rest)
	l.want("a wait for an event in a capture", driver.ResultCapturedEvent, l.GreenCtxWaitEvent(l.th, l.g, inside))
	_, r = l.StreamEndCapture(l.th, l.rest)
	l.want("its capture", driver.ResultStreamCaptureInvalidated, r)
	l.want("a wait for an invalid event", driver.ResultInvalidValue, l.GreenCtxWaitEvent(l.th, l.g, inside))

	beside, _ := l.CtxCreate(nil, nil, 0, 0)
	l.CtxPushCurrent(l.th, beside)
	foreign := l.event()
	l.CtxPopCurrent(l.th)
	l.want("another context's event", driver.ResultInvalidHandle, l.GreenCtxRecordEvent(nil, l.g, foreign))
	l.want("a wait for that", ok, l.GreenCtxWaitEvent(nil, l.g, foreign))
	l.want("no event", driver.ResultInvalidHandle, l.GreenCtxRecordEvent(nil, l.g, 0))
	l.want("no green context", driver.ResultInvalidContext, l.GreenCtxWaitEvent(nil, 0, e))

	// Its destruction waits for its streams, which then can only be destroyed.
	last := l.behind(l.s)
	l.want("cuGreenCtxDestroy", ok, l.GreenCtxDestroy(nil, l.g))
	l.want("what was on its stream", ok, l.EventQuery(nil, last))
	l.want("its stream", driver.ResultContextIsDestroyed, l.StreamQuery(nil, l.s))
	l.want("the destruction of its stream", ok, l.StreamDestroy(nil, l.s))
	l.want("the primary context's stream", ok, l.StreamQuery(nil, l.rest))
	if n := len(l.Misuses()); n != 1 {
		t.Errorf("misuses: %v", l.Misuses())
	}
}

// TestGreenDestroyWaits destroys a green context whose stream is held, and its primary context.
func TestGreenDestroyWaits(t *testing.T) {
	l := newGreenLab(t)
	l.Hold(uintptr(l.s))
	e := l.behind(l.s)
	done := make(chan driver.Result)
	go func() { done <- l.GreenCtxDestroy(nil, l.g) }()
	for begun := false; !begun; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		object, _ := l.objects.find(uintptr(l.g))
		begun = object.(*greenContext).destroyed
		l.mu.Unlock()
	}
	l.want("destroyed twice", driver.ResultInvalidContext, l.GreenCtxDestroy(nil, l.g))
	l.want("its stream is held", driver.ResultNotReady, l.EventQuery(nil, e))
	l.Release(uintptr(l.s))
	l.want("cuGreenCtxDestroy", ok, <-done)
	l.StreamDestroy(nil, l.s)

	l = newGreenLab(t)
	l.StreamDestroy(nil, l.s)
	l.StreamDestroy(nil, l.rest)
	l.want("the primary context", ok, l.DevicePrimaryCtxRelease(nil, 0))
	if n := l.Census()["context"]; n != 1 {
		t.Error("the green context has not kept its primary one")
	}
	l.want("cuGreenCtxDestroy", ok, l.GreenCtxDestroy(nil, l.g))
	if n := l.Census(); len(n) != 0 {
		t.Errorf("alive are %v", n)
	}

	l = newGreenLab(t)
	l.Poison(int(driver.ResultIllegalAddress))
	l.want("after an error", driver.ResultIllegalAddress, l.GreenCtxRecordEvent(nil, l.g, 0))
	l.GreenCtxDestroy(nil, l.g)
	if n := l.Census()["green context"]; n != 0 {
		t.Errorf("%d green contexts are alive", n)
	}
}

// TestWorkQueueConfig makes descriptors with configurations of work queues.
func TestWorkQueueConfig(t *testing.T) {
	d, old := New(Version(13010)), New(Version(13000))
	d.Init(nil, 0)
	old.Init(nil, 0)
	all, r := d.DeviceGetDevResource(nil, 0, driver.CU_DEV_RESOURCE_TYPE_SM)
	if r != ok {
		t.Fatal(r)
	}
	queues, r := d.DeviceGetDevResource(nil, 0, driver.CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG)
	if r != ok {
		t.Fatal(r)
	}
	far, none := queues, queues
	far.SetWorkqueueConfig(driver.DevWorkqueueConfigResource{Device: 1, WqConcurrencyLimit: 1})
	none.SetWorkqueueConfig(driver.DevWorkqueueConfigResource{})
	for _, c := range []struct {
		what string
		of   []driver.DevResource
		want driver.Result
	}{
		{"multiprocessors and queues", []driver.DevResource{all, queues}, ok},
		{"queues and multiprocessors", []driver.DevResource{queues, all}, ok},
		{"only queues", []driver.DevResource{queues}, driver.ResultInvalidResourceConfiguration},
		{"queues twice", []driver.DevResource{all, queues, queues}, driver.ResultInvalidResourceConfiguration},
		{"no queues", []driver.DevResource{all, none}, driver.ResultInvalidResourceConfiguration},
		{"queues of another device", []driver.DevResource{all, far}, driver.ResultInvalidResourceConfiguration},
	} {
		if _, r := d.DevResourceGenerateDesc(nil, c.of); r != c.want {
			t.Errorf("%s: %v, want %v", c.what, r, c.want)
		}
	}
	_, r = old.DeviceGetDevResource(nil, 0, driver.CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG)
	if r != driver.ResultInvalidResourceType {
		t.Errorf("before CUDA 13.1: %v", r)
	}
	if _, r := old.DevResourceGenerateDesc(nil, []driver.DevResource{all, queues}); r != driver.ResultInvalidResourceType {
		t.Errorf("a descriptor before CUDA 13.1: %v", r)
	}
}

// TestResultsOfVersions checks that a driver names no result that is newer than it.
func TestResultsOfVersions(t *testing.T) {
	for res, since := range map[driver.Result]int{
		driver.ResultInvalidValue: 11000, driver.ResultStreamDetached: 13010, driver.ResultGraphRecaptureFailure: 13030,
		driver.ResultMulticastResourceFull: 13040, driver.ResultInsufficientLoaderVersion: 13040,
		driver.ResultFabricNotReady: 13040,
	} {
		for _, v := range []int{11000, 13000, 13010, 13020, 13030, 13040} {
			d := New(Version(v))
			want := driver.ResultInvalidValue
			if v >= since {
				want = ok
			}
			if _, r := d.GetErrorName(nil, res); r != want {
				t.Errorf("the name of %v on CUDA %v: %v, want %v", res, driver.Version(v), r, want)
			}
			if _, r := d.GetErrorString(nil, res); r != want {
				t.Errorf("the text of %v on CUDA %v: %v, want %v", res, driver.Version(v), r, want)
			}
		}
	}
}

// TestPrimaryOfGreen resets and releases a primary context while a green context uses it. The results are those of an
// H200.
func TestPrimaryOfGreen(t *testing.T) {
	r := newLab(t)
	g, res := r.GreenCtxCreate(nil, 0, 0, driver.CU_GREEN_CTX_DEFAULT_STREAM)
	r.must(res)
	r.want("reset", driver.ResultNotPermitted, r.DevicePrimaryCtxReset(nil, 0))
	r.must(r.DevicePrimaryCtxRelease(nil, 0))
	r.want("a release of what only the green context uses", driver.ResultNotPermitted, r.DevicePrimaryCtxRelease(nil, 0))
	_, active, res := r.DevicePrimaryCtxGetState(nil, 0)
	if r.must(res); active != 1 {
		t.Error("the primary context is gone")
	}
	r.must(r.GreenCtxDestroy(nil, g))
	r.want("a release without a use", driver.ResultInvalidContext, r.DevicePrimaryCtxRelease(nil, 0))
	_, res = r.DevicePrimaryCtxRetain(nil, 0)
	r.must(res)
	r.must(r.DevicePrimaryCtxReset(nil, 0))
}
