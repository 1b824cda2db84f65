package mem

import "testing"

// TestStaleBounds keeps more memory than is kept, of two sizes.
func TestStaleBounds(t *testing.T) {
	for _, size := range []uint64{64, MostStale} {
		var b Budget
		var l StaleList
		kept, unmapped, writes := 0, 0, 0
		found := func(f *Freed, at int) {
			if writes++; f.Freer != "first" || at != 7 {
				t.Errorf("byte %d of what %s has freed was written", at, f.Freer)
			}
		}
		for range 3 * MostStaleAll / max(size, LeastStale) {
			c := New(&b, size)
			name := "other"
			if kept == 0 {
				name = "first"
			}
			for _, old := range l.Keep(c, Freed{Freer: name}, found) {
				old.Release()
				unmapped++
			}
			if kept == 0 {
				data, _ := c.Part(0, size)
				data[7] = 'x'
			}
			kept++
		}
		most := MostStaleAll / int(max(size, LeastStale))
		if writes != 1 || len(l.list) != most || unmapped != kept-most || l.size != MostStaleAll {
			t.Errorf("of %d contents of %d bytes, %d are kept and %d unmapped, with %d writes", kept, size, len(l.list),
				unmapped, writes)
		}
		for _, s := range l.list {
			s.memory.Release()
		}
	}
}

// TestFreedList remembers more memory than it can, some of it at the same addresses.
func TestFreedList(t *testing.T) {
	var l FreedList
	for i := range uint64(2 * mostFreed) {
		l.Note(Freed{Addr: 100 * i, Size: 50, Freer: "first"})
	}
	l.Note(Freed{Addr: 100 * (2*mostFreed - 2), Size: 10, Freer: "second"})
	for addr, want := range map[uint64]string{
		0: "", 100 * (2*mostFreed - 2): "second", 100*(2*mostFreed-2) + 10: "first", 100*(2*mostFreed-1) + 50: "",
	} {
		got := ""
		if f := l.At(addr); f != nil {
			got = f.Freer
		}
		if got != want {
			t.Errorf("at %d: %q, want %q", addr, got, want)
		}
	}
}
