package sim

import (
	"runtime"

	"github.com/purecu/purecu/driver"
)

// callable checks a function on the host. Functions in C cannot be called from
// here.
func callable(f driver.Callback) driver.Result {
	switch {
	case f.Go != nil || f.GoStatus != nil:
		return ok
	case f.Addr != 0:
		return driver.ResultNotSupported
	}
	return driver.ResultInvalidValue
}

// hostCall is a function on the host while it runs.
type hostCall struct {
	op    *op   // that is complete when it has returned, or nil
	apart bool  // all calls may be made in it
	waits *wait // the call in it that waits, or nil
}

// permits reports whether a call may be made in the function. These are all that an H100
// was seen to permit: testdata/hostfunc-h100-cuda13.0.tsv.
func (h *hostCall) permits(op string) bool {
	switch op {
	case "cuEventQuery", "cuEventRecord", "cuEventRecordWithFlags", "cuEventDestroy", "cuEventSynchronize",
		"cuEventElapsedTime", "cuStreamQuery", "cuStreamSynchronize", "cuStreamWaitEvent",
		"cuStreamGetFlags", "cuStreamDestroy", "cuMemsetD8Async", "cuLaunchHostFunc":
		return true
	}
	return h.apart
}

// host returns the function on the host that makes the present call, or nil if none does,
// or that cannot be told: the goroutine of a function is locked to its thread.
func (d *Driver) host() *hostCall {
	if len(d.hosts) == 0 {
		return nil
	}
	return d.hosts[driver.CurrentThread()]
}

// call calls a function on the host, on a goroutine of its own, and then after, with the
// driver locked.
func (d *Driver) call(f driver.Callback, status driver.Result, h *hostCall, after func()) {
	h.apart = f.Apart
	go func() {
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
		defer func() { // also if f ends its goroutine
			d.mu.Lock()
			defer d.mu.Unlock()
			delete(d.hosts, thread)
			after()
		}()
		if f.GoStatus != nil {
			f.GoStatus(status)
		} else {
			f.Go()
		}
	}()
}

// hostOp returns an operation that calls a function on a goroutine of its own. The
// stream goes on when the function has returned. Virtual time does
// not pass meanwhile, so that it does not depend on how fast the goroutine was.
func (d *Driver) hostOp(f driver.Callback) *op {
	o := &op{outside: true, visible: true}
	o.begin = func() {
		d.call(f, ok, &hostCall{op: o}, func() {
			d.engine.catchUp()
			o.at = o.began
			if !d.clock.virtual {
				o.at = d.clock.now()
			}
			d.engine.finish(o)
		})
	}
	return o
}

// LaunchHostFunc is cuLaunchHostFunc. The function is not called if the device has
// a sticky error before the stream gets to it. Where threads are told apart, on Linux and
// Windows, calls in it are answered as an H100 answers them.
func (d *Driver) LaunchHostFunc(th *driver.Thread, h driver.Stream, f driver.Callback) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuLaunchHostFunc", th, h)
	if r == ok {
		r = callable(f)
	}
	if r != ok {
		return r
	}
	return d.submit(s, &work{node: hostNode, make: func() *op { return d.hostOp(f) }})
}

// StreamAddCallback is cuStreamAddCallback. The function is called in any case, also
// after a sticky error, of which it is told as an H200 does.
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
	begin := o.begin
	o.begin = func() {
		began = true
		begin()
	}
	o.dropped = func() {
		if !began {
			d.call(f, d.lost, &hostCall{}, func() {})
		}
	}
	d.engine.enqueue(s, o)
	return ok
}
