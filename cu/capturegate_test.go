package cu_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/capturegate"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// racyCaptures is a software driver that notices what crashes driver 580: a call that is checked
// against captures, while one of these captures begins or ends.
type racyCaptures struct {
	driver.Software // embedded, as override.Driver makes calls slower
	mu              sync.Mutex
	contexts        map[driver.Context]*underWay
	blocking        map[driver.Stream]bool
	joined          map[uint64]map[driver.Stream]bool // the streams of a capture, by its id
	met             map[string]int
	// How often what happened.
	global, checks, changes int
}

// underWay are the calls in a context that are under way: those about the whole context and those
// about the legacy stream, and beginnings and ends of captures of any streams, and of blocking
// ones.
type underWay struct{ whole, legacy, changing, changingBlocking map[string]int }

func newRacyCaptures(soft driver.Software) *racyCaptures {
	return &racyCaptures{
		Software: soft, contexts: make(map[driver.Context]*underWay), blocking: make(map[driver.Stream]bool),
		joined: make(map[uint64]map[driver.Stream]bool), met: make(map[string]int),
	}
}

func (d *racyCaptures) of(ctx driver.Context) *underWay {
	u := d.contexts[ctx]
	if u == nil {
		u = &underWay{make(map[string]int), make(map[string]int), make(map[string]int), make(map[string]int)}
		d.contexts[ctx] = u
	}
	return u
}

// enter counts a call until leave is called, and notes what it meets.
func (d *racyCaptures) enter(what string, in, against []map[string]int) (leave func()) {
	d.mu.Lock()
	for _, m := range in {
		m[what]++
	}
	for _, m := range against {
		for other, n := range m {
			if n > 0 {
				d.met[what+" and "+other]++
			}
		}
	}
	d.mu.Unlock()
	runtime.Gosched()
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, m := range in {
			m[what]--
		}
	}
}

func (d *racyCaptures) checkWhole(th *driver.Thread, what string) func() {
	ctx, _ := d.Software.CtxGetCurrent(th)
	d.mu.Lock()
	u := d.of(ctx)
	d.checks++
	d.mu.Unlock()
	return d.enter(what, []map[string]int{u.whole}, []map[string]int{u.changing})
}

func (d *racyCaptures) checkLegacy(th *driver.Thread, s driver.Stream) func() {
	if s != driver.CU_STREAM_LEGACY {
		return func() {}
	}
	ctx, _ := d.Software.CtxGetCurrent(th)
	d.mu.Lock()
	u := d.of(ctx)
	d.checks++
	d.mu.Unlock()
	pc, _, _, _ := runtime.Caller(1)
	name := runtime.FuncForPC(pc).Name()
	return d.enter(name[strings.LastIndexByte(name, '.')+1:], []map[string]int{u.legacy},
		[]map[string]int{u.changingBlocking})
}

// change is for the beginning and the end of a capture, which some streams are part of.
func (d *racyCaptures) change(th *driver.Thread, what string, s driver.Stream) func() {
	_, id, _, _, _, _, _ := d.Software.StreamGetCaptureInfoV3(th, s)
	d.mu.Lock()
	streams := map[driver.Stream]bool{s: true}
	if id != 0 {
		maps.Copy(streams, d.joined[id])
	}
	d.changes++
	var in, against []map[string]int
	for s := range streams {
		ctx, _ := d.Software.StreamGetCtx(th, s)
		u := d.of(ctx)
		in, against = append(in, u.changing), append(against, u.whole)
		if d.blocking[s] {
			in, against = append(in, u.changingBlocking), append(against, u.legacy)
		}
	}
	d.mu.Unlock()
	return d.enter(what, in, against)
}

func (d *racyCaptures) StreamCreate(th *driver.Thread, flags uint32) (driver.Stream, driver.Result) {
	s, res := d.Software.StreamCreate(th, flags)
	d.mu.Lock()
	d.blocking[s] = flags == uint32(StreamDefault)
	d.mu.Unlock()
	return s, res
}

func (d *racyCaptures) begins(mode int32) {
	if mode == driver.CU_STREAM_CAPTURE_MODE_GLOBAL {
		d.mu.Lock()
		d.global++
		d.mu.Unlock()
	}
}

func (d *racyCaptures) StreamBeginCapture(th *driver.Thread, s driver.Stream, mode int32) driver.Result {
	d.begins(mode)
	defer d.change(th, "begin", s)()
	return d.Software.StreamBeginCapture(th, s, mode)
}

