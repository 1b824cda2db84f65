package cu

import (
	"bytes"
	"unsafe"
)

// useMemory makes the work of a kernel use memory. It reports false if the memory is closed, or the
// kernel cannot access it.
func (w *work) useMemory(mc *memCore) bool {
	mc = mc.current()
	return (mc.ctx == w.sc.ctx || w.sc.ctx.canAccess(mc)) && (w.kept(&mc.resource) || w.use(&mc.resource, mc))
}

// set sets an argument. at is the address of its value if that does not fit into bits, or nil.
func (k *kernelArgs) set(i int, bits uint64, size uint32, at *byte) {
	if at != nil {
		k.ptrs[i], k.borrowed = unsafe.Pointer(at), true
	}
	k.values[i], k.sizes[i] = bits, size
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
