package sim

import (
	_ "embed"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/purecu/purecu/driver"
)

// calls returns the functions that enqueue a host function: cuLaunchHostFunc and
// cuStreamAddCallback.
func calls(r *lab) map[string]func(s driver.Stream, f driver.Callback) driver.Result {
	return map[string]func(s driver.Stream, f driver.Callback) driver.Result{
		"LaunchHostFunc":    func(s driver.Stream, f driver.Callback) driver.Result { return r.LaunchHostFunc(r.th, s, f) },
		"StreamAddCallback": func(s driver.Stream, f driver.Callback) driver.Result { return r.StreamAddCallback(r.th, s, f, 0) },
	}
}

// TestHostFunc enqueues host functions. They run in the order of the stream, later work waits for
// them, and they may call the driver.
func TestHostFunc(t *testing.T) {
	for name := range calls(nil) {
		t.Run(name, func(t *testing.T) {
			r := newLab(t, VirtualTime())
			call := calls(r)[name]
			s, p := r.newStream(), r.alloc("0")
			th := r.otherThread()
			entered, leave := make(chan string), make(chan bool)
			r.must(r.MemsetD8Async(r.th, p, '1', 1, s))
			r.must(call(s, driver.Callback{Apart: true, Go: func() {
				b := []byte{0}
				if res := r.MemcpyDtoH(th, b, p); res != ok {
					b = []byte(res.Name())
				}
				entered <- string(b)
				<-leave
			}}))
			r.must(r.MemsetD8Async(r.th, p, '2', 1, s))
			select {
			case <-entered:
				t.Error("it was called before its turn")
			default:
			}
			r.Advance(time.Second)
			if got := <-entered; got != "1" {
				t.Errorf("the function saw %q", got)
			}
			r.Advance(time.Second)
			r.want("while it is called", driver.ResultNotReady, r.StreamQuery(r.th, s))
			if got := r.read(p, 1); got != "1" {
				t.Errorf("while it is called the memory has %q", got)
			}
			close(leave)
			r.must(r.StreamSynchronize(r.th, s))
			if got := r.read(p, 1); got != "2" {
				t.Errorf("at the end the memory has %q", got)
			}
		})
	}
}

// TestHostFuncErrors enqueues invalid host functions.
func TestHostFuncErrors(t *testing.T) {
	for name := range calls(nil) {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			s := r.newStream()
			for _, tt := range []struct {
				f    driver.Callback
				want driver.Result
			}{
				{driver.Callback{}, driver.ResultInvalidValue},
				{driver.Callback{Addr: 1}, driver.ResultNotSupported},
				{driver.Callback{Go: func() {}}, ok},
			} {
				r.want(name, tt.want, calls(r)[name](s, tt.f))
			}
			r.must(r.StreamSynchronize(r.th, s))
		})
	}
	r := newLab(t)
	s := r.newStream()
	r.want("flags", driver.ResultInvalidValue, r.StreamAddCallback(r.th, s, driver.Callback{Go: func() {}}, 1))
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	r.want("captured", driver.ResultStreamCaptureUnsupported,
		r.StreamAddCallback(r.th, s, driver.Callback{Go: func() {}}, 0))
	_, res := r.StreamEndCapture(r.th, s)
	r.want("end", driver.ResultStreamCaptureInvalidated, res)
}

// TestHostFuncInGraph captures a host function, and runs it twice.
func TestHostFuncInGraph(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	var n atomic.Int32
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_GLOBAL))
	r.must(r.LaunchHostFunc(r.th, s, driver.Callback{Go: func() { n.Add(1) }}))
	g, res := r.StreamEndCapture(r.th, s)
	r.must(res)
	x, res := r.GraphInstantiateWithFlags(r.th, g, 0)
	r.must(res)
	for i := range int32(3) {
		if n.Load() != i {
			t.Errorf("after %d launches it was called %d times", i, n.Load())
		}
		r.must(r.GraphLaunch(r.th, x, s))
		r.must(r.StreamSynchronize(r.th, s))
	}
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
}

// TestHostFuncTakesNoVirtualTime measures the time of host functions with events.
func TestHostFuncTakesNoVirtualTime(t *testing.T) {
	r := newLab(t, VirtualTime())
	s := r.newStream()
	var e [2]driver.Event
	for i := range e {
		var res driver.Result
		e[i], res = r.EventCreate(r.th, 0)
		r.must(res)
	}
	r.must(r.EventRecord(r.th, e[0], s))
	called := make(chan bool, 1)
	r.must(r.LaunchHostFunc(r.th, s, driver.Callback{Go: func() { called <- true }}))
	r.spin(s, time.Second)
	r.must(r.EventRecord(r.th, e[1], s))
	r.Advance(time.Hour) // may come before the function has returned
	<-called
	r.must(r.EventSynchronize(r.th, e[1]))
	ms, res := r.EventElapsedTimeV2(r.th, e[0], e[1])
	r.must(res)
	if diff := cmp.Diff(float32(1000), ms); diff != "" {
		t.Errorf("in milliseconds (-want +got):\n%s", diff)
	}
	for _, e := range e {
		r.must(r.EventDestroy(r.th, e))
	}
}

