package cu

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// racyCaptures is a software driver that notices what crashes driver 580: a call that is checked against captures,
// while one of these captures begins or ends.
type racyCaptures struct {
	driver.Software
	// What is under way: checked counts the calls that are checked against all captures of a context, and those that are
	// checked against captures of blocking streams; changing counts captures that begin or end, of any, or of
	// blocking streams.
	checked, changing [2]atomic.Int32
	blocking          sync.Map // driver.Stream -> struct{}
	met, global       atomic.Int32
	checks, changes   atomic.Int32
}

const (
	anyStream = iota
	blockingStream
)

func (d *racyCaptures) check(kind int) func() {
	d.checks.Add(1)
	d.checked[kind].Add(1)
	if d.changing[kind].Load() != 0 {
		d.met.Add(1)
	}
	runtime.Gosched()
	return func() { d.checked[kind].Add(-1) }
}

func (d *racyCaptures) checkLegacy(s driver.Stream) func() {
	if s != driver.CU_STREAM_LEGACY {
		return func() {}
	}
	return d.check(blockingStream)
}

func (d *racyCaptures) change(s driver.Stream) func() {
	d.changes.Add(1)
	kinds := []int{anyStream}
	if _, blocking := d.blocking.Load(s); blocking {
		kinds = append(kinds, blockingStream)
	}
	for _, k := range kinds {
		d.changing[k].Add(1)
		if d.checked[k].Load() != 0 {
			d.met.Add(1)
		}
	}
	runtime.Gosched()
	return func() {
		for _, k := range kinds {
			d.changing[k].Add(-1)
		}
	}
}

func (d *racyCaptures) StreamCreate(th *driver.Thread, flags uint32) (driver.Stream, driver.Result) {
	s, res := d.Software.StreamCreate(th, flags)
	if flags == uint32(StreamDefault) {
		d.blocking.Store(s, struct{}{})
	}
	return s, res
}

func (d *racyCaptures) StreamBeginCapture(th *driver.Thread, s driver.Stream, mode int32) driver.Result {
	if mode == driver.CU_STREAM_CAPTURE_MODE_GLOBAL {
		d.global.Add(1)
	}
	defer d.change(s)()
	return d.Software.StreamBeginCapture(th, s, mode)
}

func (d *racyCaptures) StreamBeginCaptureToGraph(th *driver.Thread, s driver.Stream, g driver.Graph, deps []driver.GraphNode, mode int32) driver.Result {
	if mode == driver.CU_STREAM_CAPTURE_MODE_GLOBAL {
		d.global.Add(1)
	}
	defer d.change(s)()
	return d.Software.StreamBeginCaptureToGraph(th, s, g, deps, mode)
}

func (d *racyCaptures) StreamEndCapture(th *driver.Thread, s driver.Stream) (driver.Graph, driver.Result) {
	defer d.change(s)()
	return d.Software.StreamEndCapture(th, s)
}

func (d *racyCaptures) CtxSynchronize(th *driver.Thread) driver.Result {
	defer d.check(anyStream)()
	return d.Software.CtxSynchronize(th)
}

func (d *racyCaptures) CtxRecordEvent(th *driver.Thread, ctx driver.Context, e driver.Event) driver.Result {
	defer d.check(anyStream)()
	return d.Software.CtxRecordEvent(th, ctx, e)
}

func (d *racyCaptures) CtxWaitEvent(th *driver.Thread, ctx driver.Context, e driver.Event) driver.Result {
	defer d.check(anyStream)()
	return d.Software.CtxWaitEvent(th, ctx, e)
}

func (d *racyCaptures) GreenCtxRecordEvent(th *driver.Thread, g driver.GreenCtx, e driver.Event) driver.Result {
	defer d.check(anyStream)()
	return d.Software.GreenCtxRecordEvent(th, g, e)
}

func (d *racyCaptures) GreenCtxWaitEvent(th *driver.Thread, g driver.GreenCtx, e driver.Event) driver.Result {
	defer d.check(anyStream)()
	return d.Software.GreenCtxWaitEvent(th, g, e)
}

