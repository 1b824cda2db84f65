package cu

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/handle"
)

// ownership is who keeps a CUDA context, and what is done when nobody does. There are three states. With users, the
// claim stays. Without users the context is abandoned: the driver has it on a list, and the next call that may wait for
// the GPU releases the claim, unless somebody asks for the same context again before. One caller releases it.
type ownership struct {
	// claim is what has to be released in the end. The driver's mutex guards it.
	claim claim
	// users are those that keep the claim. The driver's mutex is held where the first one comes.
	users handle.Users
	// abandoned says that the driver has the context on its list of these, and releasing that somebody releases it, or
	// has. The driver's mutex guards both.
	abandoned, releasing bool
	// gone is set when the context has been released.
	gone atomic.Bool

	// owners counts the Contexts that are open. It keeps nothing, and only wakes those who wait in the context.
	owners atomic.Int32
	// closings is how often the last one was closed.
	closings atomic.Uint32
}

// claim is the kind of hold on a CUDA context.
type claim uint8

const (
	borrowed claim = iota // somebody else's
	retained              // a primary context
	created               // made by cuCtxCreate
)

// isBorrowed reports whether the CUDA context is somebody else's.
func (c *contextCore) isBorrowed() bool {
	c.drv.mu.Lock() // a claim may take the place of somebody else's
	defer c.drv.mu.Unlock()
	return c.claim == borrowed
}

// contextKey tells CUDA contexts apart. Handles do not: a primary context that
// was released comes back with the same one.
type contextKey struct {
	// id is what cuCtxGetId says, which is never used twice in a process, or,
	// where the driver lacks the function, 0.
	id uint64
	// raw is the handle where there is no id, else 0. A claim keeps the context
	// alive, so it is as good as an id while the core is in the table.
	raw driver.Context
}

// keyOf returns the key of a CUDA context.
func (d *Driver) keyOf(raw driver.Context) (contextKey, error) {
	switch id, res := d.table.CtxGetId(driver.At{Relaxed: true}, raw); {
	case res == driver.ResultSuccess:
		return contextKey{id: id}, nil
	case d.table.Missing(res) == nil: // not just a driver before CUDA 12.0
		return contextKey{}, d.fail("cuCtxGetId", uintptr(raw), res)
	}
	return contextKey{raw: raw}, nil
}

// hold counts one more user, unless there is none left, in which case the claim
// is being released.
func (c *contextCore) hold() bool { return c.users.Hold() }

// childDone takes a user away, and does not wait for the GPU: see abandon.
func (c *contextCore) childDone() {
	if c.users.Drop() {
		c.abandon()
	}
}

// abandon is called when the last user is gone and nobody may wait for the GPU. A claim is released by the next
// call that may, or it serves whoever asks for the same context again.
func (c *contextCore) abandon() {
	d := c.drv
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !c.users.None() || c.releasing || c.abandoned:
	case c.claim == borrowed:
		// Its owner may destroy the context from now on. To let go of it does not wait, as nothing is freed.
		c.releasing = true
		d.forget(c)
		go func() {
			if err := c.releaseCUDA(background()); err != nil {
				d.leak(Leak{Kind: "context", Handle: uintptr(c.raw), Err: err})
			}
		}()
	default:
		c.abandoned = true
		d.abandoned = append(d.abandoned, c)
	}
}

// revive makes the caller a user of a context without users. It reports false if somebody releases the context, or has.
func (c *contextCore) revive() bool {
	c.drv.mu.Lock()
	defer c.drv.mu.Unlock()
	return c.reviveLocked()
}

// reviveLocked is revive, and hold for a context that has users, with the driver's mutex held.
func (c *contextCore) reviveLocked() bool {
	if c.hold() {
		return true
	}
	if c.releasing {
		return false
	}
	c.unlistAbandoned()
	c.users.Revive()
	return true
}

// unlistAbandoned is called with the driver's mutex held.
func (c *contextCore) unlistAbandoned() {
	if c.abandoned {
		c.abandoned = false
		c.drv.abandoned = without(c.drv.abandoned, c)
	}
}