// TestHostFuncAfterPoison poisons the driver before and during host functions.
func TestHostFuncAfterPoison(t *testing.T) {
	r := newLab(t, VirtualTime())
	busy, s := r.newStream(), r.newStream()
	entered, leave, left := make(chan bool), make(chan bool), make(chan bool)
	r.must(r.StreamAddCallback(r.th, busy, driver.Callback{Go: func() {
		entered <- true
		<-leave
		close(left)
	}}, 0))
	<-entered
	r.spin(s, time.Hour)
	hostFunc, callback := make(chan bool, 1), make(chan driver.Result, 1)
	r.must(r.LaunchHostFunc(r.th, s, driver.Callback{Go: func() { hostFunc <- true }}))
	r.must(
		r.StreamAddCallback(r.th, s, driver.Callback{GoStatus: func(status driver.Result) { callback <- status }}, 0),
	)
	r.LoseDevice()
	if !r.devices[0].contexts[0].pending.None() {
		t.Error("operations are pending")
	}
	r.want("synchronize", driver.ResultDeviceUnavailable, r.StreamSynchronize(r.th, s))
	r.want("the status", driver.ResultDeviceUnavailable, <-callback)
	close(leave)
	<-left
	r.want("launch", driver.ResultDeviceUnavailable, r.LaunchHostFunc(r.th, s, driver.Callback{Go: func() {}}))
	select {
	case <-hostFunc:
		t.Error("a host function was called after the error")
	case <-entered:
		t.Error("a callback was called twice")
	default:
	}
}

// TestHostFuncThatExits enqueues a host function that ends its goroutine. The stream continues.
func TestHostFuncThatExits(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	r.must(r.LaunchHostFunc(r.th, s, driver.Callback{Go: func() { runtime.Goexit() }}))
	r.must(r.StreamSynchronize(r.th, s))
}

//go:embed testdata/hostfunc-h100-cuda13.0.tsv
var hostFuncTable string

// needThreadNumbers skips the test on platforms where threads have no numbers.
func needThreadNumbers(t *testing.T) {
	t.Helper()
	if driver.CurrentThread() == 0 {
		t.Skip("threads have no numbers on this platform")
	}
}

