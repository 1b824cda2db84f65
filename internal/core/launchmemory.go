package core

import (
	"bytes"
	"unsafe"
)

// UseMemory makes the work of a kernel use memory. It reports false if the memory is closed, or the
// kernel cannot access it.
func (w *Work) UseMemory(mc *Mem) bool {
	mc = mc.Current()
	return (mc.Ctx == w.Stream.Ctx || w.Stream.Ctx.CanAccess(mc)) && (w.Kept(&mc.Resource) || w.Use(&mc.Resource, mc))
}

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

// CanAccess reports whether kernels of the context can access memory of another context. Peer access does
// not include memory of pools, memory of graphs, or virtual memory.
func (c *Context) CanAccess(mc *Mem) bool {
	switch {
	case mc.Ctx.Drv != c.Drv:
		return false
	case mc.Virt != nil:
		return mc.Virt.Reaches(c.Dev)
	case mc.Is.Pooled != nil:
		return mc.accessibleIn(c) || mc.Is.Pooled.reaches(mc, c.Dev)
	}
	return mc.accessibleIn(c) || !mc.Is.OfNode && c.Reaches(mc.Ctx)
}

// KeepsMemory is Keeps for the memory of an argument. Instead of virtual memory, work may have to use
// other virtual memory.
func (sc *Stream) KeepsMemory(mc *Mem) bool { return mc.Virt == nil && sc.Keeps(&mc.Resource) }
