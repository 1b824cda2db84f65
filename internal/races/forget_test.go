package races

import "testing"

// TestForgets uses streams, contexts, variables and memory that come and go. The detector keeps nothing for those that
// are gone, but where the latest memory was freed, and whose kernels may still have its address.
func TestForgets(t *testing.T) {
	d := New(func(r Race) { t.Errorf("%v", r) })
	const rounds = 100
	for i := range rounds {
		ctx, variable := uintptr(100+i), uint64(0x1000*(i+1))
		for n := range 3 {
			s := Stream{Context: ctx, Handle: uintptr(10 + 3*i + n)}
			d.NewStream(s, n%2 == 0, true)
			d.Enqueue(s, "cuMemsetD32Async", "", []Use{
				{Addr: variable, Size: 8, Write: true}, {Addr: 8 * uint64(n+1), Size: 8, OnHost: true, Write: true}})
			d.Record(s, 7, PlainEvent) // the library marks the end of a stream's work when it destroys the stream
			d.StreamDestroyed(s)
		}
		freed := uint64(1<<20 + 0x1000*i)
		d.Allocated("DeviceMem", freed, 64, false)
		last := Stream{Context: ctx, Handle: uintptr(10 + 3*i)}
		d.Enqueue(last, "cuMemsetD8Async", "", []Use{{Addr: freed, Size: 64, Write: true}})
		d.Enqueue(last, "cuLaunchKernel", "", []Use{{Addr: freed, Address: true}})
		d.StreamDestroyed(last)
		if d.Freed(freed, false); len(d.memory.segments[0]) != 2 { // of the variable, and of the address
			t.Fatalf("%d ranges of memory are left after memory was freed", len(d.memory.segments[0]))
		}
		d.DestroyContext(ctx)() // the host learns that the work is done
		d.HostUse("read", Use{Addr: 8, Size: 3 * 8, OnHost: true})
		d.Unloaded(variable, 8)
		d.ContextDone(ctx)
		d.ContextNeeded(ctx)
		d.Allocated("DeviceMem", freed, 64, false) // the kernel is done
		d.Freed(freed, false)
	}
	if n := d.lanes.all; n > 20 {
		t.Errorf("%d lanes for %d streams, one at a time", n, 3*rounds)
	}
	if len(d.streams) != 0 || len(d.contexts) != 0 || len(d.memory.segments[0]) != 0 {
		t.Errorf("%d streams, %d contexts, %d ranges of memory are left", len(d.streams), len(d.contexts),
			len(d.memory.segments[0]))
	}
}

// TestContextHandle gives the handle of a context to another one before the destruction of the first one is known. The
// work of the second one is not done then.
func TestContextHandle(t *testing.T) {
	found := 0
	d := New(func(Race) { found++ })
	s := Stream{Context: 100, Handle: 10}
	write := func(addr uint64) {
		d.Enqueue(s, "cuMemsetD32Async", "", []Use{{Addr: addr, Size: 8, OnHost: true, Write: true}})
	}
	d.NewStream(s, true, true)
	write(8)
	destroyed := d.DestroyContext(100)
	d.NewStream(s, true, true)
	write(64)
	destroyed()
	d.HostUse("read", Use{Addr: 8, Size: 8, OnHost: true})
	d.Report()
	if found != 0 {
		t.Error("a race with work of the context that is destroyed")
	}
	d.HostUse("read", Use{Addr: 64, Size: 8, OnHost: true})
	d.Report()
	if found != 1 {
		t.Error("no race with work of the other context")
	}
}
