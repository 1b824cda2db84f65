package sim

import "github.com/purecu/purecu/driver"

// number returns the result of cuCtxGetId for the current context or green context.
func (c namedContext) number() uint64 {
	if c.green != nil {
		return c.green.id
	}
	return c.id
}

// thread returns the state of a thread.
func (d *Driver) thread(th *driver.Thread) *thread {
	if th == nil {
		return &d.threads.none
	}
	t, is := th.Local.(*thread)
	if !is {
		if t, is = d.threads.ended.Get().(*thread); !is {
			t = new(thread)
		}
		d.ids.thread++
		*t = thread{d: d, id: d.ids.thread, anyThread: th.Number() == 0, stack: t.stack[:0]}
		th.Local = t
	}
	return t
}

// top returns the thread's current context. A destroyed context stays current until another context
// is made current. A destroyed primary context is replaced by the next primary context, which has
// the same handle.
func (t *thread) top() (c namedContext) {
	if len(t.stack) == 0 {
		return c
	}
	c = t.stack[len(t.stack)-1]
	if c.primary && c.destroyed {
		c.context = c.dev.primary
	}
	return c
}

// current returns the thread's current context.
func (t *thread) current() *context { return t.top().context }
