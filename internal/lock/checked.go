//go:build lockorder

package lock

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// order contains a value of each type in the list of order.go, in the same order.
var order = [...]any{
	Exec{}, Graph{}, StreamCapture{}, Moving{}, Prepared{}, Virtual{}, Thread{}, StreamPool{}, ObjectSet{}, EventOwner{},
	Polls{}, Watcher{},
	Ticket{}, HandleUses{}, StreamSet{}, Delayed{}, Growing{}, HostCalls{}, EventPool{}, Captures{}, Marks{},
	Exports{}, Driver{},
	StreamEnds{}, Context{}, WakeUps{},
	EventCache{}, Peers{}, Deferred{}, Timelines{}, Cells{}, Slabs{}, LongCalls{}, Gates{}, Races{}, Log{},
}

// several reports whether a goroutine may hold more than one lock at a place of the order.
func several(place any) bool {
	switch place.(type) {
	case StreamCapture, ObjectSet:
		return true
	}
	return false
}

// held contains the locks that each goroutine holds, by the goroutine's number, in the order in
// which it took them.
var held = struct {
	mu  sync.Mutex
	all map[uint64][]entry
}{all: make(map[uint64][]entry)}

// entry is a lock that is held.
type entry struct {
	lock  any
	place any
}

// goroutine returns the number of the calling goroutine.
func goroutine() uint64 {
	var buf [64]byte
	text := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	n, _ := strconv.ParseUint(string(text[:bytes.IndexByte(text, ' ')]), 10, 64)
	return n
}

// taking checks that the calling goroutine may wait for a lock.
func taking(place any) {
	g := goroutine()
	held.mu.Lock()
	defer held.mu.Unlock()
	for _, e := range held.all[g] {
		switch d := slices.Index(order[:], place) - slices.Index(order[:], e.place); {
		case d < 0, d == 0 && !several(place):
			fail(g, fmt.Sprintf("takes %T", place))
		}
	}
}

// took notes that the calling goroutine has taken a lock.
func took(lock, place any) {
	g := goroutine()
	held.mu.Lock()
	defer held.mu.Unlock()
	held.all[g] = append(held.all[g], entry{lock, place})
}

// released notes that a lock is released. The goroutine that releases it need not be the goroutine
// that took it.
func released(lock any) {
	g := goroutine()
	held.mu.Lock()
	defer held.mu.Unlock()
	if drop(g, lock) {
		return
	}
	for other := range held.all {
		if drop(other, lock) {
			return
		}
	}
}

func drop(g uint64, lock any) bool {
	list := held.all[g]
	for i, e := range slices.Backward(list) {
		if e.lock == lock {
			if list = slices.Delete(list, i, i+1); len(list) == 0 {
				delete(held.all, g)
			} else {
				held.all[g] = list
			}
			return true
		}
	}
	return false
}

// fail panics with the locks that the goroutine holds.
func fail(g uint64, what string) {
	var names []string
	for _, e := range held.all[g] {
		names = append(names, fmt.Sprintf("%T", e.place))
	}
	panic("lock order: the goroutine " + what + " while it holds " + strings.Join(names, ", "))
}

// None checks that the calling goroutine holds no lock. before names the call that follows, which
// may take any lock.
func None(before string) {
	g := goroutine()
	held.mu.Lock()
	defer held.mu.Unlock()
	if len(held.all[g]) > 0 {
		fail(g, "calls "+before)
	}
}

// Mutex is a lock at the place R of the order.
type Mutex[R any] struct{ mu sync.Mutex }

// Lock is [sync.Mutex.Lock].
func (m *Mutex[R]) Lock() {
	var place R
	taking(place)
	m.mu.Lock()
	took(m, place)
}

// TryLock is [sync.Mutex.TryLock]. It never blocks, so it may be called out of order.
func (m *Mutex[R]) TryLock() bool {
	var place R
	if !m.mu.TryLock() {
		return false
	}
	took(m, place)
	return true
}

// Unlock is [sync.Mutex.Unlock].
func (m *Mutex[R]) Unlock() {
	released(m)
	m.mu.Unlock()
}

// RWMutex is a lock at the place R of the order, which several goroutines may hold for reading.
type RWMutex[R any] struct{ mu sync.RWMutex }

// Lock is [sync.RWMutex.Lock].
func (m *RWMutex[R]) Lock() {
	var place R
	taking(place)
	m.mu.Lock()
	took(m, place)
}

// TryLock is [sync.RWMutex.TryLock].
func (m *RWMutex[R]) TryLock() bool {
	var place R
	if !m.mu.TryLock() {
		return false
	}
	took(m, place)
	return true
}

// Unlock is [sync.RWMutex.Unlock].
func (m *RWMutex[R]) Unlock() {
	released(m)
	m.mu.Unlock()
}

// RLock is [sync.RWMutex.RLock].
func (m *RWMutex[R]) RLock() {
	var place R
	taking(place)
	m.mu.RLock()
	took(m, place)
}

// TryRLock is [sync.RWMutex.TryRLock].
func (m *RWMutex[R]) TryRLock() bool {
	var place R
	if !m.mu.TryRLock() {
		return false
	}
	took(m, place)
	return true
}

// RUnlock is [sync.RWMutex.RUnlock].
func (m *RWMutex[R]) RUnlock() {
	released(m)
	m.mu.RUnlock()
}