func (d *racyCaptures) StreamBeginCaptureToGraph(th *driver.Thread, s driver.Stream, g driver.Graph,
	deps []driver.GraphNode, edges []driver.GraphEdgeData, mode int32) driver.Result {
	d.begins(mode)
	defer d.change(th, "begin", s)()
	return d.Software.StreamBeginCaptureToGraph(th, s, g, deps, edges, mode)
}

func (d *racyCaptures) StreamEndCapture(th *driver.Thread, s driver.Stream) (driver.Graph, driver.Result) {
	defer d.change(th, "end", s)()
	return d.Software.StreamEndCapture(th, s)
}

func (d *racyCaptures) StreamWaitEvent(th *driver.Thread, s driver.Stream, e driver.Event, flags uint32) driver.Result {
	defer d.checkLegacy(th, s)()
	res := d.Software.StreamWaitEvent(th, s, e, flags)
	if s == driver.CU_STREAM_LEGACY {
		return res
	}
	if _, id, _, _, _, _, r := d.Software.StreamGetCaptureInfoV3(th, s); r == driver.ResultSuccess && id != 0 {
		d.mu.Lock()
		if d.joined[id] == nil {
			d.joined[id] = make(map[driver.Stream]bool)
		}
		d.joined[id][s] = true
		d.mu.Unlock()
	}
	return res
}

func (d *racyCaptures) CtxSynchronize(th *driver.Thread) driver.Result {
	defer d.checkWhole(th, "CtxSynchronize")()
	return d.Software.CtxSynchronize(th)
}

func (d *racyCaptures) CtxRecordEvent(th *driver.Thread, ctx driver.Context, e driver.Event) driver.Result {
	defer d.checkWhole(th, "CtxRecordEvent")()
	return d.Software.CtxRecordEvent(th, ctx, e)
}

func (d *racyCaptures) CtxWaitEvent(th *driver.Thread, ctx driver.Context, e driver.Event) driver.Result {
	defer d.checkWhole(th, "CtxWaitEvent")()
	return d.Software.CtxWaitEvent(th, ctx, e)
}

func (d *racyCaptures) GreenCtxRecordEvent(th *driver.Thread, g driver.GreenCtx, e driver.Event) driver.Result {
	defer d.checkWhole(th, "GreenCtxRecordEvent")()
	return d.Software.GreenCtxRecordEvent(th, g, e)
}

func (d *racyCaptures) GreenCtxWaitEvent(th *driver.Thread, g driver.GreenCtx, e driver.Event) driver.Result {
	defer d.checkWhole(th, "GreenCtxWaitEvent")()
	return d.Software.GreenCtxWaitEvent(th, g, e)
}

// The calls that may be about the legacy default stream.

func (d *racyCaptures) EventRecord(th *driver.Thread, hEvent driver.Event, hStream driver.Stream) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.EventRecord(th, hEvent, hStream)
}

func (d *racyCaptures) EventRecordWithFlags(th *driver.Thread, hEvent driver.Event, hStream driver.Stream,
	flags uint32) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.EventRecordWithFlags(th, hEvent, hStream, flags)
}

func (d *racyCaptures) StreamQuery(th *driver.Thread, hStream driver.Stream) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.StreamQuery(th, hStream)
}

func (d *racyCaptures) StreamSynchronize(th *driver.Thread, hStream driver.Stream) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.StreamSynchronize(th, hStream)
}

func (d *racyCaptures) StreamGetFlags(th *driver.Thread, hStream driver.Stream) (uint32, driver.Result) {
	defer d.checkLegacy(th, hStream)()
	return d.Software.StreamGetFlags(th, hStream)
}

func (d *racyCaptures) StreamGetPriority(th *driver.Thread, hStream driver.Stream) (int32, driver.Result) {
	defer d.checkLegacy(th, hStream)()
	return d.Software.StreamGetPriority(th, hStream)
}

func (d *racyCaptures) StreamGetId(th *driver.Thread, hStream driver.Stream) (uint64, driver.Result) {
	defer d.checkLegacy(th, hStream)()
	return d.Software.StreamGetId(th, hStream)
}

func (d *racyCaptures) StreamGetDevice(th *driver.Thread, hStream driver.Stream) (driver.Device, driver.Result) {
	defer d.checkLegacy(th, hStream)()
	return d.Software.StreamGetDevice(th, hStream)
}

