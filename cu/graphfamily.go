package cu

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// graphFamily is a graph, its clones, their clones, and the executable graphs of all these. mu is
// held during the driver's calls that read, change or destroy a graph of the family, or that destroy
// an executable graph. It is not held while the program's function of Graph.Capture runs, and adds
// nodes: no crash was seen then. Destruction never waits for mu.
//
// CUDA requires the program to make one call on a graph at a time. Driver 580 also crashes if, for
// example, two executable graphs of one graph are destroyed at a time: see docs/design/graphs.md.
type graphFamily struct {
	mu lock.Mutex[lock.Graph]
	// ended are members to destroy. They were closed while mu was held.
	ended atomic.Pointer[endedMember]
}

// familyMember is a graph or an executable graph.
type familyMember interface {
	object
	context() *contextCore
	// destroyRaw makes the driver destroy the object. The caller holds the family's mu.
	destroyRaw(at driver.At) (op string, res driver.Result)
	// releaseObjects ends the use of other objects, after destroyRaw and without a lock.
	releaseObjects()
}

// endedMember is an element of the list graphFamily.ended.
type endedMember struct {
	familyMember
	next *endedMember
}

// release ends the member's use of other objects, and then of its context.
func (e *endedMember) release() {
	defer e.context().endHold() // also if a tracer panics
	e.releaseObjects()
}

// destroy destroys a member without waiting. If another call is in flight, the goroutine of that
// call destroys the member afterwards, and an error goes to the leak hook.
func (f *graphFamily) destroy(at driver.At, m familyMember) (op string, res driver.Result) {
	if f.mu.TryLock() {
		op, res = m.destroyRaw(at)
		f.unlock()
		m.releaseObjects()
		return op, res
	}
	m.context().hold() // cannot fail: the member is a user of the context
	e := &endedMember{familyMember: m}
	for {
		e.next = f.ended.Load()
		if f.ended.CompareAndSwap(e.next, e) {
			break
		}
	}
	if f.mu.TryLock() { // the other call may have ended before it could see e
		f.unlock()
	}
	return "", driver.ResultSuccess
}

// unlock unlocks mu, and destroys the members that were closed meanwhile. It calls no tracer: the
// objects of these members are released on another goroutine.
func (f *graphFamily) unlock() {
	for {
		ended := f.ended.Swap(nil)
		for e := ended; e != nil; e = e.next {
			if op, res := e.destroyRaw(background()); res != driver.ResultSuccess {
				c := e.context()
				c.drv.leak(Leak{Kind: e.kind(), Handle: e.handle(), Err: c.backgroundError(op, e.handle(), res)})
			}
		}
		f.mu.Unlock()
		for e := ended; e != nil; e = e.next {
			e.context().drv.last(true, e.release)
		}
		if f.ended.Load() == nil || !f.mu.TryLock() {
			return
		}
	}
}