// release takes a user away, like childDone, in a call that is documented to wait for the GPU: it frees what is
// deferred, and releases the context if the user was the last one.
func (c *contextCore) release() error {
	freed := false
	defer func() {
		if !freed { // a tracer panics
			c.childDone()
		}
	}()
	c.drv.watch.Settle(c.drv.table.Clock())
	c.freeDeferred()
	freed = true
	if !c.users.Drop() {
		return nil
	}
	if c.takeOver() {
		return c.releaseCUDA(driver.At{Relaxed: true})
	}
	c.abandon() // with what could not be freed now, as a stream is being captured
	return nil
}

// releaseLate is release when nobody is told of an error but the leak hook.
func (c *contextCore) releaseLate() {
	if err := c.release(); err != nil {
		c.drv.leak(Leak{Kind: "context", Handle: uintptr(c.raw), Err: err})
	}
}

// takeOver reports true to the one caller that releases a context without users, in which nothing is deferred.
func (c *contextCore) takeOver() bool {
	c.drv.mu.Lock()
	defer c.drv.mu.Unlock()
	if left, _ := c.deferred.size(); left > 0 || !c.users.None() || c.releasing {
		return false
	}
	c.releasing = true
	c.unlistAbandoned()
	c.drv.forget(c)
	return true
}

// forget lets nobody find the context any more. The driver's mutex is held.
func (d *Driver) forget(c *contextCore) {
	if d.contexts[c.key] == c {
		delete(d.contexts, c.key)
	}
}

// releaseCUDA destroys what the context itself keeps, and releases or destroys the CUDA context, by
// calls as at says. It has one caller, to whom takeOver has reported true, or who has set
// releasing. Nobody else is left to touch what the context keeps.
func (c *contextCore) releaseCUDA(at driver.At) (err error) {
	defer c.gone.Store(true)
	steps := [...]func(){
		func() { c.endPools(at) },
		func() { c.endTails(at) }, // whoever waits for the end of a stream's work relies on this
		func() { c.endWakeUps(at) },
		c.keepDeferred,
		func() { c.endEvents(at) },
		func() { err = c.end(at) },
	}
	each(len(steps), func(i int) { steps[i]() }) // also if a tracer panics
	return err
}

// end ends the claim, when the work of timelines is done.
func (c *contextCore) end(at driver.At) (err error) {
	defer c.dropHostFuncs()
	each(2, func(step int) { // also if a tracer panics
		switch {
		case step == 0:
			c.endTimelines(&err)
		case err == nil:
			err = c.endClaim(at)
		}
	})
	return err
}

// endClaim ends the claim.
func (c *contextCore) endClaim(at driver.At) error {
	d := c.drv
	left, in := c.leaveSlabs(at), c.key // others may go on with it
	dev := c.primaryOf()
	defer func() { d.slabs.putAll(left, in, dev) }()
	switch c.claim {
	case retained:
		if res := d.table.DevicePrimaryCtxRelease(at, c.dev); res != driver.ResultSuccess {
			return c.failed("cuDevicePrimaryCtxRelease", uintptr(c.raw), res)
		}
		if len(left) == 0 {
			break
		}
		if _, active, res := d.table.DevicePrimaryCtxGetState(driver.At{Relaxed: true}, c.dev); res == driver.ResultSuccess &&
			active == 0 {
			in = contextKey{}
		}
	case created:
		if res := d.table.CtxDestroy(at, c.raw); res != driver.ResultSuccess {
			return c.failed("cuCtxDestroy", uintptr(c.raw), res)
		}
		in = contextKey{}
	}
	return nil
}

// release gives a claim to the primary context back that turned out not to be
// needed.
func (dev *Device) release() {
	if res := dev.drv.table.DevicePrimaryCtxRelease(driver.At{Relaxed: true}, dev.raw); res != driver.ResultSuccess {
		dev.drv.leak(Leak{Kind: "context", Err: dev.drv.fail("cuDevicePrimaryCtxRelease", 0, res)})
	}
}
