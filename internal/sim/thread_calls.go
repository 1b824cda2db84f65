package sim

import "github.com/purecu/purecu/driver"

// name returns the handle of the current context or green context.
func (c namedContext) name() driver.Context {
	if c.green != nil {
		return driver.Context(c.green.handle)
	}
	return c.handle
}

// EndThread removes the state of a thread that has ended. The work on its default streams is still
// done.
func (d *Driver) EndThread(th *driver.Thread) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.thread(th)
	for _, s := range t.own {
		if s.capture != nil && s.capture.invalidated {
			d.misuse("the end of a thread", uintptr(driver.CU_STREAM_PER_THREAD),
				"a capture of its default stream has failed, and was not ended", nil)
		}
	}
	t.forgetStreams()
	th.Local = nil
}

// End is called when a goroutine does not hold the thread any more: see driver.LocalState. The operating system's
// thread may live on, but the next goroutine that holds it has another state.
func (t *thread) End() {
	if t.own != nil { // only the goroutine of the thread, and the end of a context, change it
		t.d.mu.Lock()
		t.forgetStreams()
		t.d.mu.Unlock()
	}
	clear(t.stack[:cap(t.stack)])
	t.d.threads.ended.Put(t)
}

// forgetStreams removes the thread's default streams.
func (t *thread) forgetStreams() {
	for c, s := range t.own {
		if s.capture != nil {
			t.d.abandon(s)
		}
		c.forget(s)
	}
	t.own = nil
}

// CtxPushCurrent is cuCtxPushCurrent_v2.
func (d *Driver) CtxPushCurrent(th *driver.Thread, ctx driver.Context) driver.Result {
	defer d.mu.Unlock()
	if ctx == 0 {
		if r := d.begin("cuCtxPushCurrent"); r != ok {
			return r
		}
		return driver.ResultInvalidValue
	}
	c, r := d.aboutNamed("cuCtxPushCurrent", ctx)
	if r != ok {
		return r
	}
	if c.destroyed && !c.primary {
		return driver.ResultContextIsDestroyed
	}
	if t := d.thread(th); th != nil {
		t.stack = append(t.stack, c)
	}
	return ok
}

// CtxPopCurrent is cuCtxPopCurrent_v2.
func (d *Driver) CtxPopCurrent(th *driver.Thread) (driver.Context, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuCtxPopCurrent"); r != ok {
		return 0, r
	}
	t := d.thread(th)
	c := t.top()
	if c.context == nil {
		return 0, driver.ResultInvalidContext
	}
	t.stack = t.stack[:len(t.stack)-1]
	return c.name(), ok
}

// CtxGetCurrent is cuCtxGetCurrent.
func (d *Driver) CtxGetCurrent(th *driver.Thread) (driver.Context, driver.Result) {
	defer d.mu.Unlock()
	if r := d.begin("cuCtxGetCurrent"); r != ok {
		return 0, r
	}
	if c := d.thread(th).top(); c.context != nil {
		return c.name(), ok
	}
	return 0, ok
}

// CtxSetCurrent is cuCtxSetCurrent: it replaces the top of the stack.
func (d *Driver) CtxSetCurrent(th *driver.Thread, ctx driver.Context) driver.Result {
	defer d.mu.Unlock()
	var c namedContext
	if ctx != 0 {
		var r driver.Result
		if c, r = d.aboutNamed("cuCtxSetCurrent", ctx); r != ok {
			return r
		}
		if c.destroyed && !c.primary && d.lost == ok {
			return driver.ResultContextIsDestroyed
		}
	} else if r := d.begin("cuCtxSetCurrent"); r != ok {
		return r
	}
	t := d.thread(th)
	if th == nil {
		return ok
	}
	if n := len(t.stack); n > 0 {
		t.stack = t.stack[:n-1]
	}
	if c.context != nil {
		t.stack = append(t.stack, c)
	}
	return ok
}