func (d *racyCaptures) StreamWaitValue32(th *driver.Thread, stream driver.Stream, addr driver.DevicePtr, value uint32,
	flags uint32) driver.Result {
	defer d.checkLegacy(th, stream)()
	return d.Software.StreamWaitValue32(th, stream, addr, value, flags)
}

func (d *racyCaptures) StreamWaitValue64(th *driver.Thread, stream driver.Stream, addr driver.DevicePtr, value uint64,
	flags uint32) driver.Result {
	defer d.checkLegacy(th, stream)()
	return d.Software.StreamWaitValue64(th, stream, addr, value, flags)
}

func (d *racyCaptures) StreamWriteValue32(th *driver.Thread, stream driver.Stream, addr driver.DevicePtr, value uint32,
	flags uint32) driver.Result {
	defer d.checkLegacy(th, stream)()
	return d.Software.StreamWriteValue32(th, stream, addr, value, flags)
}

func (d *racyCaptures) StreamWriteValue64(th *driver.Thread, stream driver.Stream, addr driver.DevicePtr, value uint64,
	flags uint32) driver.Result {
	defer d.checkLegacy(th, stream)()
	return d.Software.StreamWriteValue64(th, stream, addr, value, flags)
}

func (d *racyCaptures) StreamAddCallback(th *driver.Thread, hStream driver.Stream, callback driver.Callback,
	flags uint32) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.StreamAddCallback(th, hStream, callback, flags)
}

func (d *racyCaptures) LaunchHostFunc(th *driver.Thread, hStream driver.Stream,
	callback driver.Callback) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.LaunchHostFunc(th, hStream, callback)
}

func (d *racyCaptures) StreamIsCapturing(th *driver.Thread, hStream driver.Stream) (int32, driver.Result) {
	defer d.checkLegacy(th, hStream)()
	return d.Software.StreamIsCapturing(th, hStream)
}

func (d *racyCaptures) StreamGetCaptureInfoV2(th *driver.Thread,
	hStream driver.Stream) (int32, uint64, driver.Graph, driver.HostPtr, uint64, driver.Result) {
	defer d.checkLegacy(th, hStream)()
	return d.Software.StreamGetCaptureInfoV2(th, hStream)
}

func (d *racyCaptures) StreamGetCaptureInfoV3(th *driver.Thread,
	hStream driver.Stream) (int32, uint64, driver.Graph, driver.HostPtr, driver.HostPtr, uint64, driver.Result) {
	defer d.checkLegacy(th, hStream)()
	return d.Software.StreamGetCaptureInfoV3(th, hStream)
}

func (d *racyCaptures) GraphLaunch(th *driver.Thread, hGraphExec driver.GraphExec,
	hStream driver.Stream) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.GraphLaunch(th, hGraphExec, hStream)
}

func (d *racyCaptures) GraphUpload(th *driver.Thread, hGraphExec driver.GraphExec,
	hStream driver.Stream) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.GraphUpload(th, hGraphExec, hStream)
}

func (d *racyCaptures) MemAllocAsync(th *driver.Thread, bytesize uint64,
	hStream driver.Stream) (driver.DevicePtr, driver.Result) {
	defer d.checkLegacy(th, hStream)()
	return d.Software.MemAllocAsync(th, bytesize, hStream)
}

func (d *racyCaptures) MemFreeAsync(th *driver.Thread, dptr driver.DevicePtr, hStream driver.Stream) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.MemFreeAsync(th, dptr, hStream)
}

func (d *racyCaptures) MemcpyHtoD(th *driver.Thread, dstDevice driver.DevicePtr, srcHost []byte) driver.Result {
	defer d.checkLegacy(th, driver.CU_STREAM_LEGACY)()
	return d.Software.MemcpyHtoD(th, dstDevice, srcHost)
}

func (d *racyCaptures) MemcpyDtoH(th *driver.Thread, dstHost []byte, srcDevice driver.DevicePtr) driver.Result {
	defer d.checkLegacy(th, driver.CU_STREAM_LEGACY)()
	return d.Software.MemcpyDtoH(th, dstHost, srcDevice)
}

func (d *racyCaptures) MemcpyHtoDAsync(th *driver.Thread, dstDevice driver.DevicePtr, srcHost driver.HostPtr,
	byteCount uint64, hStream driver.Stream) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.MemcpyHtoDAsync(th, dstDevice, srcHost, byteCount, hStream)
}

