package core

import (
	"bytes"
	"unsafe"

	"github.com/purecu/purecu/driver"
)

// KernelArgs are the arguments of a kernel as the driver takes them: the address of each value, and
// its size. An address refers to Values, or, if Borrowed is set, possibly to other memory.
type KernelArgs struct {
	Borrowed bool // first: every call that enqueues work reads it, and counted in WorkFrame is next to it
	Values   []uint64
	ptrs     []unsafe.Pointer
	Sizes    []uint32
}

// Grow makes room for n arguments.
func (k *KernelArgs) Grow(n int) {
	if n <= len(k.Values) {
		return
	}
	const usual = 16
	n = max(n, usual, 2*len(k.Values))
	k.Values, k.ptrs, k.Sizes = make([]uint64, n), make([]unsafe.Pointer, n), make([]uint32, n)
	k.Restore()
}

// Restore makes all addresses refer to Values.
func (k *KernelArgs) Restore() {
	for i := range k.ptrs {
		k.ptrs[i] = unsafe.Pointer(&k.Values[i])
	}
	k.Borrowed = false
}

// Params returns the first n arguments for the driver.
func (k *KernelArgs) Params(n int) driver.KernelParams {
	return driver.KernelParams{Ptrs: k.ptrs[:n], Sizes: k.Sizes[:n]}
}

// From returns the arguments from the i-th one on for the parameters of a node.
func (k *KernelArgs) From(i int) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(k.ptrs[i:])) }

// Set sets an argument. at is the address of its value if that does not fit into bits, or nil.
func (k *KernelArgs) Set(i int, bits uint64, size uint32, at *byte) {
	if at != nil {
		k.ptrs[i], k.Borrowed = unsafe.Pointer(at), true
	}
	k.Values[i], k.Sizes[i] = bits, size
}

// ArgBytes copies the values of a kernel's arguments. p is the address of an array of their addresses.
func ArgBytes(p unsafe.Pointer, sizes []uint64) [][]byte {
	args := make([][]byte, len(sizes))
	for i, at := range unsafe.Slice((*unsafe.Pointer)(p), len(sizes)) {
		args[i] = bytes.Clone(unsafe.Slice((*byte)(at), sizes[i]))
	}
	return args
}