func (d *racyCaptures) EventRecord(th *driver.Thread, e driver.Event, s driver.Stream) driver.Result {
	defer d.checkLegacy(s)()
	return d.Software.EventRecord(th, e, s)
}

func (d *racyCaptures) EventRecordWithFlags(th *driver.Thread, e driver.Event, s driver.Stream, flags uint32) driver.Result {
	defer d.checkLegacy(s)()
	return d.Software.EventRecordWithFlags(th, e, s, flags)
}

func (d *racyCaptures) StreamWaitEvent(th *driver.Thread, s driver.Stream, e driver.Event, flags uint32) driver.Result {
	defer d.checkLegacy(s)()
	return d.Software.StreamWaitEvent(th, s, e, flags)
}

func (d *racyCaptures) StreamQuery(th *driver.Thread, s driver.Stream) driver.Result {
	defer d.checkLegacy(s)()
	return d.Software.StreamQuery(th, s)
}

func (d *racyCaptures) StreamSynchronize(th *driver.Thread, s driver.Stream) driver.Result {
	defer d.checkLegacy(s)()
	return d.Software.StreamSynchronize(th, s)
}

func (d *racyCaptures) StreamGetFlags(th *driver.Thread, s driver.Stream) (uint32, driver.Result) {
	defer d.checkLegacy(s)()
	return d.Software.StreamGetFlags(th, s)
}

func (d *racyCaptures) StreamGetPriority(th *driver.Thread, s driver.Stream) (int32, driver.Result) {
	defer d.checkLegacy(s)()
	return d.Software.StreamGetPriority(th, s)
}

func (d *racyCaptures) StreamGetId(th *driver.Thread, s driver.Stream) (uint64, driver.Result) {
	defer d.checkLegacy(s)()
	return d.Software.StreamGetId(th, s)
}

func (d *racyCaptures) StreamIsCapturing(th *driver.Thread, s driver.Stream) (int32, driver.Result) {
	defer d.checkLegacy(s)()
	return d.Software.StreamIsCapturing(th, s)
}

func (d *racyCaptures) MemsetD8Async(th *driver.Thread, p driver.DevicePtr, v byte, n uint64, s driver.Stream) driver.Result {
	defer d.checkLegacy(s)()
	return d.Software.MemsetD8Async(th, p, v, n, s)
}

func (d *racyCaptures) StreamWriteValue64(th *driver.Thread, s driver.Stream, p driver.DevicePtr, v uint64, flags uint32) driver.Result {
	defer d.checkLegacy(s)()
	return d.Software.StreamWriteValue64(th, s, p, v, flags)
}

func (d *racyCaptures) LaunchHostFunc(th *driver.Thread, s driver.Stream, f driver.Callback) driver.Result {
	defer d.checkLegacy(s)()
	return d.Software.LaunchHostFunc(th, s, f)
}

// captureRaces are calls that the driver checks against captures, and captures. They are made side by side.
type captureRaces struct {
	gpu    *Context
	legacy *Stream
	other  *Stream // is not captured
	e      *Event
	mem    *DeviceMem
	line   *Timeline
	exec   *GraphExec
}

func newCaptureRaces(t testing.TB, gpu *Context) *captureRaces {
	r := &captureRaces{
		gpu: gpu, legacy: must(gpu.LegacyStream())(t), other: must(gpu.NewStream(StreamNonBlocking))(t),
		e: must(gpu.NewEvent(EventDisableTiming))(t), mem: must(gpu.Alloc(64))(t), line: must(gpu.NewTimeline(0))(t),
	}
	g := must(r.other.Capture(CaptureRelaxed, func() error { return r.other.Memset(r.mem, 1) }))(t)
	r.exec = must(g.Instantiate())(t)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *captureRaces) close(t testing.TB) {
	err := r.line.Set(1) // unless a stream did
	if errors.Is(err, ResultInvalidValue) {
		err = nil
	}
	if err := errors.Join(err, r.e.Close(), r.mem.Close(), r.line.Close(), r.exec.Close(), r.legacy.Close(), r.other.Close()); err != nil {
		t.Error(err)
	}
}

