package cu

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/purecu/purecu/internal/races"
)

// Arg is an argument of a kernel, with a definite type: see [U32], [Ptr], [Value].
type Arg struct {
	bits uint64
	mem  *memCore // the memory whose address bits is, or nil
	// ref keeps the owner of mem from being collected. Without mem it is the address of the value
	// if the value does not fit into bits, or the argument's error.
	ref  any
	size uint32
	kind argKind
	// readOnly says that the kernel only reads mem, and extent how many bytes of it the kernel may
	// use. The race detector needs both.
	readOnly bool
	extent   uint64
}

// argKind says what an argument is, or what a parameter of a kernel takes. Signed and unsigned integers, and
// addresses, are the same.
type argKind uint8

const (
	integerArg argKind = 1 << iota
	floatArg           // of 32 or 64 bits
	anyArg     = integerArg | floatArg
)

// kernelParam is a parameter of a kernel.
type kernelParam struct {
	size  uint32 // in bytes
	takes argKind
}

// fits reports whether the parameter takes an argument.
func (p kernelParam) fits(a *Arg) bool { return a.size == p.size && a.kind&p.takes != 0 }

// bytes returns the address of a value that does not fit into bits, or nil.
func (a *Arg) bytes() *byte {
	p, _ := a.ref.(*byte)
	return p
}

// err returns the mistake in the argument, or nil.
func (a *Arg) err() error {
	err, _ := a.ref.(argError)
	return err.error
}

// argError is the error of an argument. It is a type of its own, because a type switch is faster
// than a test whether the owner of memory is an error.
type argError struct{ error }

// useMemory makes the work of a kernel use memory. It reports false if the memory is closed, or the
// kernel cannot access it.
func (w *work) useMemory(mc *memCore) bool {
	mc = mc.current()
	return (mc.ctx == w.sc.ctx || w.sc.ctx.canAccess(mc)) && (w.kept(&mc.resource) || w.use(&mc.resource, mc))
}

// used returns the uses of memory by a kernel with these arguments.
func used(args []Arg) []races.Use {
	var uses []races.Use
	for i := range args {
		a, as := &args[i], fmt.Sprintf("argument %d", i)
		switch {
		case a.mem != nil:
			off := a.bits - uint64(a.mem.raw)
			uses = append(uses, a.mem.used(off, a.extent, !a.readOnly, as))
		case a.size == 8 && a.ref == nil:
			uses = append(uses, races.Use{Addr: a.bits, Address: true, As: as})
		}
	}
	return uses
}

// set sets an argument. It returns the argument's error, if there is one.
func (k *kernelArgs) set(i int, a *Arg) error {
	if a.mem == nil && a.ref != nil {
		if err := a.err(); err != nil {
			return err
		}
		k.ptrs[i], k.borrowed = unsafe.Pointer(a.bytes()), true
	}
	k.values[i], k.sizes[i] = a.bits, a.size
	return nil
}

// argBytes copies the values of a kernel's arguments. p is the address of an array of their addresses.
func argBytes(p unsafe.Pointer, sizes []uint64) [][]byte {
	args := make([][]byte, len(sizes))
	for i, at := range unsafe.Slice((*unsafe.Pointer)(p), len(sizes)) {
		args[i] = bytes.Clone(unsafe.Slice((*byte)(at), sizes[i]))
	}
	return args
}

// canAccess reports whether kernels of the context can access memory of another context. Peer access does
// not include memory of pools, memory of graphs, or virtual memory.
func (c *contextCore) canAccess(mc *memCore) bool {
	switch {
	case mc.ctx.drv != c.drv:
		return false
	case mc.virt != nil:
		return mc.virt.reaches(c.dev)
	case mc.is.pooled != nil:
		return mc.accessibleIn(c) || mc.is.pooled.reaches(mc, c.dev)
	}
	return mc.accessibleIn(c) || !mc.is.ofNode && c.reaches(mc.ctx)
}

// keepsMemory is keeps for the memory of an argument. Instead of virtual memory, work may have to use
// other virtual memory.
func (sc *streamCore) keepsMemory(mc *memCore) bool { return mc.virt == nil && sc.keeps(&mc.resource) }
