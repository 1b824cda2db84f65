//go:build explore

package handle

import (
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/explore"
)

// program is a program that is run under all schedules with up to two preemptions, and then under
// random schedules.
type program struct {
	name string
	run  func(r *explore.Run)
}

var refsPrograms = []program{
	// Calls and closes.

	{"two calls", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.call() })
		r.Go(func() { c.call() })
	}},
	{"a call and a close", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.call() })
		r.Go(c.close)
	}},
	{"two calls and a close", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.call() })
		r.Go(func() { c.call() })
		r.Go(c.close)
	}},
	{"a call after a call, and a close", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.call(); c.call() })
		r.Go(c.close)
	}},
	{"a call and two closes", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.call() })
		r.Go(c.close)
		r.Go(c.close)
	}},
	{"three closes", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(c.close)
		r.Go(c.close)
		r.Go(c.close)
	}},
	{"a close after a close, and a call", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.close(); c.close() })
		r.Go(func() { c.call() })
	}},
	{"the last release, a close, and a call that is refused", func(r *explore.Run) {
		c := newCounted(r)
		c.Retain()
		r.Go(c.use)
		r.Go(func() { c.close(); c.call() })
		r.Go(func() { c.call() })
	}},
	{"the last release of a closed handle, and two calls", func(r *explore.Run) {
		c := newCounted(r)
		c.Retain()
		c.close()
		r.Go(c.use)
		for range 2 {
			r.Go(func() {
				if c.call() {
					r.Fail("a closed handle allowed a call")
				}
			})
		}
	}},
	{"two last releases, and a call", func(r *explore.Run) {
		c := newCounted(r)
		c.Retain()
		c.Retain()
		c.close()
		r.Go(c.use)
		r.Go(c.use)
		r.Go(func() { c.call() })
	}},
	{"a call that retains the handle for another goroutine, and a close", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() {
			if c.Acquire(c) {
				c.Retain()
				explore.Go(c.use)
				c.use()
			}
		})
		r.Go(c.close)
	}},
	{"a call during which the handle is closed", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() {
			if c.Acquire(c) {
				c.enter()
				c.close()
				if c.destroyed != 0 {
					r.Fail("destroyed during a call")
				}
				c.leave()
				c.Release(c)
			}
		})
		r.Go(func() { c.call() })
	}},
	{"a call under a lock that the destruction takes", func(r *explore.Run) {
		c := newCounted(r)
		c.locked = new(explore.Mutex)
		c.Retain()
		r.Go(c.use)
		r.Go(c.close)
		r.Go(func() {
			c.locked.Lock()
			entered := c.Acquire(c)
			c.locked.Unlock()
			if entered {
				c.use()
			}
		})
	}},
	{"an Enter, a release, and a close", func(r *explore.Run) {
		c := newCounted(r)
		c.locked = new(explore.Mutex)
		c.Retain()
		r.Go(c.use)
		r.Go(c.close)
		r.Go(func() {
			late := c.firsts != 0
			c.locked.Lock()
			err := c.Enter(c, "test")
			c.locked.Unlock()
			switch {
			case err == nil && late:
				r.Fail("a call has begun after Close")
			case err == nil:
				c.use()
			case err != errRefused || !c.closed:
				r.Fail("an open handle refused a call: %v", err)
			}
		})
	}},
	{"a sole call, and another one", func(r *explore.Run) {
		c := newCounted(r)
		alone := func() {
			if c.Acquire(c) {
				c.enter()
				if c.Sole() && c.inUse != 1 {
					r.Fail("a call counts as the sole one, and there are %d", c.inUse)
				}
				c.leave()
				c.Release(c)
			}
		}
		r.Go(alone)
		r.Go(alone)
		r.Go(c.close)
	}},
	{"a call that checks whether the handle is closed", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(c.close)
		r.Go(func() {
			late := c.firsts != 0
			if shut := c.Closed(); shut != c.closed && (late || shut) {
				r.Fail("closed: %v", shut)
			}
		})
		r.Go(func() {
			if n := c.CallsInFlight(); n != 0 {
				r.Fail("%d calls are in flight", n)
			}
		})
	}},

	// Gated calls.

	{"a gated call and a close", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.callGated() })
		r.Go(c.close)
	}},
	{"two gated calls, and a call", func(r *explore.Run) {
		c := newCounted(r)
		r.Go(func() { c.callGated() })
		r.Go(func() { c.callGated() })
		r.Go(func() {
			if c.call(); c.CallsInFlight() > 2 {
				r.Fail("%d calls are in flight", c.CallsInFlight())
			}
		})
	}},
	{"the last release of a closed handle, and a gated call", func(r *explore.Run) {
		c := newCounted(r)
		c.Retain()
		c.close()
		r.Go(c.use)
		r.Go(func() {
			if c.callGated() {
				r.Fail("a closed handle allowed a call")
			}
		})
	}},
	{"a gated call, which is the sole one until there is another", func(r *explore.Run) {
		c := newCounted(r)
		if !c.AcquireGated(c) || !c.Sole() {
			r.Fail("the only call is not the sole one")
		}
		c.enter()
		r.Go(func() { c.call() })
		r.Go(func() {
			if c.Sole() && c.inUse != 1 {
				r.Fail("a call counts as the sole one, and there are %d", c.inUse)
			}
			c.leave()
			c.ReleaseGated(c)
		})
	}},
	{"a gated call, and a goroutine that keeps marked calls out", func(r *explore.Run) {
		c := newCounted(r)
		var shut explore.Int32
		r.Go(func() {
			if !c.AcquireGated(c) {
				r.Fail("refused")
			}
			if shut.Load() == 0 {
				c.enter()
				c.leave()
			}
			c.ReleaseGated(c)
		})
		r.Go(func() {
			shut.Store(1)
			if !c.Gated() && c.inUse != 0 {
				r.Fail("a call is in flight, and not marked")
			}
		})
		r.Go(func() { c.call() })
	}},

	// Users.

	{"two users", func(r *explore.Run) {
		s := newShared(r)
		r.Go(func() { s.call() })
		r.Go(s.drop)
	}},
	{"three users", func(r *explore.Run) {
		s := newShared(r)
		r.Go(func() { s.call() })
		r.Go(func() { s.call() })
		r.Go(s.drop)
	}},
	{"two users that begin and end", func(r *explore.Run) {
		s := newShared(r)
		r.Go(func() { s.drop(); s.call() })
		r.Go(func() { s.call(); s.call() })
	}},
	{"two users that stay", func(r *explore.Run) {
		s := newShared(r)
		hold := func() {
			if !s.Hold() {
				r.Fail("no user is left")
			}
		}
		r.Go(hold)
		r.Go(hold)
		r.Finally(func() {
			for range 3 {
				s.drop()
			}
		})
	}},
}

func TestPrograms(t *testing.T) {
	for _, p := range slices.Concat(refsPrograms, keptPrograms, recordsPrograms) {
		t.Run(strings.ReplaceAll(p.name, " ", "-"), func(t *testing.T) { explore.Check(t, p.run) })
	}
}
