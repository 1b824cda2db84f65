// Package wordop has operations on words of memory, which streams and nodes of graphs do: they write a word, or wait
// for its value.
package wordop

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/races"
)

// most is how many operations a driver takes in one call.
const most = 255

// Op is an operation on a word. The zero Op is none.
type Op struct {
	kind   int32           // CU_STREAM_MEM_OP_WRITE_VALUE_32 and others
	span   memstate.Span   // the word, with its owner
	region memstate.Region // the word, as new work uses it
	value  uint64
	flags  uint32 // of a wait
}

// New returns an operation of a kind of driver.CU_STREAM_MEM_OP_WRITE_VALUE_32.
func New(kind int32, word memstate.Span, value uint64, flags uint32) Op {
	o := Op{kind: kind, span: word, value: value, flags: flags}
	o.Update()
	return o
}

// Update makes the operation use the memory that new work uses. Of virtual memory this is other memory after each
// Unmap.
func (o *Op) Update() {
	if o.region = o.span.Region(); o.kind != 0 && !o.Waits() {
		o.region = o.region.Target()
	}
}

// Virtual reports whether the word is in virtual memory, so that the operation needs an Update before each use.
func (o *Op) Virtual() bool { return o.region.Mem != nil && o.region.Mem.Virt != nil }

// Mem returns the memory of the word.
func (o *Op) Mem() *memstate.Mem { return o.region.Mem }

// CheckCount refuses too many operations for a stream or graph.
func CheckCount(op string, n int, of core.Member) error {
	if n > most {
		return drivercall.BadValue(op, of, fmt.Sprintf("%d operations are too many: pass at most %d", n, most))
	}
	return nil
}

// Check checks operation i of a call for a stream or graph.
func (o *Op) Check(op string, i int, of core.Member) error {
	if o.kind == 0 {
		return drivercall.BadValue(op, of, fmt.Sprintf("operation %d is the zero MemOp: see WriteWord32", i))
	}
	if err := o.region.Missing(op); err != nil {
		return drivercall.About(of, err)
	}
	m, ctx := o.region.Mem, of.Context()
	if m.Ctx.Drv != ctx.Drv || !m.Everywhere() && m.Ctx != ctx {
		return core.MixedError(op, m, of)
	}
	if err := o.region.Check(op); err != nil {
		return err
	}
	switch size := o.Size(); {
	case m.Is.Managed || m.Is.Pooled != nil || m.Is.OfNode:
		return drivercall.BadValue(op, m,
			fmt.Sprintf("operation %d is for memory that is managed, of a pool, or of a graph, "+
				"which the driver refuses: use memory of Context.Alloc or Context.AllocHost", i))
	case m.Raw == 0:
		return drivercall.Misuse(op, m, memstate.ErrUnmapped, "allocate it with HostDeviceMap")
	case o.region.Size != size || uint64(o.region.Addr())%size != 0:
		return drivercall.BadValue(op, m, fmt.Sprintf("operation %d is for %d bytes "+
			"at an address that is a multiple of %[2]d, and got %d bytes at %#x",
			i, size, o.region.Size, uint64(o.region.Addr())))
	case o.flags > driver.CU_STREAM_WAIT_VALUE_NOR:
		return drivercall.BadValue(op, of,
			fmt.Sprintf("operation %d waits for WaitFor(%d), which does not exist", i, o.flags))
	}
	return nil
}

// Kind returns the kind, such as driver.CU_STREAM_MEM_OP_WRITE_VALUE_32.
func (o *Op) Kind() int32 { return o.kind }

// Size returns the size of the word.
func (o *Op) Size() uint64 {
	if o.kind == driver.CU_STREAM_MEM_OP_WAIT_VALUE_64 || o.kind == driver.CU_STREAM_MEM_OP_WRITE_VALUE_64 {
		return 8
	}
	return 4
}

// Waits reports whether the operation is a wait.
func (o *Op) Waits() bool {
	return o.kind == driver.CU_STREAM_MEM_OP_WAIT_VALUE_32 || o.kind == driver.CU_STREAM_MEM_OP_WAIT_VALUE_64
}

// Params returns the operation as the driver takes it.
func (o *Op) Params() (p driver.StreamBatchMemOpParams) {
	*p.Operation() = o.kind
	w := p.WaitValue() // a write has the same members
	w.Address, w.Flags = o.region.Addr(), o.flags
	*w.Value64() = o.value
	return p
}

// Observed returns the operation for the race detector.
func (o *Op) Observed() races.WordOp {
	return races.WordOp{Addr: uint64(o.region.Addr()), Size: int(o.Size()), Value: o.value, Waits: o.Waits(),
		Until: races.WaitFor(o.flags)}
}
