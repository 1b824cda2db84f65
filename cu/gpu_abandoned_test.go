package cu_test

import (
	"errors"
	"runtime"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// This file has the memory that TestGPUBackgroundHoldsNobody abandons.

// memory makes memory of all kinds but those of objects, and returns a function that uses it.
func (b *besideHeld) memory(s *Stream) (use func() error) {
	var list []Memory
	var keep []any
	if m, err := memory.AllocManaged(b.gpu, 1<<16, memory.AttachGlobal); !b.missing("managed memory", err) {
		list = append(list, m)
	}
	if m, err := b.gpu.RegisterHost(pages(1<<12), 0); !b.missing("host memory", err) {
		list = append(list, m)
	}
	if m, _, err := b.gpu.AllocPitch(100, 10, 4); !b.missing("device memory", err) {
		list = append(list, m)
	}
	if m, err := s.Alloc(1 << 12); !b.missing("device memory", err) {
		list = append(list, m)
	}
	if p, err := memory.NewPool(b.gpu, memory.PoolOptions{}); !b.missing("memory pool", err) {
		m, err := p.Alloc(s, 1<<12)
		b.missing("device memory", err)
		list, keep = append(list, m), append(keep, p)
	}
	for name, kind := range HostKinds {
		if p, err := memory.NewPool(b.gpu, memory.PoolOptions{Kind: kind}); !b.missing("memory pool", err) {
			m, err := p.AllocHost(s, 1<<12)
			b.missing(name, err)
			list, keep = append(list, m), append(keep, p)
		}
	}
	if m, err := memory.Reserve(b.gpu, 1<<30); !b.missing("virtual memory", err) {
		p, err := memory.NewPhysical(b.gpu, 1, memory.PhysicalOptions{})
		b.missing("physical memory", err)
		b.ok(errors.Join(m.Grow(1), m.Map(m.Size(), p)))
		list, keep = append(list, m.Mem()), append(keep, p)
	}
	m, x := b.external()
	if m != nil {
		list = append(list, m)
	}
	useSemaphore := b.signals(s, x)
	list = append(list, b.variables()...)
	list = append(list, b.wrapped()...)
	if m := b.taken(s); m != nil {
		list = append(list, m)
	}
	for _, m := range list {
		b.memories[MemoryState(m).Is] = true
	}
	b.ok(s.Synchronize())
	return func() error {
		var errs []error
		for _, m := range list {
			errs = append(errs, b.held.Memset(m, 1))
		}
		runtime.KeepAlive(keep)
		return errors.Join(append(errs, useSemaphore())...)
	}
}

// variables returns variables of a module and of a library, which are kept by these.
func (b *besideHeld) variables() (list []Memory) {
	mod := Need(b.gpu.LoadModule([]byte(ManagedPTX)))(b.t)
	list = append(list, Need(mod.Global("own"))(b.t))
	b.made["module"]++
	b.made["device memory"]++
	if l, err := library.Load(b.gpu.Device().Driver(), []byte(ManagedPTX)); !b.missing("library", err) {
		if m, err := l.Managed(b.gpu, "total"); !b.missing("managed memory", err) {
			list = append(list, m)
		}
	}
	return list
}

// wrapped returns device memory and managed memory of other code, which frees it after the work.
func (b *besideHeld) wrapped() (list []Memory) {
	wrap := func(addr, size uint64) {
		list = append(list, Need(memory.Wrap(b.gpu, addr, size))(b.t))
		b.made["memory of other code"]++
	}
	m := Need(b.gpu.Alloc(64))(b.t)
	b.owners = append(b.owners, m)
	wrap(m.Handle(), m.Size())
	if m, err := memory.AllocManaged(b.gpu, 64, memory.AttachGlobal); !b.missing("managed memory", err) {
		b.made["managed memory"]-- // it is closed
		b.owners = append(b.owners, m)
		wrap(uint64(m.Handle()), m.Size())
	}
	return list
}

// taken returns memory that the launch of a graph has allocated, if the driver has such graphs.
func (b *besideHeld) taken(s *Stream) *DeviceMem {
	g := Need(graph.New(b.gpu))(b.t)
	b.made["graph"]++
	_, m, err := AddAlloc(g, 64)
	if b.missing("memory of a graph", err) {
		return nil
	}
	x := Need(g.Instantiate())(b.t)
	b.made["executable graph"]++
	b.ok(x.Launch(s))
	b.made["device memory"]++
	return Need(x.Take(m))(b.t)
}

// external imports memory and a semaphore of another API. Drivers take a file of memory for both.
func (b *besideHeld) external() (m *DeviceMem, x *interop.Semaphore) {
	p, err := memory.NewPhysical(b.gpu, 1, memory.PhysicalOptions{Shareable: true})
	if b.missing("physical memory", err) {
		return nil, nil
	}
	f := Need(p.Export())(b.t)
	m, err = interop.ImportMem(b.gpu, OpaqueFD(f), p.Size())
	b.missing("external memory", err)
	x, err = interop.ImportSemaphore(b.gpu, interop.SemaphoreHandle{Type: interop.SemaphoreFD, Handle: f.Fd()})
	b.missing("external semaphore", err)
	b.ok(f.Close())
	return m, x
}

// exported opens memory, an event, and a pool with memory of another process, and shares an event
// with it. It returns a function that uses them.
func (b *besideHeld) exported() (use func() error) {
	if b.exporter == nil {
		return func() error { return nil }
	}
	theirs := b.exporter.next(b.t)
	defer theirs.pool.Close()
	m := Need(memory.OpenIPC(b.gpu, theirs.mem))(b.t)
	p := Need(memory.ImportPool(b.gpu, theirs.pool.Fd()))(b.t)
	pooled := Need(p.Open(theirs.poolMem))(b.t)
	opened := Need(b.gpu.OpenIPCEvent(theirs.event))(b.t)
	own := Need(b.gpu.NewEvent(EventInterprocess | EventDisableTiming))(b.t)
	Need(own.IPCHandle(b.t.Context()))(b.t)
	for _, kind := range []string{"memory of another process", "memory pool", "device memory", "event", "event"} {
		b.made[kind]++
	}
	b.memories[core.Of(m).Is] = true
	return func() error {
		err := errors.Join(b.held.Memset(m, 1), b.held.Memset(pooled, 1), opened.Record(b.held), own.Record(b.held))
		runtime.KeepAlive(p)
		return err
	}
}

// signals makes a graph that signals a semaphore and waits for it. On the software driver it returns a
// function that launches the graph, and does the same on a stream. Elsewhere the imported file is not
// of a semaphore, and nothing uses it: examples/vulkan has such a test with a semaphore of Vulkan.
func (b *besideHeld) signals(s *Stream, x *interop.Semaphore) (use func() error) {
	g := Need(graph.New(b.gpu))(b.t)
	b.made["graph"]++
	if x == nil {
		return func() error { return nil }
	}
	n := Need(g.Add(&graph.ExternalSignal{Ops: []ExternalOp{x.At(0)}}))(b.t)
	Need(g.Add(&graph.ExternalWait{Ops: []ExternalOp{x.At(0)}}, n))(b.t)
	e := Need(g.Instantiate())(b.t)
	b.made["executable graph"]++
	software := b.gpu.Device().Driver().String() == "the software driver"
	if software {
		b.ok(e.Launch(s))
	}
	return func() (err error) {
		if software {
			err = errors.Join(e.Launch(b.held), interop.Signal(b.held, x.At(0)), interop.Wait(b.held, x.At(0)))
		}
		runtime.KeepAlive(g)
		runtime.KeepAlive(e)
		return err
	}
}
