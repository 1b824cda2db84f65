package memstate

import "github.com/purecu/purecu/internal/core"

// Use makes the work of a kernel use memory. It reports false if the memory is closed, or the
// kernel cannot access it.
func Use(w *core.Work, mc *Mem) bool {
	mc = mc.Current()
	return (mc.Ctx == w.Stream.Ctx || CanAccess(w.Stream.Ctx, mc)) && (w.Kept(&mc.Resource) || w.Use(&mc.Resource, mc))
}

// CanAccess reports whether kernels of context c can access memory of another context. Peer access does
// not include memory of pools, memory of graphs, or virtual memory.
func CanAccess(c *core.Context, mc *Mem) bool {
	switch {
	case mc.Ctx.Drv != c.Drv:
		return false
	case mc.Virt != nil:
		return mc.Virt.Reaches(c.Dev)
	case mc.Is.Pooled != nil:
		return mc.AccessibleIn(c) || mc.Is.Pooled.reaches(mc, c.Dev)
	}
	return mc.AccessibleIn(c) || !mc.Is.OfNode && c.Reaches(mc.Ctx)
}

// KeptBy reports whether the stream keeps the memory of an argument: see core.Stream.Keeps. It is false for virtual
// memory, because work may have to use other virtual memory in its place.
func KeptBy(sc *core.Stream, mc *Mem) bool { return mc.Virt == nil && sc.Keeps(&mc.Resource) }
