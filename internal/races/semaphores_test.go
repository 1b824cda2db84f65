package races

import "testing"

// TestSemaphoreBounds signals a semaphore, and waits for it, more often than the detector keeps.
func TestSemaphoreBounds(t *testing.T) {
	var found int
	d := New(func(Race) { found++ })
	a, b := Stream{1, 10, 0}, Stream{1, 11, 0}
	d.NewStream(a, true, true)
	d.NewStream(b, true, true)
	use := []Use{{Addr: 4096, Size: 8, Write: true}}
	const most = 3 * mostSignals
	for i := range uint64(most) {
		d.Enqueue(a, "write", "", use)
		d.WordOps(a, []WordOp{{Semaphore: 1, Value: i + 1}})
	}
	d.WordOps(b, []WordOp{{Semaphore: 1, Value: most, Waits: true}})
	d.Enqueue(b, "write", "", use)
	d.Report()
	if n := len(d.semaphores.list[1].signals); n != mostSignals || found != 0 {
		t.Errorf("%d signals are kept, and %d races found", n, found)
	}
	d.Enqueue(a, "write", "", use)
	d.Report()
	if found != 1 {
		t.Errorf("%d races found, want 1", found)
	}

	pending := func() (n int) {
		for _, g := range d.semaphores.gates {
			n += g.pending
		}
		return n
	}
	for i := range uint64(2 * mostGates) { // nothing here ends these
		d.WordOps(b, []WordOp{{Semaphore: 2, Value: i + 1, Waits: true}, {Semaphore: 3, Binary: true, Waits: true}})
		d.Enqueue(b, "write", "", use)
	}
	if n := pending(); n != mostGates || len(d.semaphores.gates) != n {
		t.Errorf("%d waits are pending, and %d kept", n, len(d.semaphores.gates))
	}
	if n := len(d.semaphores.list[2].waits) + len(d.semaphores.list[3].waits); n > 2 {
		t.Errorf("%d waits of one stream are kept at once", n)
	}
	d.StreamDone(b)
	if n := pending(); n != 0 {
		t.Errorf("%d waits are pending after the end of the stream's work", n)
	}
}

// TestSemaphoreOrder signals and waits in several orders, and asks whether a write of the first stream comes
// before one of the second.
func TestSemaphoreOrder(t *testing.T) {
	signal := func(v uint64) WordOp { return WordOp{Semaphore: 1, Value: v} }
	wait := func(v uint64) WordOp { return WordOp{Semaphore: 1, Value: v, Waits: true} }
	binary := WordOp{Semaphore: 2, Binary: true}
	await := WordOp{Semaphore: 2, Binary: true, Waits: true}
	for name, c := range map[string]struct {
		before, after []WordOp // of the first stream, around its write
		second        []WordOp // of the second stream, before its write
		races         int
	}{
		"equal":                      {nil, []WordOp{signal(1)}, []WordOp{wait(1)}, 0},
		"larger":                     {nil, []WordOp{signal(7)}, []WordOp{wait(2)}, 0},
		"an earlier value":           {[]WordOp{signal(1)}, []WordOp{signal(2)}, []WordOp{wait(1)}, 1},
		"lowered":                    {[]WordOp{signal(5)}, []WordOp{signal(2)}, []WordOp{wait(1)}, 0},
		"the same twice":             {[]WordOp{signal(1)}, []WordOp{signal(1)}, []WordOp{wait(1)}, 0},
		"zero":                       {nil, []WordOp{signal(1)}, []WordOp{wait(0)}, 1},
		"binary":                     {nil, []WordOp{binary}, []WordOp{await}, 0},
		"signalled before the write": {[]WordOp{binary}, nil, []WordOp{await}, 1},
		"of another semaphore":       {[]WordOp{signal(1)}, []WordOp{{Semaphore: 3, Value: 1}}, []WordOp{wait(1)}, 1},
	} {
		var found int
		d := New(func(Race) { found++ })
		a, b := Stream{1, 10, 0}, Stream{1, 11, 0}
		d.NewStream(a, true, true)
		d.NewStream(b, true, true)
		use := []Use{{Addr: 4096, Size: 8, Write: true}}
		d.WordOps(a, c.before)
		d.Enqueue(a, "write", "", use)
		d.WordOps(a, c.after)
		d.WordOps(b, c.second)
		d.Enqueue(b, "write", "", use)
		d.Report()
		if found != c.races {
			t.Errorf("%s: %d races found, want %d", name, found, c.races)
		}
	}
}

// TestSemaphoreForgotten destroys semaphores, also one whose signal and wait are pending.
func TestSemaphoreForgotten(t *testing.T) {
	var found int
	d := New(func(Race) { found++ })
	a, b := Stream{1, 10, 0}, Stream{1, 11, 0}
	d.NewStream(a, true, true)
	d.NewStream(b, true, true)
	d.NewTimeline(64, 0)
	use := []Use{{Addr: 4096, Size: 8, Write: true}}
	known := func(when string, want int) {
		t.Helper()
		if n := len(d.semaphores.list); n != want {
			t.Errorf("%s: %d semaphores are known, want %d", when, n, want)
		}
	}
	for id := range uint64(10) {
		d.WordOps(a, []WordOp{{Semaphore: id + 1, Value: 1}})
		waiting := Stream{1, 20 + uintptr(id), 0} // the second wait never ends
		d.WordOps(waiting, []WordOp{{Semaphore: id + 1, Value: 1, Waits: true},
			{Semaphore: id + 1, Value: 2, Waits: true}})
		d.SemaphoreDestroyed(id + 1)
	}
	d.SemaphoreDestroyed(100) // one that was never used
	known("destroyed", 0)

	d.Block(a, 64, 1) // until the host goes on
	d.Enqueue(a, "write", "", use)
	d.WordOps(a, []WordOp{{Semaphore: 20, Value: 1}})
	d.WordOps(b, []WordOp{{Semaphore: 20, Value: 1, Waits: true}})
	d.Enqueue(b, "write", "", use)
	d.SemaphoreDestroyed(20)
	known("destroyed before its signal", 1)
	d.HostSignal(64, 1)
	known("signalled", 0)
	if d.Stop(); found != 0 {
		t.Errorf("%d races found: the signal orders the writes", found)
	}
}
