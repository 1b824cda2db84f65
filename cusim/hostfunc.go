package cusim

import (
	"github.com/purecu/purecu/internal/driver"
)

// callable checks a function on the host. Functions in C cannot be called from
// here.
func callable(f driver.Callback) driver.Result {
	switch {
	case f.Go != nil || f.Told != nil:
		return ok
	case f.Addr != 0:
		return driver.ResultNotSupported
	}
	return driver.ResultInvalidValue
}

// caller returns what calls a function on the host that is told a status.
func caller(f driver.Callback, status driver.Result) func() {
	if f.Told == nil {
		return f.Go
	}
	return func() { f.Told(status) }
}

// hostOp returns an operation that calls a function on a goroutine of its own. The
// stream goes on when the function has returned. It may call the driver; that it
// must not is the program's business, as with NVIDIA's driver. Virtual time does
// not pass meanwhile, so that it does not depend on how fast the goroutine was.
func (d *Driver) hostOp(f func()) *op {
	o := &op{outside: true, visible: true}
	o.begin = func() {
		go func() {
			defer func() { // also if f ends its goroutine
				d.mu.Lock()
				defer d.mu.Unlock()
				d.engine.catchUp()
				o.at = o.began
				if !d.clock.virtual {
					o.at = d.clock.now()
				}
				d.engine.finish(o)
			}()
			f()
		}()
	}
	return o
}

// LaunchHostFunc is cuLaunchHostFunc. The function is not called if the device has
// a sticky error before the stream gets to it.
func (d *Driver) LaunchHostFunc(th *driver.Thread, h driver.Stream, f driver.Callback) driver.Result {
	defer d.mu.Unlock()
	s, _, r := d.onStream("cuLaunchHostFunc", th, h)
	if r == ok {
		r = callable(f)
	}
	if r != ok {
		return r
	}
	return d.submit(s, &work{node: hostNode, make: func() *op { return d.hostOp(caller(f, ok)) }})
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
		return d.spoil(s.capture, driver.ResultStreamCaptureUnsupported)
	}
	o := d.hostOp(caller(f, ok))
	began := false
	begin := o.begin
	o.begin = func() {
		began = true
		begin()
	}
	o.dropped = func() {
		if !began {
			go caller(f, d.lost)()
		}
	}
	d.engine.enqueue(s, o)
	return ok
}