// calls are made in goroutines of their own.
func (r *captureRaces) calls() map[string]func() error {
	drop := func(_ any, err error) error { return err }
	return map[string]func() error{
		"Context.Synchronize":    r.gpu.Synchronize,
		"Context.RecordEvent":    func() error { return r.gpu.RecordEvent(r.e) },
		"Context.WaitEvent":      func() error { return r.gpu.WaitEvent(r.e) },
		"legacy, record":         func() error { return r.e.Record(r.legacy) },
		"legacy, record, traced": func() error { return r.e.RecordWithFlags(r.legacy, RecordDefault) },
		"legacy, wait":           func() error { return r.legacy.WaitEvent(r.e) },
		"legacy, wait, stream":   func() error { return r.legacy.WaitStream(r.other) },
		"legacy, for a stream":   func() error { return r.other.WaitStream(r.legacy) },
		"legacy, new event": func() error {
			e, err := r.legacy.RecordNew(EventDisableTiming)
			if err == nil {
				err = e.Close()
			}
			return err
		},
		"legacy, query":        func() error { return drop(r.legacy.Query()) },
		"legacy, synchronize":  r.legacy.Synchronize,
		"legacy, flags":        func() error { return drop(r.legacy.Flags()) },
		"legacy, priority":     func() error { return drop(r.legacy.Priority()) },
		"legacy, ID":           func() error { return drop(r.legacy.ID()) },
		"legacy, capture":      func() error { return drop(r.legacy.CaptureInfo()) },
		"legacy, memset":       func() error { return r.legacy.Memset(r.mem, 1) },
		"legacy, signal":       func() error { return r.line.Signal(r.legacy, 1) },
		"legacy, graph":        func() error { return r.exec.Launch(r.legacy) },
		"legacy, host":         func() error { return r.legacy.HostFunc(func() {}) },
		"legacy, marked":       func() error { return drop(r.closeUsed()) },
		"Event.Query":          func() error { return drop(r.e.Query()) },
		"Event.Synchronize":    r.e.Synchronize,
		"Stream.Query":         func() error { return drop(r.other.Query()) },
		"Context.Alloc":        func() error { return r.alloc() },
		"Context.AllocHost":    func() error { return r.allocHost() },
		"Graph.Instantiate":    func() error { return r.instantiate() },
		"capture, blocking":    func() error { return r.capture(StreamDefault, CaptureGlobal) },
		"capture":              func() error { return r.capture(StreamNonBlocking, CaptureGlobal) },
		"capture, relaxed":     func() error { return r.capture(StreamNonBlocking, CaptureRelaxed) },
		"capture of two":       r.captureTwo,
		"capture into a graph": r.captureInto,
	}
}

// closeUsed closes memory that the legacy stream has used. The end of its work is marked for that.
func (r *captureRaces) closeUsed() (_ bool, err error) {
	mem, err := r.gpu.Alloc(64)
	if err != nil {
		return false, err
	}
	return true, errors.Join(r.legacy.Memset(mem, 1), mem.Close())
}

func (r *captureRaces) alloc() error {
	mem, err := r.gpu.Alloc(64)
	if err != nil {
		return err
	}
	return mem.Close()
}

func (r *captureRaces) allocHost() error {
	mem, err := r.gpu.AllocHost(64, 0)
	if err != nil {
		return err
	}
	return mem.Close()
}

func (r *captureRaces) instantiate() error {
	g, err := r.gpu.NewGraph()
	if err != nil {
		return err
	}
	_, err = g.AddMemset(r.mem, 1)
	if err == nil {
		var x *GraphExec
		if x, err = g.Instantiate(); err == nil {
			err = x.Close()
		}
	}
	return errors.Join(err, g.Close())
}

