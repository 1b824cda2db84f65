package cu

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/races"
)

// This file has batches of memory operations: streams write words of memory, and wait for their values.

// MemOp is an operation on a word of memory, for [Stream.BatchMemOps] and [MemOpsNode].
type MemOp struct {
	op     int32
	memory Memory // its owner
	r      core.Region
	value  uint64
	flags  uint32
}

// WaitFor says for which values of a word [WaitWord32] and [WaitWord64] wait.
type WaitFor uint32

const (
	// WaitAtLeast waits until word - value is not negative as a signed number, so that words may wrap
	// around: CU_STREAM_WAIT_VALUE_GEQ.
	WaitAtLeast WaitFor = driver.CU_STREAM_WAIT_VALUE_GEQ
	// WaitEqual waits until the word is the value: CU_STREAM_WAIT_VALUE_EQ.
	WaitEqual WaitFor = driver.CU_STREAM_WAIT_VALUE_EQ
	// WaitAnd waits until the word and the value have a 1 bit in common: CU_STREAM_WAIT_VALUE_AND.
	WaitAnd WaitFor = driver.CU_STREAM_WAIT_VALUE_AND
	// WaitNor waits until a bit is 0 in the word and in the value: CU_STREAM_WAIT_VALUE_NOR.
	WaitNor WaitFor = driver.CU_STREAM_WAIT_VALUE_NOR
)

// WriteWord32 writes a word of 4 bytes, after all earlier writes of the stream
// (CU_STREAM_MEM_OP_WRITE_VALUE_32).
func WriteWord32(m Memory, v uint32) MemOp {
	return MemOp{driver.CU_STREAM_MEM_OP_WRITE_VALUE_32, m, targetOf(m), uint64(v), 0}
}

// WriteWord64 is [WriteWord32] for 8 bytes (CU_STREAM_MEM_OP_WRITE_VALUE_64).
func WriteWord64(m Memory, v uint64) MemOp {
	return MemOp{driver.CU_STREAM_MEM_OP_WRITE_VALUE_64, m, targetOf(m), v, 0}
}

// WaitWord32 waits until a word of 4 bytes has a value. If it never has, the stream hangs, and whatever
// waits for the stream (CU_STREAM_MEM_OP_WAIT_VALUE_32).
func WaitWord32(m Memory, v uint32, until WaitFor) MemOp {
	return MemOp{driver.CU_STREAM_MEM_OP_WAIT_VALUE_32, m, regionOf(m), uint64(v), uint32(until)}
}

// WaitWord64 is [WaitWord32] for 8 bytes (CU_STREAM_MEM_OP_WAIT_VALUE_64).
func WaitWord64(m Memory, v uint64, until WaitFor) MemOp {
	return MemOp{driver.CU_STREAM_MEM_OP_WAIT_VALUE_64, m, regionOf(m), v, uint32(until)}
}

const batchOp = "cuStreamBatchMemOp"

// mostMemOps is how many operations a driver takes in one call.
const mostMemOps = 255

// BatchMemOps enqueues up to 255 operations, which are done in their order (cuStreamBatchMemOp_v2, CUDA
// 11.7). Each Memory must be one aligned word, in device memory of the stream's context or in host memory
// that is mapped, and not in memory that is managed, of a pool, or of a graph. A call without
// operations does nothing. It waits while the stream's queue is full: see docs/blocking.md.
//
// Use a [Timeline] where one counter is enough: the program can wait for it, too.
func (s *Stream) BatchMemOps(ops ...MemOp) error {
	if s.core() == nil {
		return core.NilError(batchOp, "stream")
	}
	if len(ops) == 0 {
		return nil
	}
	ops = currentOps(ops)
	if err := checkMemOps(batchOp, ops, s.core()); err != nil {
		return err
	}
	return s.core().Retry(batchOp, s.enqueueOps(ops), nil)
}

// enqueueOps enqueues operations that were checked.
func (s *Stream) enqueueOps(ops []MemOp) error {
	sc := s.core()
	w, err := sc.BeginEnqueue(batchOp)
	if err != nil {
		return err
	}
	for i := range ops {
		if m := ops[i].r.Mem; !w.Kept(&m.Resource) && !w.Use(&m.Resource, m) {
			w.End()
			return m.Refused(batchOp)
		}
	}
	observeMemOps(sc, ops)
	sc.BeginLegacy()
	f := w.Frame.Operations(len(ops))
	f.Words = memOpParams(f.Words[:0], ops)
	res := sc.Ctx.Drv.Table().StreamBatchMemOp(sc.InContext(), sc.Raw, f.Words, 0)
	sc.EndLegacy()
	w.End()
	runtime.KeepAlive(s)
	runtime.KeepAlive(ops)
	if res != driver.ResultSuccess {
		if o := sc.Ctx.Drv.Observer(); o != nil {
			o.BlockFailed(sc.Observed())
		}
		return sc.Ctx.CallError(batchOp, uintptr(sc.Raw), res)
	}
	sc.Ctx.Drv.ReportRaces()
	return nil
}

