package vm

import "unsafe"

// UpdateWide changes a word of 128 bits atomically, as far as other accesses to 128 bits are concerned, and returns the
// lower and the upper half of the old value. If f is nil, nothing changes. A half that does not change is not stored:
// another thread may change it by an access to 64 bits.
func (w *Warp) UpdateWide(p unsafe.Pointer, f func(low, high uint64) (uint64, uint64)) (low, high uint64) {
	q, lock := unsafe.Add(p, 8), w.block.run.Wide
	lock.Lock()
	defer lock.Unlock()
	low, high = AtomicLoad(p, 8), AtomicLoad(q, 8)
	if f != nil {
		l, h := f(low, high)
		if l != low {
			AtomicStore(p, 8, l)
		}
		if h != high {
			AtomicStore(q, 8, h)
		}
	}
	return low, high
}