func (r *captureRaces) capture(flags StreamFlags, mode CaptureMode) error {
	s, err := r.gpu.NewStream(flags)
	if err != nil {
		return err
	}
	for range 20 {
		g, e := s.Capture(mode, func() error { return s.Memset(r.mem, 1) })
		if e == nil {
			e = g.Close()
		}
		if err = e; err != nil && !ofCapture(err) {
			break
		}
	}
	return errors.Join(err, s.Close())
}

// captureTwo captures a stream that a blocking one joins.
func (r *captureRaces) captureTwo() error {
	s, err := r.gpu.NewStream(StreamNonBlocking)
	if err != nil {
		return err
	}
	b, err := r.gpu.NewStream(StreamDefault)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	g, err := s.Capture(CaptureThreadLocal, func() error {
		return errors.Join(b.WaitStream(s), b.Memset(r.mem, 1), s.WaitStream(b))
	})
	if err == nil {
		err = g.Close()
	}
	return errors.Join(err, s.Close(), b.Close())
}

func (r *captureRaces) captureInto() error {
	s, err := r.gpu.NewStream(StreamNonBlocking)
	if err != nil {
		return err
	}
	g, err := r.gpu.NewGraph()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	_, err = g.Capture(s, CaptureGlobal, func() error { return s.Memset(r.mem, 1) })
	return errors.Join(err, g.Close(), s.Close())
}

// run makes all the calls side by side, until the time is over. Some are refused, as captures are under way.
func (r *captureRaces) run(t *testing.T, d time.Duration) {
	var wg sync.WaitGroup
	until := time.Now().Add(d)
	for name, call := range r.calls() {
		wg.Go(func() {
			n := 0
			for ; time.Now().Before(until); n++ {
				if err := call(); err != nil && !ofCapture(err) {
					t.Errorf("%s: %v", name, err)
					return
				}
				if strings.HasPrefix(name, "capture") {
					time.Sleep(time.Millisecond) // or the checked calls would hardly ever be made
				}
			}
			if n == 0 {
				t.Errorf("%s was not called", name)
			}
		})
	}
	wg.Wait()
}

// ofCapture reports whether a call was refused as something is being captured, or what it needs belonged to a capture that
// another call has invalidated.
func ofCapture(err error) bool {
	for res := ResultStreamCaptureUnsupported; res <= ResultCapturedEvent; res++ {
		if errors.Is(err, res) {
			return true
		}
	}
	return false
}

// TestCapturesBesideCheckedCalls makes calls that the driver checks against the captures of a context, or against those of
// its blocking streams, while captures begin and end. A driver in C crashes if it meets both at a time: see
// docs/design/captures.md.
func TestCapturesBesideCheckedCalls(t *testing.T) {
	soft := cusim.New()
	sim := &racyCaptures{Software: soft.Software()}
	drv := must(Open(WithSoftware(driver.Provide(sim))))(t)
	gpu := must(must(drv.Device(0))(t).PrimaryContext())(t)
	r := newCaptureRaces(t, gpu)
	r.run(t, 500*time.Millisecond)
	r.close(t)
	if err := errors.Join(gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
	if n := sim.met.Load(); n != 0 {
		t.Errorf("%d times a call that is checked against captures met the beginning or the end of one", n)
	}
	if n := sim.global.Load(); n != 0 {
		t.Errorf("%d captures began in global mode, which the driver checks for calls of all threads", n)
	}
	if checks, changes := sim.checks.Load(), sim.changes.Load(); checks < 50 || changes < 50 {
		t.Errorf("%d calls were checked, and %d captures began or ended", checks, changes)
	}
}

// TestGPUCapturesBesideCheckedCalls does so on a GPU, through two Drivers of one context. Before this package kept these
// calls apart, the process ended with SIGSEGV within a second.
func TestGPUCapturesBesideCheckedCalls(t *testing.T) {
	var wg sync.WaitGroup
	for range 2 {
		r := newCaptureRaces(t, gpuContext(t))
		defer r.close(t)
		wg.Go(func() { r.run(t, 4*time.Second) })
	}
	wg.Wait()
}
