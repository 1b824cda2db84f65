package sim

import "github.com/purecu/purecu/driver"

// hostWork calls a host function.
type hostWork struct {
	commonWork
	d        *Driver
	function driver.Callback
}

func (*hostWork) nodeType() nodeType { return hostNode }

func (w *hostWork) op(conditionValues) *op { return w.d.hostOp(w.function) }

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
