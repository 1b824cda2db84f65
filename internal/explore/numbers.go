//go:build explore

package explore

import "sync/atomic"

// Int32 stands for [atomic.Int32].
type Int32 struct{ v atomic.Int32 }

// Load loads the value.
func (x *Int32) Load() int32 {
	step("Int32.Load")
	return x.v.Load()
}

// Store stores a value.
func (x *Int32) Store(v int32) {
	step("Int32.Store")
	x.v.Store(v)
}

// Add adds to the value and returns the sum.
func (x *Int32) Add(delta int32) int32 {
	step("Int32.Add")
	return x.v.Add(delta)
}

// And sets the value to its intersection with mask, and returns the former one.
func (x *Int32) And(mask int32) int32 {
	step("Int32.And")
	return x.v.And(mask)
}

// Or sets the value to its union with mask, and returns the former one.
func (x *Int32) Or(mask int32) int32 {
	step("Int32.Or")
	return x.v.Or(mask)
}

// Swap stores a value and returns the former one.
func (x *Int32) Swap(v int32) int32 {
	step("Int32.Swap")
	return x.v.Swap(v)
}

// CompareAndSwap stores a value if the former one is old.
func (x *Int32) CompareAndSwap(old, v int32) bool {
	step("Int32.CompareAndSwap")
	return x.v.CompareAndSwap(old, v)
}

// Int64 stands for [atomic.Int64].
type Int64 struct{ v atomic.Int64 }

// Load loads the value.
func (x *Int64) Load() int64 {
	step("Int64.Load")
	return x.v.Load()
}

// Store stores a value.
func (x *Int64) Store(v int64) {
	step("Int64.Store")
	x.v.Store(v)
}

// Add adds to the value and returns the sum.
func (x *Int64) Add(delta int64) int64 {
	step("Int64.Add")
	return x.v.Add(delta)
}

// And sets the value to its intersection with mask, and returns the former one.
func (x *Int64) And(mask int64) int64 {
	step("Int64.And")
	return x.v.And(mask)
}

// Or sets the value to its union with mask, and returns the former one.
func (x *Int64) Or(mask int64) int64 {
	step("Int64.Or")
	return x.v.Or(mask)
}

// Swap stores a value and returns the former one.
func (x *Int64) Swap(v int64) int64 {
	step("Int64.Swap")
	return x.v.Swap(v)
}

// CompareAndSwap stores a value if the former one is old.
func (x *Int64) CompareAndSwap(old, v int64) bool {
	step("Int64.CompareAndSwap")
	return x.v.CompareAndSwap(old, v)
}

// Uint32 stands for [atomic.Uint32].
type Uint32 struct{ v atomic.Uint32 }

// Load loads the value.
func (x *Uint32) Load() uint32 {
	step("Uint32.Load")
	return x.v.Load()
}

// Store stores a value.
func (x *Uint32) Store(v uint32) {
	step("Uint32.Store")
	x.v.Store(v)
}

// Add adds to the value and returns the sum.
func (x *Uint32) Add(delta uint32) uint32 {
	step("Uint32.Add")
	return x.v.Add(delta)
}

// And sets the value to its intersection with mask, and returns the former one.
func (x *Uint32) And(mask uint32) uint32 {
	step("Uint32.And")
	return x.v.And(mask)
}

// Or sets the value to its union with mask, and returns the former one.
func (x *Uint32) Or(mask uint32) uint32 {
	step("Uint32.Or")
	return x.v.Or(mask)
}

// Swap stores a value and returns the former one.
func (x *Uint32) Swap(v uint32) uint32 {
	step("Uint32.Swap")
	return x.v.Swap(v)
}

// CompareAndSwap stores a value if the former one is old.
func (x *Uint32) CompareAndSwap(old, v uint32) bool {
	step("Uint32.CompareAndSwap")
	return x.v.CompareAndSwap(old, v)
}

// Uint64 stands for [atomic.Uint64].
type Uint64 struct{ v atomic.Uint64 }

// Load loads the value.
func (x *Uint64) Load() uint64 {
	step("Uint64.Load")
	return x.v.Load()
}

// Store stores a value.
func (x *Uint64) Store(v uint64) {
	step("Uint64.Store")
	x.v.Store(v)
}

// Add adds to the value and returns the sum.
func (x *Uint64) Add(delta uint64) uint64 {
	step("Uint64.Add")
	return x.v.Add(delta)
}

// And sets the value to its intersection with mask, and returns the former one.
func (x *Uint64) And(mask uint64) uint64 {
	step("Uint64.And")
	return x.v.And(mask)
}

// Or sets the value to its union with mask, and returns the former one.
func (x *Uint64) Or(mask uint64) uint64 {
	step("Uint64.Or")
	return x.v.Or(mask)
}

// Swap stores a value and returns the former one.
func (x *Uint64) Swap(v uint64) uint64 {
	step("Uint64.Swap")
	return x.v.Swap(v)
}

// CompareAndSwap stores a value if the former one is old.
func (x *Uint64) CompareAndSwap(old, v uint64) bool {
	step("Uint64.CompareAndSwap")
	return x.v.CompareAndSwap(old, v)
}

func (x *Int32) peek() int32 { return x.v.Load() }

func (x *Int64) peek() int64 { return x.v.Load() }

func (x *Uint32) peek() uint32 { return x.v.Load() }

func (x *Uint64) peek() uint64 { return x.v.Load() }
