package graph

import (
	"errors"
	"maps"
	"slices"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
)

// This file has the lifetime of memory that nodes of graphs allocate.
//
// Such memory has an address for the life of its graph, but is there only between the node that
// allocates it and the node that frees it. So its memstate.Mem can be used only by nodes of its graph
// (Resource.Only). If no node frees it, the memory stays after a launch. Exec.Take makes a
// memstate.Mem of it, as if it had been allocated from a pool on a stream. The two have the same address.
// An executable graph knows what its last launch has allocated, and whether that was taken and freed.

// graphAlloc is memory that an executable graph allocates and does not free.
type graphAlloc struct {
	mem *memstate.Mem // that nodes use
	// allocated says that the last launch has allocated the memory, and the program has not taken it.
	// The lock of the executable graph guards it.
	allocated bool
}

// allocates reports whether nodes of the graph allocate memory.
func (set *graphObjects) allocates() bool {
	set.Mu.Lock()
	defer set.Mu.Unlock()
	return len(set.Allocs) > 0
}

// unfreed returns the memory that nodes allocate and no node frees.
func (set *graphObjects) unfreed() (list []graphAlloc) {
	set.Mu.Lock()
	defer set.Mu.Unlock()
	for mc := range maps.Keys(set.Allocs) {
		if !set.Allocs[mc] {
			list = append(list, graphAlloc{mem: mc.(*memstate.Mem)})
		}
	}
	return list
}

// alloc returns what is known about memory that the executable graph allocates, or nil. The caller
// holds the lock.
func (xc *execCore) alloc(mc *memstate.Mem) *graphAlloc {
	i := slices.IndexFunc(xc.allocs, func(a graphAlloc) bool { return a.mem == mc })
	if i < 0 {
		return nil
	}
	return &xc.allocs[i]
}

// mayAllocate returns an error if the memory of an earlier launch is still there, also of an executable
// graph that was closed: the driver crashes if the same memory is freed twice. The caller holds the
// lock.
func (xc *execCore) mayAllocate(op string) error {
	for i := range xc.allocs {
		a, detail := &xc.allocs[i], ""
		switch held := a.mem.Held.Load(); {
		case held != nil && !held.Freed.Load():
			detail = "close the memory that was taken; if it is closed, synchronize the context, which frees it"
		case a.allocated && !xc.autoFree:
			detail = "take and close it, free it by a node, or instantiate the graph with graph.InstantiateAutoFree"
		default:
			continue
		}
		return &cu.Error{Op: op, Result: cu.ResultInvalidValue, Handle: uintptr(xc.raw), Err: errAllocated,
			Detail: detail}
	}
	return nil
}

// mayReplace returns an error if an update would make the executable graph allocate other memory while
// the last launch has left some that the program has not taken. The caller holds the lock.
func (xc *execCore) mayReplace(op string, next []graphAlloc) error {
	for _, a := range xc.allocs {
		if a.allocated && !slices.ContainsFunc(next, func(n graphAlloc) bool { return n.mem == a.mem }) {
			return &cu.Error{Op: op, Result: cu.ResultInvalidValue, Handle: uintptr(xc.raw), Err: errAllocated,
				Detail: "the other graph does not allocate it: call graph.Exec.Take, and close the memory, " +
					"before the update"}
		}
	}
	return nil
}

// setAllocs notes what launches allocate from now on. The caller holds the lock.
func (xc *execCore) setAllocs(next []graphAlloc) {
	for i := range next {
		if a := xc.alloc(next[i].mem); a != nil {
			next[i].allocated = a.allocated
		}
	}
	xc.allocs = next
}

// errAllocated is wrapped by the error of a launch that would allocate memory again.
var errAllocated = errors.New("memory that the last launch has allocated was not freed")

// launchedAllocs notes that a launch has allocated the memory. The caller holds the lock.
func (xc *execCore) launchedAllocs() {
	for i := range xc.allocs {
		xc.allocs[i].allocated = true
	}
}

// core returns a memstate.Mem for memory that the last launch has allocated. From now on it is not the
// executable graph's.
func (a *graphAlloc) core() *memstate.Mem {
	mc := &memstate.Mem{Is: memstate.DevicePoolMemory, Raw: a.mem.Raw, Size: a.mem.Size, Capacity: a.mem.Size,
		PoolFields: memstate.PoolFields{OfGraph: true}}
	a.allocated = false
	a.mem.Held.Store(mc)
	return mc
}

// freeAllocs frees memory that the last launch has allocated, and the program has not taken. It is
// called before the executable graph is destroyed, because the next one of the graph allocates at the
// same address. The caller holds no lock.
func (xc *execCore) freeAllocs() {
	for i := range xc.allocs {
		a := &xc.allocs[i]
		if !a.allocated {
			continue
		}
		mc, ctx := a.core(), a.mem.Ctx
		ctx.Hold() // cannot fail: the executable graph keeps the nodes' memory, a user of the context
		mc.Resource.Ctx, mc.Self, mc.UsedStreams = ctx, mc, new(core.StreamSet)
		mc.UsedOnAll(xc.UsedStreams)
		mc.Close()
		if err := mc.CloseOrdered(); err != nil {
			ctx.Drv.Leak(drivercall.LeakReport{Kind: mc.Kind(), Handle: mc.Handle(), Err: err})
		}
	}
}

// onceError returns the error for the driver's result of a call on the graph.
func (gc *graphCore) onceError(op string, res driver.Result) *cu.Error {
	return gc.once(gc.Ctx.CallError(op, uintptr(gc.raw), res))
}

// once adds to an error of the driver that graphs whose nodes allocate memory have limits.
func (gc *graphCore) once(e *cu.Error) *cu.Error {
	if e.Result == cu.ResultNotSupported && len(gc.bodies) > 0 {
		e.Detail = drivercall.JoinText(
			"the graph has conditional nodes: see the limits in the documentation of graph.If",
			e.Detail)
	}
	if e.Result == cu.ResultNotSupported && gc.objects.allocates() {
		e.Detail = drivercall.JoinText(
			"nodes of the graph allocate memory: see the limits in the documentation of graph.Alloc",
			e.Detail)
	}
	return e
}
