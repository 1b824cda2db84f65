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

// begin notes a wait of the function until end is called.
func (h *hostCall) begin(w *wait) (end func()) {
	h.waits = append(h.waits, w)
	return func() { h.waits = slices.DeleteFunc(h.waits, func(other *wait) bool { return other == w }) }
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
