package sim

import (
	"runtime"
	"slices"

	"github.com/purecu/purecu/driver"
)

// callable checks a host function. This driver cannot call C functions.
func callable(f driver.Callback) driver.Result {
	switch {
	case f.Go != nil || f.GoStatus != nil:
		return ok
	case f.Addr != 0:
		return driver.ResultNotSupported
	}
	return driver.ResultInvalidValue
}

// hostCall is a running host function.
type hostCall struct {
	op    *op     // the operation that completes when the function returns, or nil
	apart bool    // the function may make all calls
	waits []*wait // what the function waits for, all of it
}

// begin notes a wait of the function until end is called.
func (h *hostCall) begin(w *wait) (end func()) {
	h.waits = append(h.waits, w)
	return func() { h.waits = slices.DeleteFunc(h.waits, func(other *wait) bool { return other == w }) }
}

// permits reports whether the function may make a call. An H100 permits these calls:
// testdata/hostfunc-h100-cuda13.0.tsv.
func (h *hostCall) permits(op string) bool {
	switch op {
	case "cuEventQuery", "cuEventRecord", "cuEventRecordWithFlags", "cuEventDestroy", "cuEventSynchronize",
		"cuEventElapsedTime", "cuStreamQuery", "cuStreamSynchronize", "cuStreamWaitEvent",
		"cuStreamGetFlags", "cuStreamDestroy", "cuMemsetD8Async", "cuLaunchHostFunc":
		return true
	}
	return h.apart
}

// host returns the host function that makes the present call, or nil. It recognises the function by
// the thread, to which the function's goroutine is locked.
func (d *Driver) host() *hostCall {
	if len(d.hosts) == 0 {
		return nil
	}
	return d.hosts[driver.CurrentThread()]
}

// hostThreads are the threads that host functions may block.
type hostThreads struct {
	begin func() bool // takes one, if there is one; nil if there always is
	end   func()      // gives one back
	next  []func()    // functions that wait for a thread
}

// HostThreads is for programs whose threads are limited. A host function begins when begin returns true.
// Afterwards end is called. If begin returns false, the function begins when another one has ended.
func HostThreads(begin func() bool, end func()) Option {
	return func(d *Driver) { d.hostThreads.begin, d.hostThreads.end = begin, end }
}

// start starts a goroutine that may block a thread.
func (t *hostThreads) start(f func()) {
	if t.begin != nil && !t.begin() {
		t.next = append(t.next, f)
		return
	}
	go f()
}

// ended ends the use of a thread, which the next function gets.
func (t *hostThreads) ended() {
	switch {
	case len(t.next) > 0:
		f := t.next[0]
		t.next = slices.Delete(t.next, 0, 1)
		go f()
	case t.end != nil:
		t.end()
	}
}

// call calls a host function on a new goroutine, and then after, with the driver locked.
func (d *Driver) call(f driver.Callback, status driver.Result, h *hostCall, after func()) {
	h.apart = f.Apart
	d.hostThreads.start(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread := driver.CurrentThread()
		d.mu.Lock()
		if thread != 0 {
			if d.hosts == nil {
				d.hosts = make(map[int]*hostCall)
			}
			d.hosts[thread] = h
		}
		d.mu.Unlock()
		defer func() { // runs also if f ends its goroutine
			d.mu.Lock()
			defer d.mu.Unlock()
			delete(d.hosts, thread)
			d.hostThreads.ended()
			after()
		}()
		if f.GoStatus != nil {
			f.GoStatus(status)
		} else {
			f.Go()
		}
	})
}

// hostWork calls a host function.
type hostWork struct {
	commonWork
	d        *Driver
	function driver.Callback
}

func (*hostWork) nodeType() nodeType { return hostNode }

func (w *hostWork) op(conditionValues) *op { return w.d.hostOp(w.function) }

// hostOp returns an operation that calls a host function on a new goroutine. The stream continues
// after the function has returned. Virtual time does not pass during the function, so that times do
// not depend on the speed of the goroutine.
func (d *Driver) hostOp(f driver.Callback) *op {
	o := &op{Outside: true, Visible: true}
	o.Begin = func() {
		d.call(f, ok, &hostCall{op: o}, func() {
			d.engine.CatchUp()
			d.engine.Finish(o)
		})
	}
	return o
}

// LaunchHostFunc is cuLaunchHostFunc. The function is not called after a sticky error. On Linux and
// Windows, where threads have numbers, the function may make the calls that an H100 permits.
func (d *Driver) LaunchHostFunc(th *driver.Thread, h driver.Stream, f driver.Callback) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuLaunchHostFunc", th, h)
	if r == ok {
		r = callable(f)
	}
	if r != ok {
		return r
	}
	return d.submit(s, &hostWork{d: d, function: f})
}

// StreamAddCallback is cuStreamAddCallback. The function is always called. After a sticky error it
// gets the status that an H200 passes.
func (d *Driver) StreamAddCallback(th *driver.Thread, h driver.Stream, f driver.Callback, flags uint32) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuStreamAddCallback", th, h)
	if r == ok {
		r = callable(f)
	}
	switch {
	case r != ok:
		return r
	case flags != 0:
		return driver.ResultInvalidValue
	case s.capture != nil:
		return d.invalidate(s.capture, driver.ResultStreamCaptureUnsupported)
	}
	o := d.hostOp(f)
	began := false
	begin := o.Begin
	o.Begin = func() {
		began = true
		begin()
	}
	o.Dropped = func() {
		if !began {
			d.call(f, d.lost, &hostCall{}, func() {})
		}
	}
	d.enqueue(s, o)
	return ok
}
