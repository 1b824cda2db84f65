package memstate

import (
	"errors"

	"github.com/purecu/purecu/cu/cuerror"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
)

// This file has what every use of memory asks about memory that nodes of graphs allocate: only nodes of its graph can
// use it.

var graphMemory = Kind{Traits{OfNode: true, Others: true}, &Funcs{
	Name:     "memory of a graph",
	Unshared: "the memory is a graph's: copy it to memory of Context.Alloc",
	Free: func(mc *Mem, _ driver.At) (string, driver.Result) { // nodes free it, or it is taken
		mc.ObserveFree()
		return "", driver.ResultSuccess
	},
}}

// NewGraphMem returns memory that nodes of the graph with these objects allocate. The caller makes
// Owned and a node use it, before the lock of the graph is released, or before the capture can end.
func NewGraphMem(raw driver.DevicePtr, size uint64, of *core.ObjectSet) *Mem {
	mc := &Mem{Is: graphMemory, Raw: raw, Size: size, Capacity: size}
	mc.Only = of
	of.Mu.Lock()
	defer of.Mu.Unlock()
	if of.Allocs == nil {
		of.Allocs = make(map[core.Holder]bool)
	}
	of.Allocs[mc] = false
	return mc
}

// CanFree returns an error unless a node of the graph with these objects can free the memory.
func CanFree(set *core.ObjectSet, op string, mc *Mem) error {
	set.Mu.Lock()
	freed, known := set.Allocs[mc]
	set.Mu.Unlock()
	switch {
	case !known && mc.Is.OfNode, mc.Closed():
		return mc.Refused(op)
	case !known:
		return drivercall.BadValue(op, mc, "the memory is not of a node: a graph frees only memory that its nodes allocate")
	case freed:
		return drivercall.BadValue(op, mc, "a node of the graph frees the memory already")
	}
	return nil
}

// Frees notes that a node frees the memory.
func Frees(set *core.ObjectSet, mc *Mem) {
	set.Mu.Lock()
	defer set.Mu.Unlock()
	set.Allocs[mc] = true
}

// ErrOtherGraph is wrapped by the error of a use of a graph's memory outside of the graph.
var ErrOtherGraph = errors.New("the memory belongs to the nodes of a graph")

// OtherGraphDetail is what errors that wrap ErrOtherGraph advise.
const OtherGraphDetail = "use it in nodes of its graph, or call graph.Exec.Take after a launch"

// Refused returns the error of a call that cannot use the memory, because it is closed, or belongs to
// the nodes of a graph.
func (mc *Mem) Refused(op string) error {
	if mc.Only != nil && !mc.Closed() {
		return &cuerror.Error{Op: op, Result: driver.ResultInvalidValue, Handle: mc.Handle(), Err: ErrOtherGraph,
			Detail: OtherGraphDetail}
	}
	return mc.Resource.Refused(op)
}
