package cu

import (
	"errors"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
)

// This file has what every use of memory asks about memory that nodes of graphs allocate: only nodes of its graph can
// use it.

var graphMemory = memoryKind{memoryTraits{ofNode: true, others: true}, &memoryFuncs{
	name:     "memory of a graph",
	unshared: "the memory is a graph's: copy it to memory of Context.Alloc",
	free: func(mc *memCore, _ driver.At) (string, driver.Result) { // nodes free it, or it is taken
		mc.observeFree()
		return "", driver.ResultSuccess
	},
}}

// newGraphMem returns memory that nodes of the graph with these objects allocate. The caller makes
// owned and a node use it, before the lock of the graph is released, or before the capture can end.
func newGraphMem(raw driver.DevicePtr, size uint64, of *objectSet) *memCore {
	mc := &memCore{is: graphMemory, raw: raw, size: size, capacity: size}
	mc.only = of
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.allocs == nil {
		of.allocs = make(map[holder]bool)
	}
	of.allocs[mc] = false
	return mc
}

// canFree returns an error unless a node of the graph with these objects can free the memory.
func (set *objectSet) canFree(op string, mc *memCore) error {
	set.mu.Lock()
	freed, known := set.allocs[mc]
	set.mu.Unlock()
	switch {
	case !known && mc.is.ofNode, mc.Closed():
		return mc.Refused(op)
	case !known:
		return badValue(op, mc, "the memory is not of a node: a graph frees only memory that its nodes allocate")
	case freed:
		return badValue(op, mc, "a node of the graph frees the memory already")
	}
	return nil
}

// frees notes that a node frees the memory.
func (set *objectSet) frees(mc *memCore) {
	set.mu.Lock()
	defer set.mu.Unlock()
	set.allocs[mc] = true
}

// errOtherGraph is wrapped by the error of a use of a graph's memory outside of the graph.
var errOtherGraph = errors.New("the memory belongs to the nodes of a graph")

const otherGraphDetail = "use it in nodes of its graph, or call GraphExec.Take after a launch"

// Refused returns the error of a call that cannot use the memory, because it is closed, or belongs to
// the nodes of a graph.
func (mc *memCore) Refused(op string) error {
	if mc.only != nil && !mc.Closed() {
		return &cuerror.Error{Op: op, Result: driver.ResultInvalidValue, Handle: mc.handle(), Err: errOtherGraph,
			Detail: otherGraphDetail}
	}
	return mc.resource.Refused(op)
}
