//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Call calls thunk(frame) on this thread, in the name of the identity that the goroutine
// has reserved, or else of any. start is what [Start] takes: a function that is in no
// library may be called before there is one. Without a glibc nothing is called.
func Call(start, thunk, frame unsafe.Pointer) {
	if r := reserved(); r != nil {
		r.Call(start, thunk, frame)
		return
	}
	g := running.Load()
	if g == nil {
		if g, _ = Start(start); g == nil {
			return
		}
	}
	id := g.pool.get(g)
	id.call(thunk, frame)
	g.pool.put(id)
}

// Work has an identity's own thread call thunk(frame), otherwise as [Call] does.
func Work(start, thunk, frame unsafe.Pointer) {
	if r := reserved(); r != nil {
		r.Work(start, thunk, frame)
		return
	}
	g, _ := Start(start)
	if g == nil {
		return
	}
	id := g.pool.get(g)
	id.post(thunk, frame)
	g.pool.put(id)
}

// Identity is one that a goroutine has reserved, which is locked to its thread meanwhile.
// All of its calls are made in the name of it.
type Identity struct {
	id    *identity // nil until the first call
	g     uintptr   // the goroutine, which does not move
	tid   int       // of the thread that it is locked to
	count int       // how often it has reserved it
	dirty bool      // nobody else may have it
}

// reservations has the identities that are reserved, by the goroutine.
var reservations struct {
	n      atomic.Int32
	shards [64]reservationShard
}

type reservationShard struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*Identity] // never changed, but replaced
}

func shardOf(g uintptr) *reservationShard {
	return &reservations.shards[(g>>7^g>>13)%uintptr(len(reservations.shards))]
}

// currentG returns the address of the goroutine's descriptor.
func currentG() uintptr

// reserved returns what the calling goroutine has reserved, or nil.
func reserved() *Identity {
	if reservations.n.Load() == 0 {
		return nil
	}
	g := currentG()
	list := shardOf(g).list.Load()
	if list == nil {
		return nil
	}
	for _, r := range *list {
		// One that has ended without a word may have left its descriptor to another.
		if r.g == g && r.tid == syscall.Gettid() {
			return r
		}
	}
	return nil
}

// Reserve takes an identity for the calling goroutine, which is locked to its thread, until it has called
// Release as often. If it has one it is the same.
func Reserve() *Identity {
	if r := reserved(); r != nil {
		r.count++
		return r
	}
	r := &Identity{g: currentG(), tid: syscall.Gettid(), count: 1}
	shardOf(r.g).change(r, true)
	return r
}

// change puts a reservation on the list, or takes it away.
func (s *reservationShard) change(r *Identity, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*Identity
	if old := s.list.Load(); old != nil {
		for _, o := range *old {
			if o != r {
				list = append(list, o)
			}
		}
	}
	if on {
		list = append(list, r)
		reservations.n.Add(1)
	} else {
		reservations.n.Add(-1)
	}
	s.list.Store(&list)
}

// Call calls thunk(frame) on this thread in the name of the identity.
func (r *Identity) Call(start, thunk, frame unsafe.Pointer) {
	if id := r.take(start); id != nil {
		id.call(thunk, frame)
	}
}

// Work has the identity's own thread call thunk(frame).
func (r *Identity) Work(start, thunk, frame unsafe.Pointer) {
	if id := r.take(start); id != nil {
		id.post(thunk, frame)
	}
}

// take returns the identity, taken when it is first needed.
func (r *Identity) take(start unsafe.Pointer) *identity {
	if r.id == nil {
		if g, _ := Start(start); g != nil {
			r.id = g.pool.get(g)
		}
	}
	return r.id
}

// Release gives the identity back.
func (r *Identity) Release() {
	if r.count--; r.count > 0 {
		return
	}
	shardOf(r.g).change(r, false)
	if r.id == nil {
		return
	}
	g, id := running.Load(), r.id
	r.id = nil
	if r.dirty {
		g.pool.ending.Add(1)
		id.end()
	} else {
		g.pool.put(id)
	}
}

// Abandon gives the identity back, for nobody else to have: its thread ends, and with
// it what libraries keep for it. The goroutine may be gone.
func (r *Identity) Abandon() {
	r.dirty = true
	r.Release()
}
