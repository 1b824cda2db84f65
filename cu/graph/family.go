package graph

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/lock"
)

// graphFamily is a graph, its clones, their clones, the graphs that one of these has as a child, and
// the executable graphs of all these. Its lock is held during the driver's calls that read, change or
// destroy a graph of the family, or that destroy an executable graph. It is not held while the
// program's function of Graph.Capture runs, and adds nodes: no crash was seen then. Destruction never
// waits for the lock.
//
// CUDA requires the program to make one call on a graph at a time. Driver 580 also crashes if, for
// example, two executable graphs of one graph are destroyed at a time: see docs/design/graphs.md.
type graphFamily struct {
	mu lock.Mutex[lock.Graph]
	// ended are members to destroy. They were closed while mu was held.
	ended atomic.Pointer[endedMember]
	// into is the family that this one has become part of, or nil. It changes while the locks of both
	// are held.
	into atomic.Pointer[graphFamily]
}

// root returns the family that f is part of now.
func (f *graphFamily) root() *graphFamily {
	for {
		into := f.into.Load()
		if into == nil {
			return f
		}
		f = into
	}
}

// Lock locks the family.
func (f *graphFamily) Lock() {
	for {
		r := f.root()
		if r.mu.Lock(); r.into.Load() == nil {
			return
		}
		r.mu.Unlock()
	}
}

// TryLock is Lock, but reports false instead of waiting.
func (f *graphFamily) TryLock() bool {
	for {
		r := f.root()
		if !r.mu.TryLock() {
			return false
		}
		if r.into.Load() == nil {
			return true
		}
		r.mu.Unlock()
	}
}

// lockBoth locks two families, which may be one. It waits for one lock at a time.
func lockBoth(f, other *graphFamily) {
	for {
		f.Lock()
		if f.root() == other.root() || other.TryLock() {
			return
		}
		f.Unlock()
		f, other = other, f
	}
}

// unlockBoth unlocks two families, which may be one.
func unlockBoth(f, other *graphFamily) {
	one := f.root() == other.root()
	if f.Unlock(); !one {
		other.Unlock()
	}
}

// merge makes two families one. The caller has locked both, and then the lock of the one.
func (f *graphFamily) merge(other *graphFamily) {
	f, other = f.root(), other.root()
	if f == other {
		return
	}
	other.into.Store(f)
	f.pushAll(other.ended.Swap(nil))
	other.mu.Unlock()
}

// familyMember is a graph or an executable graph.
type familyMember interface {
	core.Object
	Context() *core.Context
	// destroyRaw makes the driver destroy the object. The caller has locked the family.
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
	defer e.Context().EndHold() // also if a tracer panics
	e.releaseObjects()
}

// push adds a member to destroy.
func (f *graphFamily) push(e *endedMember) {
	r := f.root()
	for {
		e.next = r.ended.Load()
		if r.ended.CompareAndSwap(e.next, e) {
			break
		}
	}
	if r.into.Load() != nil { // since root: merge may not have seen e
		f.pushAll(r.ended.Swap(nil))
	}
}

func (f *graphFamily) pushAll(e *endedMember) {
	for e != nil {
		next := e.next
		f.push(e)
		e = next
	}
}

// destroy destroys a member without waiting. If another call is in flight, the goroutine of that
// call destroys the member afterwards, and an error goes to the leak hook.
func (f *graphFamily) destroy(at driver.At, m familyMember) (op string, res driver.Result) {
	if f.TryLock() {
		op, res = m.destroyRaw(at)
		f.Unlock()
		m.releaseObjects()
		return op, res
	}
	m.Context().Hold() // cannot fail: the member is a user of the context
	f.push(&endedMember{familyMember: m})
	if f.TryLock() { // the other call may have ended before it could see the member
		f.Unlock()
	}
	return "", driver.ResultSuccess
}

// Unlock unlocks the family, and destroys the members that were closed meanwhile. It calls no tracer:
// the objects of these members are released on another goroutine.
func (f *graphFamily) Unlock() {
	for {
		r := f.root()
		ended := r.ended.Swap(nil)
		for e := ended; e != nil; e = e.next {
			if op, res := e.destroyRaw(core.BackgroundAt()); res != driver.ResultSuccess {
				c := e.Context()
				c.Drv.Leak(drivercall.LeakReport{Kind: e.Kind(), Handle: e.Handle(),
					Err: c.BackgroundError(op, e.Handle(), res)})
			}
		}
		r.mu.Unlock()
		for e := ended; e != nil; e = e.next {
			e.Context().Drv.AfterLastCall(true, e.release)
		}
		if f.root().ended.Load() == nil || !f.TryLock() {
			return
		}
	}
}
