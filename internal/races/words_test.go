package races

import "testing"

// TestWordPasses compares values of words with waits.
func TestWordPasses(t *testing.T) {
	for _, c := range []struct {
		op   WordOp
		have uint64
		want bool
	}{
		{WordOp{Size: 4, Value: 5}, 5, true},
		{WordOp{Size: 4, Value: 5}, 4, false},
		{WordOp{Size: 4, Value: 1<<32 - 1}, 3, true}, // the word has wrapped around
		{WordOp{Size: 8, Value: 1<<32 - 1}, 3, false},
		{WordOp{Size: 8, Value: 1<<64 - 1}, 3, true},
		{WordOp{Size: 4, Value: 1 << 31}, 0, false},
		{WordOp{Size: 4, Value: 7, Until: WaitEqual}, 7, true},
		{WordOp{Size: 4, Value: 7, Until: WaitEqual}, 8, false},
		{WordOp{Size: 4, Value: 6, Until: WaitAnd}, 4, true},
		{WordOp{Size: 4, Value: 6, Until: WaitAnd}, 1, false},
		{WordOp{Size: 4, Value: 1<<32 - 2, Until: WaitNor}, 0, true},
		{WordOp{Size: 4, Value: 1<<32 - 2, Until: WaitNor}, 1, false},
		{WordOp{Size: 8, Value: 1<<32 - 2, Until: WaitNor}, 1, true},
	} {
		if got := c.op.passes(c.have); got != c.want {
			t.Errorf("%+v with %#x: %v", c.op, c.have, got)
		}
	}
}

// TestWordsKept writes words more often than the detector keeps, and waits for the latest value.
func TestWordsKept(t *testing.T) {
	var found int
	d := New(func(Race) { found++ })
	a, b := Stream{1, 10, 0}, Stream{1, 11, 0}
	d.NewStream(a, true, true)
	d.NewStream(b, true, true)
	use := []Use{{Addr: 4096, Size: 8, Write: true}}
	for i := range uint64(3 * maxWrites) {
		d.Enqueue(a, "write", "", use)
		d.WordOps(a, []WordOp{{Addr: 64, Size: 4, Value: i}})
	}
	d.WordOps(b, []WordOp{{Addr: 64, Size: 4, Value: 3*maxWrites - 1, Waits: true}})
	d.Enqueue(b, "write", "", use)
	d.Report()
	if n := len(d.word(WordOp{Addr: 64, Size: 4}).writes); n != maxWrites || found != 0 {
		t.Errorf("%d writes are kept, and %d races found", n, found)
	}
	d.Enqueue(a, "write", "", use)
	d.Report()
	if found != 1 {
		t.Errorf("%d races found, want 1", found)
	}
}

// TestWordsForgotten operates on words of memory that comes and goes, each time at another address.
func TestWordsForgotten(t *testing.T) {
	d := New(func(r Race) { t.Errorf("%v", r) })
	s := Stream{1, 10, 0}
	d.NewStream(s, true, true)
	for i := range uint64(3 * maxFreed) {
		freed, variable := 0x1000*(2*i+1), 0x1000*(2*i+2)
		d.Allocated("device memory", freed, 64, false)
		d.WordOps(s, []WordOp{{Addr: freed, Size: 4, Value: 1}, {Addr: variable, Size: 8, Value: 1}})
		d.StreamDone(s)
		d.Freed(freed, false)
		d.Unloaded(variable, 64)
	}
	if n := len(d.words.list); n > maxFreed {
		t.Errorf("%d words are kept", n)
	}
}