// currentOps returns operations on the memory that new work uses. Of virtual memory this is other memory
// after each Unmap.
func currentOps(ops []MemOp) []MemOp {
	cloned := false
	for i := range ops {
		if m := ops[i].r.Mem; m == nil || m.Virt == nil {
			continue
		}
		if !cloned {
			ops, cloned = slices.Clone(ops), true // the program may use its operations at the same time
		}
		ops[i].r = regionOf(ops[i].memory)
	}
	return ops
}

// checkMemOps checks operations for a stream or graph.
func checkMemOps(op string, ops []MemOp, of core.Member) error {
	if len(ops) > mostMemOps {
		return core.BadValue(op, of, fmt.Sprintf("%d operations are too many: pass at most %d", len(ops), mostMemOps))
	}
	for i := range ops {
		o := &ops[i]
		if o.op == 0 {
			return core.BadValue(op, of, fmt.Sprintf("operation %d is the zero MemOp: see WriteWord32", i))
		}
		if err := o.r.Missing(op); err != nil {
			return core.About(of, err)
		}
		m, ctx := o.r.Mem, of.Context()
		if m.Ctx.Drv != ctx.Drv || !m.Everywhere() && m.Ctx != ctx {
			return core.MixedError(op, m, of)
		}
		if err := o.r.Check(op); err != nil {
			return err
		}
		switch size := o.size(); {
		case m.Is.Managed || m.Is.Pooled != nil || m.Is.OfNode:
			return core.BadValue(op, m,
				fmt.Sprintf("operation %d is for memory that is managed, of a pool, or of a graph, "+
					"which the driver refuses: use memory of Context.Alloc or Context.AllocHost", i))
		case m.Raw == 0:
			return core.Misuse(op, m, core.ErrUnmapped, "allocate it with HostDeviceMap")
		case o.r.Size != size || uint64(o.r.Addr())%size != 0:
			return core.BadValue(op, m, fmt.Sprintf("operation %d is for %d bytes at an address that is a multiple of %[2]d, "+
				"and got %d bytes at %#x", i, size, o.r.Size, uint64(o.r.Addr())))
		case o.flags > driver.CU_STREAM_WAIT_VALUE_NOR:
			return core.BadValue(op, of,
				fmt.Sprintf("operation %d waits for WaitFor(%d), which does not exist", i, o.flags))
		}
	}
	return nil
}

// size returns the size of the word.
func (o *MemOp) size() uint64 {
	if o.op == driver.CU_STREAM_MEM_OP_WAIT_VALUE_64 || o.op == driver.CU_STREAM_MEM_OP_WRITE_VALUE_64 {
		return 8
	}
	return 4
}

// waits reports whether the operation is a wait.
func (o *MemOp) waits() bool {
	return o.op == driver.CU_STREAM_MEM_OP_WAIT_VALUE_32 || o.op == driver.CU_STREAM_MEM_OP_WAIT_VALUE_64
}

// memOpParams appends the operations as the driver takes them.
func memOpParams(list []driver.StreamBatchMemOpParams, ops []MemOp) []driver.StreamBatchMemOpParams {
	for i := range ops {
		var p driver.StreamBatchMemOpParams
		*p.Operation() = ops[i].op
		w := p.WaitValue() // a write has the same members
		w.Address, w.Flags = ops[i].r.Addr(), ops[i].flags
		*w.Value64() = ops[i].value
		list = append(list, p)
	}
	return list
}

// observeMemOps tells the race detector of the operations, before the driver has them.
func observeMemOps(sc *core.Stream, ops []MemOp) {
	if o := sc.Ctx.Drv.Observer(); o != nil {
		o.WordOps(sc.Observed(), wordOps(ops))
	}
}

func wordOps(ops []MemOp) []races.WordOp {
	list := make([]races.WordOp, len(ops))
	for i := range ops {
		o := &ops[i]
		list[i] = races.WordOp{Addr: uint64(o.r.Addr()), Size: int(o.size()), Value: o.value, Waits: o.waits(),
			Until: races.WaitFor(o.flags)}
	}
	return list
}