func (d *racyCaptures) MemcpyDtoHAsync(th *driver.Thread, dstHost driver.HostPtr, srcDevice driver.DevicePtr,
	byteCount uint64, hStream driver.Stream) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.MemcpyDtoHAsync(th, dstHost, srcDevice, byteCount, hStream)
}

func (d *racyCaptures) MemcpyDtoDAsync(th *driver.Thread, dstDevice driver.DevicePtr, srcDevice driver.DevicePtr,
	byteCount uint64, hStream driver.Stream) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.MemcpyDtoDAsync(th, dstDevice, srcDevice, byteCount, hStream)
}

func (d *racyCaptures) MemcpyPeerAsync(th *driver.Thread, dstDevice driver.DevicePtr, dstContext driver.Context,
	srcDevice driver.DevicePtr, srcContext driver.Context, byteCount uint64, hStream driver.Stream) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.MemcpyPeerAsync(th, dstDevice, dstContext, srcDevice, srcContext, byteCount, hStream)
}

func (d *racyCaptures) MemsetD8(th *driver.Thread, dstDevice driver.DevicePtr, uc uint8, n uint64) driver.Result {
	defer d.checkLegacy(th, driver.CU_STREAM_LEGACY)()
	return d.Software.MemsetD8(th, dstDevice, uc, n)
}

func (d *racyCaptures) MemsetD8Async(th *driver.Thread, dstDevice driver.DevicePtr, uc uint8, n uint64,
	hStream driver.Stream) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.MemsetD8Async(th, dstDevice, uc, n, hStream)
}

func (d *racyCaptures) MemsetD32Async(th *driver.Thread, dstDevice driver.DevicePtr, ui uint32, n uint64,
	hStream driver.Stream) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.MemsetD32Async(th, dstDevice, ui, n, hStream)
}

func (d *racyCaptures) LaunchKernel(th *driver.Thread, function driver.Function, gridDimX uint32, gridDimY uint32,
	gridDimZ uint32, blockDimX uint32, blockDimY uint32, blockDimZ uint32, sharedMemBytes uint32, hStream driver.Stream,
	kernelParams driver.KernelParams) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.LaunchKernel(th, function, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
		sharedMemBytes, hStream, kernelParams)
}

func (d *racyCaptures) LaunchCooperativeKernel(th *driver.Thread, function driver.Function, gridDimX uint32,
	gridDimY uint32, gridDimZ uint32, blockDimX uint32, blockDimY uint32, blockDimZ uint32, sharedMemBytes uint32,
	hStream driver.Stream, kernelParams driver.KernelParams) driver.Result {
	defer d.checkLegacy(th, hStream)()
	return d.Software.LaunchCooperativeKernel(th, function, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
		blockDimZ, sharedMemBytes, hStream, kernelParams)
}

// captureRaces are calls that the driver checks against captures, and captures. They are made side
// by side.
type captureRaces struct {
	gpu              *Context
	two              *Context // has streams that join captures
	legacy           *Stream
	legacy2          *Stream // of the other context
	external, shared *Event
	other            *Stream // is not captured
	e                *Event
	mem              *DeviceMem
	line             *Timeline
	exec             *graph.Exec
}

