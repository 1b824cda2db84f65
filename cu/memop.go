package cu

import (
	"runtime"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/races"
	"github.com/purecu/purecu/internal/wordop"
)

// This file has batches of memory operations: streams write words of memory, and wait for their values.

// MemOp is an operation on a word of memory, for [Stream.BatchMemOps] and graph.MemOps.
type MemOp struct{ memOpValue }

// memOpValue is an alias, so that the field of a MemOp is not exported.
type memOpValue = core.Value[wordop.Op]

func newMemOp(kind int32, m Memory, v uint64, flags uint32) MemOp {
	s := spanOf(m)
	return MemOp{core.ValueTo(wordop.New(kind, *s.core(), v, flags))}
}

func (o *MemOp) core() *wordop.Op { return core.ValueIn(&o.memOpValue) }

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
	return newMemOp(driver.CU_STREAM_MEM_OP_WRITE_VALUE_32, m, uint64(v), 0)
}

// WriteWord64 is [WriteWord32] for 8 bytes (CU_STREAM_MEM_OP_WRITE_VALUE_64).
func WriteWord64(m Memory, v uint64) MemOp {
	return newMemOp(driver.CU_STREAM_MEM_OP_WRITE_VALUE_64, m, v, 0)
}

// WaitWord32 waits until a word of 4 bytes has a value. If it never has, the stream hangs, and whatever
// waits for the stream (CU_STREAM_MEM_OP_WAIT_VALUE_32).
func WaitWord32(m Memory, v uint32, until WaitFor) MemOp {
	return newMemOp(driver.CU_STREAM_MEM_OP_WAIT_VALUE_32, m, uint64(v), uint32(until))
}

// WaitWord64 is [WaitWord32] for 8 bytes (CU_STREAM_MEM_OP_WAIT_VALUE_64).
func WaitWord64(m Memory, v uint64, until WaitFor) MemOp {
	return newMemOp(driver.CU_STREAM_MEM_OP_WAIT_VALUE_64, m, v, uint32(until))
}

const batchOp = "cuStreamBatchMemOp"

// BatchMemOps enqueues up to 255 operations, which are done in their order (cuStreamBatchMemOp_v2, CUDA
// 11.7). Each Memory must be one aligned word, in device memory of the stream's context or in host memory
// that is mapped, and not in memory that is managed, of a pool, or of a graph. A call without
// operations does nothing. It waits while the stream's queue is full: see docs/blocking.md.
//
// Use a [Timeline] where one counter is enough: the program can wait for it, too.
func (s *Stream) BatchMemOps(ops ...MemOp) error {
	if s.core() == nil {
		return drivercall.NilError(batchOp, "stream")
	}
	if len(ops) == 0 {
		return nil
	}
	ops = currentOps(ops)
	if err := wordop.CheckCount(batchOp, len(ops), s.core()); err != nil {
		return err
	}
	for i := range ops {
		if err := ops[i].core().Check(batchOp, i, s.core()); err != nil {
			return err
		}
	}
	return s.core().FreeOnly(batchOp, s.enqueueOps(ops))
}

// enqueueOps enqueues operations that were checked.
func (s *Stream) enqueueOps(ops []MemOp) error {
	sc := s.core()
	w, err := sc.BeginEnqueue(batchOp)
	if err != nil {
		return err
	}
	for i := range ops {
		if m := ops[i].core().Mem(); !w.Kept(&m.Resource) && !w.Use(&m.Resource, m) {
			w.End()
			return m.Refused(batchOp)
		}
	}
	observeMemOps(sc, ops)
	sc.EnterGate()
	f := w.Frame.Operations(len(ops))
	f.Words = f.Words[:0]
	for i := range ops {
		f.Words = append(f.Words, ops[i].core().Params())
	}
	res := sc.Ctx.Drv.Table().StreamBatchMemOp(sc.InContext(), sc.Raw, f.Words, 0)
	sc.LeaveGate()
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
		if !ops[i].core().Virtual() {
			continue
		}
		if !cloned {
			ops, cloned = slices.Clone(ops), true // the program may use its operations at the same time
		}
		ops[i].core().Update()
	}
	return ops
}

// observeMemOps tells the race detector of the operations, before the driver has them.
func observeMemOps(sc *core.Stream, ops []MemOp) {
	o := sc.Ctx.Drv.Observer()
	if o == nil {
		return
	}
	list := make([]races.WordOp, len(ops))
	for i := range ops {
		list[i] = ops[i].core().Observed()
	}
	o.WordOps(sc.Observed(), list)
}
