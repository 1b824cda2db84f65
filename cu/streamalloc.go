package cu

import (
	"runtime"

	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/memstate"
)

// Alloc allocates size bytes of the device's current pool in the order of the stream, and returns at
// once (cuMemAllocAsync, CUDA 11.2). Work that is enqueued on the stream later can use the memory.
// The content is undefined. Other streams, and methods of DeviceMem, must come after the allocation:
// see [Stream.WaitStream]. It may wait for the GPU if memory is short, like [Context.Alloc]: see
// docs/blocking.md.
//
// # Freeing
//
// Close frees the memory on this stream, after all work that uses the memory (cuMemFreeAsync). It
// does not wait: the stream waits, on the GPU, for other streams that have used the memory. If the
// stream was closed, another one that has used the memory takes its place. If there is none, or a
// stream is being captured, the library polls until the work is done, and then frees the memory.
// The same holds for memory that was abandoned. [Stream.Free] chooses the stream.
//
// # Captures
//
// In a capture by package graph the allocation becomes a node of the graph: see graph.Alloc for
// what can use the memory, and graph.Exec.Take for memory that the capture does not free. During a
// capture by other code the error matches [errors.ErrUnsupported], and the capture continues. To
// allocate on another stream is like [Context.Alloc]: it invalidates a capture of the calling
// goroutine, unless that is relaxed. Close and Free do not.
func (s *Stream) Alloc(size uint64) (*DeviceMem, error) {
	sc := s.core()
	if sc == nil {
		return nil, drivercall.NilError("cuMemAllocAsync", "stream")
	}
	var m *DeviceMem
	err := memstate.AllocPooled(sc, "cuMemAllocAsync", size, nil, func(mc *memstate.Mem) { m = newDeviceMem(sc.Ctx, mc) })
	runtime.KeepAlive(s)
	return m, err
}

// Free closes memory of a pool, like [DeviceMem.Close], and frees it on this stream, which must be
// of the memory's context (cuMemFreeAsync). An allocation on this stream can then reuse the memory.
// It waits while another call on the stream waits because the stream's queue is full: see
// docs/blocking.md. In a capture it adds a node that frees memory which the same graph allocates, and
// later work of the capture cannot use the memory.
func (s *Stream) Free(m *DeviceMem) error {
	const op = "cuMemFreeAsync"
	sc, err := s.enter(op)
	if err != nil {
		return err
	}
	defer s.leave()
	switch {
	case m.core() == nil:
		return drivercall.NilArgError(op, sc, "device memory")
	case m.core().Ctx != sc.Ctx:
		return core.MixedError(op, m.core(), sc)
	}
	captured, foreign, err := memstate.FreeCaptured(sc, op, m.core())
	switch {
	case err != nil:
		return err
	case foreign:
		return memstate.CapturedPoolError(op, sc)
	case captured:
		m.core().ObserveOrder(op, sc)
		return m.Close()
	case m.core().Is.OfNode:
		return m.core().Refused(op)
	case m.core().Is.Pooled == nil:
		return drivercall.BadValue(op, m.core(), "the memory is not of a pool: use its Close")
	}
	m.core().FreeOn.CompareAndSwap(nil, sc)
	if m.core().Opening != nil { // another opening of the memory may be the one that frees it
		m.core().UsedOn(sc)
	}
	return m.Close()
}
