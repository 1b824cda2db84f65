package vm

import (
	"unsafe"

	"github.com/purecu/purecu/internal/ptx/vm/simd"
)

// allBits are the bits of an address.
const allBits = 1<<64 - 1

// accesses returns the segment as memory for accesses of n bytes at addresses with an offset.
func (s *segment) accesses(offset, n uint64) *simd.Memory {
	return &simd.Memory{Offset: offset, Base: s.base, Size: s.size, Bits: allBits, Access: n, Data: s.data}
}

// sharedAccesses returns the shared memory of the block for accesses of n bytes at addresses with an offset.
func (w *Warp) sharedAccesses(offset, n uint64) *simd.Memory {
	s := &w.block.shared
	return &simd.Memory{Offset: offset, Base: SharedBegin, Size: s.size, Bits: 1<<32 - 1, Access: n, Data: s.data}
}

// loadAll loads words of n bytes by vector instructions, and reports whether it has done so.
func loadAll(d, a *Column, m *simd.Memory, lanes uint32, n uint64) bool {
	return n == 4 && simd.Load32(d, a, m, lanes) || n == 8 && simd.Load64(d, a, m, lanes)
}

// storeAll stores words of n bytes by vector instructions, and reports whether it has done so.
func storeAll(b, a *Column, m *simd.Memory, lanes uint32, n uint64) bool {
	return n == 4 && simd.Store32(b, a, m, lanes) || n == 8 && simd.Store64(b, a, m, lanes)
}

// LoadVector returns a function that loads a vector of words from generic addresses, or from the shared memory
// of the block.
func LoadVector[T Word](shared bool) Func {
	space := vectorSpace(shared)
	return func(w *Warp, o *Op) {
		a, n := &w.R[o.A], uint64(unsafe.Sizeof(T(0)))
		m := w.vectorMemory(o, n, shared, false)
		first := m.Data
		for i, d := range o.X.D[:o.X.N] {
			m.Data = unsafe.Add(first, uint64(i)*n) // within the memory, as the words before were there
			if d < 0 || d == o.A || !loadAll(&w.R[d], a, m, w.Active, n) {
				loadFrom[T](w, o, space)
				return
			}
		}
	}
}

// StoreVector returns a function that stores a vector of words, as LoadVector loads it.
func StoreVector[T Word](shared bool) Func {
	space := vectorSpace(shared)
	return func(w *Warp, o *Op) {
		a, n := &w.R[o.A], uint64(unsafe.Sizeof(T(0)))
		m := w.vectorMemory(o, n, shared, true)
		first := m.Data
		for i, d := range o.X.D[:o.X.N] {
			m.Data = unsafe.Add(first, uint64(i)*n)
			if !storeAll(&w.R[d], a, m, w.Active, n) {
				storeTo[T](w, o, space)
				return
			}
		}
	}
}

func vectorSpace(shared bool) Space {
	if shared {
		return SharedSpace
	}
	return GenericSpace
}

// vectorMemory returns the memory for an access to a vector of words of n bytes.
func (w *Warp) vectorMemory(o *Op, n uint64, shared, write bool) *simd.Memory {
	n *= uint64(o.X.N)
	if shared {
		return w.sharedAccesses(uint64(o.Imm), n)
	}
	return w.cached(o, write).accesses(uint64(o.Imm), n)
}

// ReadShared reads 16 bytes of the shared memory of the block. It reports false after a fault.
//
//go:norace
func (w *Warp) ReadShared(addr uint32) (data [16]byte, there bool) {
	p := w.SharedPointer(w.First(), addr, uint64(len(data)), false)
	if p == nil {
		return data, false
	}
	return *(*[16]byte)(p), true
}