// TestHostFuncTable makes the calls of a table in host functions, and compares the results with
// those of an H100.
func TestHostFuncTable(t *testing.T) {
	needThreadNumbers(t)
	for name := range calls(nil) {
		t.Run(name, func(t *testing.T) {
			r := newLab(t, VirtualTime())
			s, free, held := r.newStream(), r.newStream(), r.newStream()
			spare, res := r.StreamCreate(r.th, 0)
			r.must(res)
			events := make([]driver.Event, 3)
			for i := range events {
				events[i], _ = r.EventCreate(r.th, 0)
			}
			complete, pending, doomed := events[0], events[1], events[2]
			r.must(r.EventRecord(r.th, complete, free))
			r.Hold(uintptr(held))
			r.must(r.EventRecord(r.th, pending, held))
			p, k, m := r.alloc("x"), r.kernel("k", ""), r.load(header)
			current, _ := r.CtxGetCurrent(r.th)
			elapsed := func() driver.Result { _, res := r.EventElapsedTime(nil, complete, complete); return res }
			found := func() driver.Result { _, res := r.ModuleGetFunction(r.th, m, "k"); return res }
			nothing := driver.Callback{Go: func() {}}
			created := func() driver.Result { _, res := r.EventCreate(r.th, 0); return res }
			made := map[string]func() driver.Result{
				"cuEventQuery, complete":           func() driver.Result { return r.EventQuery(r.th, complete) },
				"cuEventQuery, pending":            func() driver.Result { return r.EventQuery(r.th, pending) },
				"cuEventRecord, free stream":       func() driver.Result { return r.EventRecord(r.th, complete, free) },
				"cuEventDestroy":                   func() driver.Result { return r.EventDestroy(r.th, doomed) },
				"cuEventSynchronize, complete":     func() driver.Result { return r.EventSynchronize(r.th, complete) },
				"cuEventElapsedTime":               elapsed,
				"cuStreamQuery, free stream":       func() driver.Result { return r.StreamQuery(r.th, free) },
				"cuStreamSynchronize, free stream": func() driver.Result { return r.StreamSynchronize(r.th, free) },
				"cuStreamWaitEvent":                func() driver.Result { return r.StreamWaitEvent(r.th, free, complete, 0) },
				"cuEventCreate":                    created,
				"cuStreamCreate":                   func() driver.Result { _, res := r.StreamCreate(r.th, 0); return res },
				"cuMemAlloc":                       func() driver.Result { _, res := r.MemAlloc(r.th, 1); return res },
				"cuMemFree":                        func() driver.Result { return r.MemFree(r.th, p) },
				"cuMemHostAlloc":                   func() driver.Result { _, res := r.MemHostAlloc(r.th, 1, 0); return res },
				"cuLaunchKernel, free stream":      func() driver.Result { return r.launchOn(free, k, 1, driver.KernelParams{}) },
				"cuCtxGetCurrent":                  func() driver.Result { _, res := r.CtxGetCurrent(r.th); return res },
				"cuCtxSynchronize":                 func() driver.Result { return r.CtxSynchronize(r.th) },
				"cuModuleUnload":                   func() driver.Result { return r.ModuleUnload(r.th, m) },
				"cuDeviceGetCount":                 func() driver.Result { _, res := r.DeviceGetCount(r.th); return res },
				"cuCtxPushCurrent":                 func() driver.Result { return r.CtxPushCurrent(r.th, current) },
				"cuEventRecord, NULL stream":       func() driver.Result { return r.EventRecord(r.th, complete, 0) },
				"cuStreamGetFlags":                 func() driver.Result { _, res := r.StreamGetFlags(r.th, free); return res },
				"cuMemsetD8Async":                  func() driver.Result { return r.MemsetD8Async(r.th, p, 1, 1, free) },
				"cuLaunchHostFunc":                 func() driver.Result { return r.LaunchHostFunc(r.th, free, nothing) },
				"cuModuleGetFunction":              found,
				"cuStreamDestroy, free stream":     func() driver.Result { return r.StreamDestroy(r.th, spare) },
			}
			want, got := make(map[string]int), make(map[string]int)
			var order []string // virtual time does not pass during a host function, so its work stays pending
			for line := range strings.Lines(hostFuncTable) {
				if call, code, found := strings.Cut(strings.TrimSpace(line), "\t"); found && line[0] != '#' {
					want[call], _ = strconv.Atoi(code)
					order = append(order, call)
				}
			}
			r.must(calls(r)[name](s, driver.Callback{Go: func() {
				for _, call := range order {
					if f := made[call]; f != nil {
						got[call] = int(f())
					}
				}
				got["cuMemsetD8Async, NULL stream"] = int(r.MemsetD8Async(r.th, p, 1, 1, 0))
				got["cuLaunchHostFunc, NULL stream"] = int(r.LaunchHostFunc(r.th, 0, nothing))
				_, res := r.StreamGetFlags(r.th, 0)
				got["cuStreamGetFlags, NULL stream"] = int(res)
				got["cuLaunchKernelEx, of others"] = int(r.MeetFault("cuLaunchKernelEx"))
			}}))
			r.must(r.StreamSynchronize(r.th, s))
			for _, call := range []string{"cuMemsetD8Async, NULL stream", "cuLaunchHostFunc, NULL stream",
				"cuStreamGetFlags, NULL stream", "cuLaunchKernelEx, of others"} {
				want[call] = 800
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			r.Advance(time.Second) // completes the memset
			r.Release(uintptr(held))
			r.must(r.EventDestroy(r.th, complete))
			r.must(r.EventDestroy(r.th, pending))
			r.must(r.CtxSynchronize(r.th))
		})
	}
}

// TestHostFuncEndless makes host functions wait for work that comes after them.
func TestHostFuncEndless(t *testing.T) {
	needThreadNumbers(t)
	const refused = driver.ResultNotPermitted
	for name, tt := range map[string]struct {
		raw  bool // the function runs on the driver's own thread
		call func(r *lab, s driver.Stream, e driver.Event, p driver.DevicePtr) driver.Result
	}{
		"stream": {true, func(r *lab, s driver.Stream, _ driver.Event, _ driver.DevicePtr) driver.Result {
			return r.StreamSynchronize(r.th, s)
		}},
		"event": {true, func(r *lab, _ driver.Stream, e driver.Event, _ driver.DevicePtr) driver.Result {
			return r.EventSynchronize(r.th, e)
		}},
		"another stream that waits": {true, func(r *lab, _ driver.Stream, e driver.Event, _ driver.DevicePtr) driver.Result {
			behind := r.newStream()
			return max(r.StreamWaitEvent(r.th, behind, e, 0), r.StreamSynchronize(r.th, behind))
		}},
		"context": {false, func(r *lab, _ driver.Stream, _ driver.Event, _ driver.DevicePtr) driver.Result {
			return r.CtxSynchronize(r.th)
		}},
		"memory": {false, func(r *lab, _ driver.Stream, _ driver.Event, p driver.DevicePtr) driver.Result {
			return r.MemFree(r.th, p)
		}},
		"module": {false, func(r *lab, _ driver.Stream, _ driver.Event, _ driver.DevicePtr) driver.Result {
			return r.ModuleUnload(r.th, r.load(header))
		}},
		"reset": {false, func(r *lab, _ driver.Stream, _ driver.Event, _ driver.DevicePtr) driver.Result {
			return r.DevicePrimaryCtxReset(r.th, 0)
		}},
		"release": {false, func(r *lab, _ driver.Stream, _ driver.Event, _ driver.DevicePtr) driver.Result {
			return r.DevicePrimaryCtxRelease(r.th, 0)
		}},
		"copy behind the default stream": {false, func(r *lab, _ driver.Stream, e driver.Event, p driver.DevicePtr) driver.Result {
			return max(r.StreamWaitEvent(r.th, 0, e, 0), r.MemcpyHtoD(r.th, p, []byte("y")))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t)
			s, p := r.newStream(), r.alloc("x")
			if name == "another stream that waits" {
				r.th = r.otherThread()
			}
			e, _ := r.EventCreate(r.th, 0)
			var got driver.Result
			begin := make(chan bool)
			r.must(
				r.LaunchHostFunc(
					r.th,
					s,
					driver.Callback{Apart: !tt.raw || name == "another stream that waits", Go: func() {
						<-begin
						got = tt.call(r, s, e, p)
					}},
				),
			)
			r.must(r.EventRecord(r.th, e, s))
			close(begin)
			r.must(r.StreamSynchronize(r.th, s))
			r.want("the call", refused, got)
			if n := r.takeMisuses(); n != 1 {
				t.Errorf("there are %d misuses", n)
			}
			r.must(r.CtxSynchronize(r.th))
			if got := r.read(p, 1); got != "x" {
				t.Errorf("the memory has %q: what was refused happened", got)
			}
			r.must(r.EventDestroy(r.th, e))
		})
	}
}

