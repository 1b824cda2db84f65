//go:build explore

package explore

import "sync"

// The types replace those of sync/atomic.
type (
	Int32  = number[int32]
	Int64  = number[int64]
	Uint32 = number[uint32]
	Uint64 = number[uint64]
)

// number is an integer whose operations are scheduling points. The mutex makes them atomic outside
// of a run.
type number[T int32 | int64 | uint32 | uint64] struct {
	mu sync.Mutex
	v  T
}

// change is one step. It replaces the value by f(value), and returns both values.
func (x *number[T]) change(what string, f func(old T) T) (old, now T) {
	step(what)
	x.mu.Lock()
	defer x.mu.Unlock()
	old, now = x.v, f(x.v)
	x.v = now
	return old, now
}

// Load loads the value.
func (x *number[T]) Load() T {
	v, _ := x.change("Load", func(old T) T { return old })
	return v
}

// Store stores a value.
func (x *number[T]) Store(v T) { x.change("Store", func(T) T { return v }) }

// Add adds to the value and returns the sum.
func (x *number[T]) Add(delta T) T {
	_, v := x.change("Add", func(old T) T { return old + delta })
	return v
}

// Or sets the value to its union with mask, and returns the former one.
func (x *number[T]) Or(mask T) T {
	v, _ := x.change("Or", func(old T) T { return old | mask })
	return v
}

// And sets the value to its intersection with mask, and returns the former one.
func (x *number[T]) And(mask T) T {
	v, _ := x.change("And", func(old T) T { return old & mask })
	return v
}

// Swap stores a value and returns the former one.
func (x *number[T]) Swap(v T) T {
	old, _ := x.change("Swap", func(T) T { return v })
	return old
}

// CompareAndSwap stores a value if the former one is old.
func (x *number[T]) CompareAndSwap(old, v T) bool {
	was, _ := x.change("CompareAndSwap", func(now T) T {
		if now == old {
			return v
		}
		return now
	})
	return was == old
}

// peek returns the value without a scheduling point.
func (x *number[T]) peek() T {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.v
}