func newCaptureRaces(t testing.TB, gpu, two *Context) *captureRaces {
	r := &captureRaces{
		gpu: gpu, two: two, legacy2: Need(two.LegacyStream())(t), external: Need(gpu.NewEvent(EventExternal))(t),
		shared: Need(gpu.NewEvent(EventInterprocess | EventDisableTiming))(t),
		legacy: Need(gpu.LegacyStream())(t), other: Need(gpu.NewStream(StreamNonBlocking))(t),
		e: Need(gpu.NewEvent(EventDisableTiming))(t), mem: Need(gpu.Alloc(64))(t), line: Need(gpu.NewTimeline(0))(t),
	}
	g := Need(graph.Capture(r.other, graph.CaptureRelaxed, func() error { return r.other.Memset(r.mem, 1) }))(t)
	r.exec = Need(g.Instantiate())(t)
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
	for _, c := range []io.Closer{
		r.e, r.external, r.shared, r.mem, r.line, r.exec, r.legacy, r.legacy2, r.other,
	} {
		err = errors.Join(err, c.Close())
	}
	if err != nil {
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
		"legacy, query":                      func() error { return drop(r.legacy.Query()) },
		"legacy, synchronize":                r.legacy.Synchronize,
		"legacy, flags":                      func() error { return drop(r.legacy.Flags()) },
		"legacy, priority":                   func() error { return drop(r.legacy.Priority()) },
		"legacy, ID":                         func() error { return drop(r.legacy.ID()) },
		"legacy, capture":                    func() error { return drop(graph.CaptureInfoOf(r.legacy)) },
		"legacy, memset":                     func() error { return r.legacy.Memset(r.mem, 1) },
		"legacy, signal":                     func() error { return r.line.Signal(r.legacy, 1) },
		"legacy, graph":                      func() error { return r.exec.Launch(r.legacy) },
		"legacy, host":                       func() error { return r.legacy.HostFunc(func() {}) },
		"legacy, marked":                     func() error { return drop(r.closeUsed()) },
		"Event.Query":                        func() error { return drop(r.e.Query()) },
		"Event.Synchronize":                  r.e.Synchronize,
		"Stream.Query":                       func() error { return drop(r.other.Query()) },
		"Context.Alloc":                      func() error { return r.alloc() },
		"Context.AllocHost":                  func() error { return r.allocHost() },
		"graph.Graph.Instantiate":            func() error { return r.instantiate() },
		"Context.Synchronize, other context": r.two.Synchronize,
		"legacy, other context":              func() error { return drop(r.legacy2.Query()) },
		"legacy, external record":            func() error { return r.external.Record(r.legacy) },
		"legacy, external wait":              func() error { return r.legacy.WaitEvent(r.external) },
		"legacy, shared record":              func() error { return r.shared.Record(r.legacy) },
		"legacy, shared wait":                func() error { return r.legacy.WaitEvent(r.shared) },
		"legacy, copy":                       func() error { return r.mem.CopyFrom([]byte{1}) },
		"legacy, wait by the host":           func() error { return r.legacy.Wait(context.Background()) },
		"legacy, block":                      func() error { return r.line.Block(r.legacy, 0) },
		"capture of two contexts":            func() error { return r.captureTwo(r.two) },
		"capture, blocking":                  func() error { return r.capture(StreamDefault, graph.CaptureGlobal) },
		"capture":                            func() error { return r.capture(StreamNonBlocking, graph.CaptureGlobal) },
		"capture, relaxed":                   func() error { return r.capture(StreamNonBlocking, graph.CaptureRelaxed) },
		"capture of two":                     func() error { return r.captureTwo(r.gpu) },
		"capture into a graph":               r.captureInto,
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
	g, err := graph.New(r.gpu)
	if err != nil {
		return err
	}
	_, err = g.Add(&graph.Memset{Dst: r.mem, Value: 1})
	if err == nil {
		var x *graph.Exec
		if x, err = g.Instantiate(); err == nil {
			err = x.Close()
		}
	}
	return errors.Join(err, g.Close())
}

func (r *captureRaces) capture(flags StreamFlags, mode graph.CaptureMode) error {
	s, err := r.gpu.NewStream(flags)
	if err != nil {
		return err
	}
	for range 20 {
		g, e := graph.Capture(s, mode, func() error { return s.Memset(r.mem, 1) })
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
func (r *captureRaces) captureTwo(in *Context) error {
	s, err := r.gpu.NewStream(StreamNonBlocking)
	if err != nil {
		return err
	}
	b, err := in.NewStream(StreamDefault)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	g, err := graph.Capture(s, graph.CaptureThreadLocal, func() error {
		return errors.Join(b.WaitStream(s), b.HostFunc(func() {}), s.WaitStream(b))
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
	g, err := graph.New(r.gpu)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	_, err = g.Capture(s, graph.CaptureGlobal, func() error { return s.Memset(r.mem, 1) })
	return errors.Join(err, g.Close(), s.Close())
}

// run makes all the calls side by side, each at least once, until the time is over. Some are refused,
// as captures are under way.
func (r *captureRaces) run(t *testing.T, d time.Duration) {
	var wg sync.WaitGroup
	until := time.Now().Add(d)
	for name, call := range r.calls() {
		wg.Go(func() {
			for once := false; !once || time.Now().Before(until); once = true {
				if err := call(); err != nil && !ofCapture(err) {
					t.Errorf("%s: %v", name, err)
					return
				}
				if strings.HasPrefix(name, "capture") {
					time.Sleep(time.Millisecond) // or the checked calls would hardly ever be made
				}
			}
		})
	}
	wg.Wait()
}

// ofCapture reports whether a call was refused as something is being captured, or what it needs
// belonged to a capture that another call has invalidated.
func ofCapture(err error) bool {
	for res := ResultStreamCaptureUnsupported; res <= ResultCapturedEvent; res++ {
		if errors.Is(err, res) {
			return true
		}
	}
	return false
}

// TestCapturesBesideCheckedCalls makes calls that the driver checks against the captures of a
// context, or against those of its blocking streams, while captures begin and end. A driver in C
// crashes if it meets both at a time: see docs/design/captures.md.
func TestCapturesBesideCheckedCalls(t *testing.T) {
	soft := cusim.New()
	sim := newRacyCaptures(soft.Software())
	drv := Need(Open(WithSoftware(driver.Provide(sim))))(t)
	dev := Need(drv.Device(0))(t)
	gpu, two := Need(dev.PrimaryContext())(t), Need(dev.NewContext(0))(t)
	r := newCaptureRaces(t, gpu, two)
	for range 20 { // until the machine has had time for enough of each
		r.run(t, 250*time.Millisecond)
		if sim.checks >= 500 && sim.changes >= 500 {
			break
		}
	}
	r.close(t)
	if err := errors.Join(two.Close(), gpu.Close(), drv.Close()); err != nil {
		t.Error(err)
	}
	for what, n := range sim.met {
		t.Errorf("%d times at one time: %s", n, what)
	}
	if sim.global != 0 {
		t.Errorf("%d captures began in global mode, which the driver checks for calls of all threads", sim.global)
	}
	t.Logf("%d calls were checked, and %d captures began or ended", sim.checks, sim.changes)
}

// joinHooks calls functions in calls of the driver about captures.
type joinHooks struct {
	Software              driver.Software
	beforeWait, afterWait func(driver.Stream)
	beforeEnd             func()
}

func (d *joinHooks) StreamWaitEvent(th *driver.Thread, hStream driver.Stream, hEvent driver.Event,
	flags uint32) driver.Result {
	if d.beforeWait != nil {
		d.beforeWait(hStream)
	}
	res := d.Software.StreamWaitEvent(th, hStream, hEvent, flags)
	if d.afterWait != nil {
		d.afterWait(hStream)
	}
	return res
}

func (d *joinHooks) StreamEndCapture(th *driver.Thread, hStream driver.Stream) (driver.Graph, driver.Result) {
	if d.beforeEnd != nil {
		d.beforeEnd()
	}
	return d.Software.StreamEndCapture(th, hStream)
}

// TestJoinsFromOtherContexts has a stream of another context join a capture. The capture ends without calls on that
// whole context at the same time, whatever happens while the stream joins.
func TestJoinsFromOtherContexts(t *testing.T) {
	soft := cusim.New()
	hooks := &joinHooks{Software: soft.Software()}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(hooks)))))(t)
	dev := Need(drv.Device(0))(t)
	gpu, two := Need(dev.PrimaryContext())(t), Need(dev.NewContext(0))(t)
	s, b := Need(gpu.NewStream(StreamNonBlocking))(t), Need(two.NewStream(StreamNonBlocking))(t)
	e := Need(gpu.NewEvent(EventDisableTiming))(t)
	gate := &core.Of(b).Ctx.CaptureGate.Whole
	var open int
	lookAtGate := func() {
		if gate.TryBegin() {
			gate.End()
			open++
		}
	}
	invalidate := func(h driver.Stream) {
		if h == core.Of(b).Raw {
			hooks.Software.StreamSynchronize(nil, core.Of(s).Raw)
		}
	}
	var joins sync.WaitGroup
	join := func() {
		joins.Go(func() { b.WaitEvent(e) }) // fails, or not, depending on what comes first
	}
	for name, c := range map[string]struct {
		set     func(end chan struct{})
		f       func(end chan struct{}) error
		invalid bool // the capture is
	}{
		"the capture is invalidated before the stream is known to have joined": {
			set: func(chan struct{}) { hooks.afterWait, hooks.beforeEnd = invalidate, lookAtGate },
			f:   func(chan struct{}) error { return b.WaitStream(s) }, invalid: true,
		},
		"an event's wait, and the capture is invalidated": {
			set: func(chan struct{}) { hooks.afterWait, hooks.beforeEnd = invalidate, lookAtGate },
			f:   func(chan struct{}) error { return errors.Join(e.Record(s), b.WaitEvent(e)) }, invalid: true,
		},
		"the capture ends while the stream joins": {
			set: func(end chan struct{}) {
				ends := make(chan struct{})
				hooks.beforeWait = func(driver.Stream) { close(end); <-ends }
				hooks.beforeEnd = func() { lookAtGate(); close(ends) }
			},
			f: func(end chan struct{}) error {
				err := e.Record(s)
				join()
				<-end
				return err
			},
		},
		"the stream joins while the capture ends": {
			set: func(chan struct{}) {
				hooks.beforeEnd = func() {
					waited := make(chan struct{})
					hooks.beforeWait = func(driver.Stream) { close(waited) }
					join()
					select {
					case <-waited:
						open++
					case <-time.After(20 * time.Millisecond):
					}
				}
			},
			f: func(chan struct{}) error { return e.Record(s) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			open = 0
			end := make(chan struct{})
			c.set(end)
			g, err := graph.Capture(s, graph.CaptureRelaxed, func() error { return c.f(end) })
			if c.invalid != errors.Is(err, ResultStreamCaptureInvalidated) {
				t.Errorf("the capture: %v", err)
			}
			g.Close()
			if open != 0 {
				t.Error("the driver could be asked about the whole context while the capture ended")
			}
			joins.Wait()
			*hooks = joinHooks{Software: hooks.Software}
			if err := errors.Join(b.Synchronize(), s.Synchronize(), e.Record(s), b.WaitEvent(e), b.Synchronize()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			if n := len(core.Of(drv).Captures.ByID); n != 0 || core.Of(b).KnownCapture() != nil {
				t.Errorf("%d captures are left, and the stream is part of %v", n, core.Of(b).KnownCapture())
			}
		})
	}
	err := errors.Join(e.Close(), s.Close(), b.Close(), two.Close(), gpu.Close(), drv.Close())
	if err != nil {
		t.Error(err)
	}
	soft.Check(t)
}

// TestLongCallsHoldNobodyUp has a call about the whole context and one about the legacy stream wait
// for the GPU. Captures and other such calls go on.
func TestLongCallsHoldNobodyUp(t *testing.T) {
	r := newRig(t)
	legacy, blocking := Need(r.gpu.LegacyStream())(t), Need(r.gpu.NewStream(StreamDefault))(t)
	defer legacy.Close()
	defer blocking.Close()
	goOn := r.blocked("cuStreamSynchronize", legacy.Synchronize)
	goOnToo := r.blocked("cuCtxSynchronize", r.gpu.Synchronize)
	for range 3 {
		r.returns("a capture", func() error {
			g, err := graph.Capture(blocking, graph.CaptureRelaxed, func() error { return nil })
			return errors.Join(err, g.Close())
		})
	}
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			var g *graph.Graph
			if g, err = graph.Capture(blocking, graph.CaptureRelaxed, func() error { return nil }); err == nil {
				err = g.Close()
			}
		}
		done <- err
	}()
	for range 10 {
		r.returns("a call about the legacy stream", func() error { _, err := legacy.Priority(); return err })
	}
	close(stop)
	r.ok(<-done)
	goOn()
	goOnToo()
}

