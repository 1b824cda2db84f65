package cusim

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/purecu/purecu/internal/driver"
)

// calls puts functions on a stream: cuLaunchHostFunc and cuStreamAddCallback.
func calls(r *lab) map[string]func(s driver.Stream, f driver.Callback) driver.Result {
	return map[string]func(s driver.Stream, f driver.Callback) driver.Result{
		"LaunchHostFunc":    func(s driver.Stream, f driver.Callback) driver.Result { return r.LaunchHostFunc(r.th, s, f) },
		"StreamAddCallback": func(s driver.Stream, f driver.Callback) driver.Result { return r.StreamAddCallback(r.th, s, f, 0) },
	}
}

// TestHostFunc lets a stream call functions: in their turn, while nothing behind them
// begins, and free to call the driver.
func TestHostFunc(t *testing.T) {
	for name := range calls(nil) {
		t.Run(name, func(t *testing.T) {
			r := newLab(t, VirtualTime())
			call := calls(r)[name]
			s, p := r.newStream(), r.alloc("0")
			th := r.otherThread()
			entered, leave := make(chan string), make(chan bool)
			r.must(r.MemsetD8Async(r.th, p, '1', 1, s))
			r.must(call(s, driver.Callback{Go: func() {
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

// TestHostFuncAnswers puts what is no function on a stream.
func TestHostFuncAnswers(t *testing.T) {
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
	r.want("captured", driver.ResultStreamCaptureUnsupported, r.StreamAddCallback(r.th, s, driver.Callback{Go: func() {}}, 0))
	_, res := r.StreamEndCapture(r.th, s)
	r.want("end", driver.ResultStreamCaptureInvalidated, res)
}

// TestHostFuncInGraph captures a function, and lets it run twice.
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

// TestHostFuncTakesNoVirtualTime measures the time around functions.
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
	r.Advance(time.Hour) // perhaps before the function has returned
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

// TestHostFuncAfterPoison poisons the driver before functions have their turn, and
// while one is called.
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
	r.must(r.StreamAddCallback(r.th, s, driver.Callback{Told: func(status driver.Result) { callback <- status }}, 0))
	r.LoseDevice()
	if !r.devices[0].contexts[0].pending.none() {
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

// TestHostFuncThatExits has a function that ends its goroutine: the stream goes on.
func TestHostFuncThatExits(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	r.must(r.LaunchHostFunc(r.th, s, driver.Callback{Go: func() { runtime.Goexit() }}))
	r.must(r.StreamSynchronize(r.th, s))
}
