package races

import "testing"

// TestForgets uses streams, contexts and variables that come and go. The detector keeps nothing for those that are
// gone.
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
		d.ContextDestroyed(ctx) // the host learns that the work is done
		d.HostUse("read", Use{Addr: 8, Size: 3 * 8, OnHost: true})
		d.Unloaded(variable, 8)
		d.ContextDone(ctx)
		d.ContextNeeded(ctx)
	}
	if n := d.lanes.all; n > 20 {
		t.Errorf("%d lanes for %d streams, one at a time", n, 3*rounds)
	}
	if len(d.streams) != 0 || len(d.contexts) != 0 || len(d.memory.segments[0]) != 0 {
		t.Errorf("%d streams, %d contexts, %d ranges of memory are left", len(d.streams), len(d.contexts),
			len(d.memory.segments[0]))
	}
}