// TestTracersOfCheckedCalls has tracers capture, and panic: they hold nothing up.
func TestTracersOfCheckedCalls(t *testing.T) {
	r := newRig(t)
	legacy, blocking := Need(r.gpu.LegacyStream())(t), Need(r.gpu.NewStream(StreamDefault))(t)
	defer legacy.Close()
	defer blocking.Close()
	gates := core.Of(r.gpu).Context.CaptureGate
	defer trace.Add(r.drv, func(tr trace.Operation) {
		if gates.Whole.Busy() || gates.Legacy.Busy() {
			t.Errorf("%v: a tracer is called while captures are kept off", tr.Op)
		}
		panic("tracer")
	})()
	for _, call := range []func() error{
		legacy.Synchronize,
		func() error { _, err := legacy.Query(); return err },
		func() error { return legacy.HostFunc(func() {}) },
	} {
		func() {
			defer func() { recover() }()
			call()
		}()
	}
	if gates.Whole.Busy() || gates.Legacy.Busy() {
		t.Error("calls are still under way")
	}
	for _, g := range []*capturegate.Gate{&gates.Whole, &gates.Legacy} {
		if !g.TryBegin() {
			t.Fatal("a gate is still shut")
		}
		g.End()
	}
}

// TestGPUCapturesBesideCheckedCalls does so on a GPU, through two Drivers of one context. Before
// this package kept these calls apart, the process ended with SIGSEGV within a second.
func TestGPUCapturesBesideCheckedCalls(t *testing.T) {
	var both [2]*captureRaces
	for i := range both {
		gpu := GPUContext(t)
		two := Need(gpu.Device().NewContext(0))(t)
		defer two.Close()
		both[i] = newCaptureRaces(t, gpu, two)
		defer both[i].close(t)
	}
	var wg sync.WaitGroup
	for _, r := range both {
		wg.Go(func() { r.run(t, 4*time.Second) })
	}
	wg.Wait()
}

