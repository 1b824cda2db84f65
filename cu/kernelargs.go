package cu

import (
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// kernelArgs are the arguments of a kernel as the driver takes them: the address of each value, and
// its size. An address refers to values, or, if borrowed is set, possibly to other memory.
type kernelArgs struct {
	borrowed bool // first: every call that enqueues work reads it, and counted in workFrame is next to it
	values   []uint64
	ptrs     []unsafe.Pointer
	sizes    []uint32
}

// grow makes room for n arguments.
func (k *kernelArgs) grow(n int) {
	if n <= len(k.values) {
		return
	}
	const usual = 16
	n = max(n, usual, 2*len(k.values))
	k.values, k.ptrs, k.sizes = make([]uint64, n), make([]unsafe.Pointer, n), make([]uint32, n)
	k.restore()
}

// restore makes all addresses refer to values.
func (k *kernelArgs) restore() {
	for i := range k.ptrs {
		k.ptrs[i] = unsafe.Pointer(&k.values[i])
	}
	k.borrowed = false
}

// params returns the first n arguments for the driver.
func (k *kernelArgs) params(n int) driver.KernelParams {
	return driver.KernelParams{Ptrs: k.ptrs[:n], Sizes: k.sizes[:n]}
}

// from returns the arguments from the i-th one on for the parameters of a node.
func (k *kernelArgs) from(i int) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(k.ptrs[i:])) }