// TestHostFuncEndlessInTurn makes two host functions wait for each other's stream. The second wait
// returns an error.
func TestHostFuncEndlessInTurn(t *testing.T) {
	needThreadNumbers(t)
	r := newLab(t)
	a, b := r.newStream(), r.newStream()
	first, second := make(chan driver.Result, 1), make(chan driver.Result, 1)
	wait, begin := make(chan bool), make(chan bool)
	r.must(r.LaunchHostFunc(r.th, a, driver.Callback{Go: func() {
		<-wait
		first <- r.StreamSynchronize(nil, b)
	}}))
	r.must(r.LaunchHostFunc(r.th, b, driver.Callback{Go: func() {
		<-begin
		second <- r.StreamSynchronize(nil, a)
	}}))
	close(wait)
	r.blocked(1)
	close(begin)
	r.want("the second", driver.ResultNotPermitted, <-second)
	r.must(<-first)
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("there are %d misuses", n)
	}
	r.must(r.CtxSynchronize(r.th))
}

// TestHostThreads has threads for two host functions. More of them wait, in the order in which their streams reached
// them, also if a function ends its goroutine.
func TestHostThreads(t *testing.T) {
	for name := range calls(nil) {
		t.Run(name, func(t *testing.T) {
			const most, streams = 2, 9
			free := most // guarded by the driver's lock
			r := newLab(t, HostThreads(func() bool {
				there := free > 0
				if there {
					free--
				}
				return there
			}, func() { free++ }))
			var running, ran, over atomic.Int32
			begun, leave := make(chan bool, streams), make(chan bool)
			list := make([]driver.Stream, streams)
			for i := range list {
				list[i] = r.newStream()
				r.must(calls(r)[name](list[i], driver.Callback{Go: func() {
					if running.Add(1) > most {
						over.Add(1)
					}
					begun <- true
					<-leave
					running.Add(-1)
					if ran.Add(1)%2 == 0 {
						runtime.Goexit()
					}
				}}))
			}
			for range most {
				<-begun
			}
			r.want("a stream whose function waits", driver.ResultNotReady, r.StreamQuery(r.th, list[streams-1]))
			close(leave)
			for _, s := range list {
				r.must(r.StreamSynchronize(r.th, s))
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if ran.Load() != streams || over.Load() != 0 || free != most || len(r.hostThreads.next) != 0 {
				t.Errorf("%d ran, %d of them with more than %d others; %d threads are free, and %d functions wait",
					ran.Load(), over.Load(), most-1, free, len(r.hostThreads.next))
			}
		})
	}
}