// TestCallsBesideNodes makes calls on the whole context while nodes are added to graphs. Neither
// fails, although the work for a node is captured.
func TestCallsBesideNodes(t *testing.T) {
	r := NewSoft(t)
	callsBesideNodes(t, r.GPU, r.Spin)
}

// TestGPUCallsBesideNodes does so on a GPU.
func TestGPUCallsBesideNodes(t *testing.T) {
	gpu := GPUContext(t)
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	callsBesideNodes(t, gpu, Need(mod.Function("spin"))(t))
}

func callsBesideNodes(t *testing.T, gpu *Context, spin *Function) {
	mem := Need(gpu.Alloc(64))(t)
	defer mem.Close()
	buf := Need(gpu.AllocHost(64, 0))(t)
	defer buf.Close()
	e := Need(gpu.NewEvent(EventDisableTiming))(t)
	defer e.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, call := range []func() error{
		gpu.Synchronize,
		func() error { return gpu.RecordEvent(e) },
		func() error { return gpu.WaitEvent(e) },
	} {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := call(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var adders sync.WaitGroup
	for _, add := range []func(*graph.Graph) (graph.Node, error){
		func(g *graph.Graph) (graph.Node, error) { return g.Add(&graph.Memset{Dst: mem, Value: 1}) },
		func(g *graph.Graph) (graph.Node, error) { return g.Add(&graph.Copy{Dst: mem, Src: buf}) },
		func(g *graph.Graph) (graph.Node, error) {
			return g.Add(&graph.Kernel{Function: spin, Config: OneThread, Args: []Arg{U64(1)}})
		},
		func(g *graph.Graph) (graph.Node, error) { return g.Add(&graph.HostFunc{Func: func() {}}) },
	} {
		adders.Go(func() {
			for range 500 {
				g, err := graph.New(gpu)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = add(g)
				if err := errors.Join(err, g.Close()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	adders.Wait()
}

// TestRandomJoins has streams of two contexts join captures into clones of graphs at random moments, while the captures
// are invalidated, and their graphs and streams are closed.
func TestRandomJoins(t *testing.T) {
	soft := cusim.New()
	drv := Need(Open(WithSoftware(soft)))(t)
	dev := Need(drv.Device(0))(t)
	contexts := []*Context{Need(dev.PrimaryContext())(t), Need(dev.NewContext(0))(t)}
	events := []*Event{
		Need(contexts[0].NewEvent(EventDisableTiming))(t), Need(contexts[0].NewEvent(EventDisableTiming))(t),
	}
	var wg, closes sync.WaitGroup
	until := time.Now().Add(500 * time.Millisecond)
	for _, e := range events {
		wg.Go(func() {
			for once := false; !once || time.Now().Before(until); once = true {
				s, g := Need(contexts[0].NewStream(StreamNonBlocking))(t), Need(graph.New(contexts[0]))(t)
				clone := Need(g.Clone())(t)
				clone.Capture(s, graph.CaptureRelaxed, func() error { // which fails, or not
					e.Record(s)
					time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
					switch rand.IntN(4) {
					case 0:
						s.Synchronize()
					case 1:
						s.Close()
					case 2:
						clone.Close()
					}
					return nil
				})
				closes.Go(func() { g.Close() })
				if err := errors.Join(s.Close(), clone.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 4 {
		s := Need(contexts[i%2].NewStream([]StreamFlags{StreamDefault, StreamNonBlocking}[i/2]))(t)
		wg.Go(func() {
			for once := false; !once || time.Now().Before(until); once = true {
				s.WaitEvent(events[rand.IntN(2)])
				if rand.IntN(3) == 0 {
					events[rand.IntN(2)].Record(s)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	closes.Wait()
	if n, all := core.Of(drv).Capturing.Load(), len(core.Of(drv).Captures.ByID); n != 0 || all != 0 {
		t.Errorf("%d captures are left, %d of them listed", n, all)
	}
	err := errors.Join(events[0].Close(), events[1].Close(), contexts[1].Close(), contexts[0].Close(), drv.Close())
	if err != nil {
		t.Error(err)
	}
	CheckFreed(t, soft)
}
