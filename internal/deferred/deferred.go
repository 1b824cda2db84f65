// Package deferred keeps objects that are not in use any more, and are freed later.
//
// An object stays in the list until somebody frees it, so that it is not lost if the wait for its
// last work is interrupted. Exactly one goroutine gets an object: it claims the object to free it,
// or takes it to use it again. The package does not know what the objects are, nor when they can be
// freed.
package deferred

import (
	"container/list"
	"maps"
	"slices"

	"github.com/purecu/purecu/internal/lock"
)

// Fit says for which uses an object can be used again.
type Fit struct {
	Kind  any // the kind of the object, a comparable value
	Flags uint32
	Class uint64 // of sizes that are about the same
}

// List has objects of type O. The zero value is an empty list.
type List[O comparable] struct {
	mu      lock.Mutex[lock.Deferred]
	objects map[O]entry
	// fitting has the objects that can be used again, by the uses that they fit: lists of O.
	fitting map[Fit]*list.List
	// bytes is the size of all objects.
	bytes uint64
	// freeing counts the claimed objects. freed is closed when freeing becomes 0.
	freeing int
	freed   chan struct{}
}

// entry is what a list knows of an object.
type entry struct {
	size uint64
	fit  Fit
	at   *list.Element // in fitting, nil if the object is not there
}

// Add adds an object of size bytes, which cannot be used again.
func (l *List[O]) Add(o O, size uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(o, entry{size: size})
}

// AddReusable adds an object of size bytes, which Take may return.
func (l *List[O]) AddReusable(o O, size uint64, fit Fit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fitting == nil {
		l.fitting = make(map[Fit]*list.List)
	}
	if l.fitting[fit] == nil {
		l.fitting[fit] = list.New()
	}
	l.add(o, entry{size, fit, l.fitting[fit].PushBack(o)})
}

// add adds an object. The caller holds l.mu.
func (l *List[O]) add(o O, e entry) {
	if l.objects == nil {
		l.objects = make(map[O]entry)
	}
	l.objects[o] = e
	l.bytes += e.size
}

// remove removes an object, and reports false if it is not there. The caller holds l.mu.
func (l *List[O]) remove(o O) bool {
	e, there := l.objects[o]
	if !there {
		return false
	}
	delete(l.objects, o)
	l.bytes -= e.size
	if e.at != nil {
		fitting := l.fitting[e.fit]
		fitting.Remove(e.at)
		if fitting.Len() == 0 {
			delete(l.fitting, e.fit)
		}
	}
	return true
}

// Take removes and returns the object that was added first of those that fit.
func (l *List[O]) Take(fit Fit) (o O, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fitting := l.fitting[fit]
	if fitting == nil {
		return o, false
	}
	o, ok = fitting.Front().Value.(O)
	l.remove(o)
	return o, ok
}

// All returns all objects, and removes none.
func (l *List[O]) All() []O {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.objects))
}

// Claim removes an object for the caller, which must free it, and then call done. ok is false if
// another goroutine has taken or claimed the object. The caller must not call a tracer, or other code
// of the program, between Claim and done: that code may call WaitFreed, which waits for done.
func (l *List[O]) Claim(o O) (done func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.remove(o) {
		return nil, false
	}
	if l.freeing++; l.freeing == 1 {
		l.freed = make(chan struct{})
	}
	return l.done, true
}

// done ends what Claim began.
func (l *List[O]) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.freeing--; l.freeing == 0 {
		close(l.freed)
		l.freed = nil
	}
}

// WaitFreed waits until the objects are freed that are claimed now.
func (l *List[O]) WaitFreed() {
	l.mu.Lock()
	freed := l.freed
	l.mu.Unlock()
	if freed != nil {
		<-freed
	}
}

// Size returns the number of objects, and their size in bytes.
func (l *List[O]) Size() (objects int, bytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.objects), l.bytes
}

// Pending reports whether there are objects, or claimed objects that are not freed yet.
func (l *List[O]) Pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.objects) > 0 || l.freeing > 0
}

// Locked calls f while the list is locked. f accesses fields of objects that several goroutines
// change, and takes no lock.
func (l *List[O]) Locked(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}
