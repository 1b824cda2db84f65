package mem

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// inPieces makes a content one of which each granule has a place of its own.
func inPieces(c *Content) *Content {
	l := c.reserve()
	l.whole, l.pieces = nil, make([]atomic.Pointer[byte], l.granules)
	c.layout.Store(l)
	return c
}

// TestContent compares random accesses with those of a slice, in one piece and in several.
func TestContent(t *testing.T) {
	const size = 9*Granule + 12345
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, pieces := range []bool{false, true} {
		all := &Budget{Most: 7 * Granule}
		c := New(all, size)
		if pieces {
			inPieces(c)
		}
		want := make([]byte, size)
		there := map[uint64]bool{}
		for range 400 {
			off := rnd.Uint64N(size)
			n := min(1+rnd.Uint64N(1<<rnd.UintN(23)), size-off)
			need := uint64(0)
			for i := off / Granule; i <= (off+n-1)/Granule; i++ {
				if !there[i] {
					need += c.sizeOf(i)
				}
			}
			fits := need <= all.Most-all.used
			switch rnd.IntN(5) {
			case 0:
				data := bytes.Repeat([]byte{byte(rnd.Uint32())}, int(n))
				if Put(c, off, data) != fits {
					t.Fatalf("pieces %v: a write of %d bytes at %d with %d bytes left: %v", pieces, n, off,
						all.Most-all.used, !fits)
				}
				if fits {
					copy(want[off:], data)
				}
			case 1:
				c.Clear(off, n)
				clear(want[off : off+n])
				continue
			case 2:
				at := rnd.Uint64N(size - n + 1)
				if at < off+n && off < at+n || !fits {
					continue
				}
				if !Copy(c, off, c, at, n) {
					t.Fatalf("pieces %v: a copy of %d bytes fails", pieces, n)
				}
				copy(want[off:off+n], want[at:at+n])
				for i := off / Granule; i <= (off+n-1)/Granule; i++ { // a copy of what is not there is nothing
					there[i] = c.layout.Load().has(i)
				}
				fits = false
			case 3:
				write := rnd.IntN(2) == 0
				begin, data := c.Window(off, write)
				if data == nil {
					if c.Lacks(off, 1) <= all.Most-all.used {
						t.Fatalf("pieces %v: there is no window", pieces)
					}
					continue
				}
				if off < begin || off >= begin+uint64(len(data)) || data[off-begin] != want[off] {
					t.Fatalf("pieces %v: the window of %d is %d bytes at %d", pieces, off, len(data), begin)
				}
				if write {
					for _, at := range []uint64{begin, begin + uint64(len(data)) - 1} {
						if c.Lacks(at, 1) > 0 {
							t.Fatalf("pieces %v: the window of %d has what is not there", pieces, off)
						}
					}
				}
				for i := range c.layout.Load().granules {
					there[i] = c.layout.Load().has(i)
				}
				continue
			default:
				got := make([]byte, n)
				for at := uint64(0); at < n; {
					data, length := c.Part(off+at, n-at)
					copy(got[at:at+length], data)
					at += length
				}
				if !bytes.Equal(got, want[off:off+n]) {
					t.Fatalf("pieces %v: %d bytes at %d differ", pieces, n, off)
				}
				continue
			}
			if fits {
				for i := off / Granule; i <= (off+n-1)/Granule; i++ {
					there[i] = true
				}
			}
			used := uint64(0)
			for i, is := range there {
				if is {
					used += c.sizeOf(i)
				}
			}
			if used != all.used || used != c.charged {
				t.Fatalf("pieces %v: %d bytes are in use, not %d", pieces, all.used, used)
			}
		}
		c.Release()
		if all.used != 0 {
			t.Errorf("pieces %v: %d bytes are left", pieces, all.used)
		}
		if Put(c, 0, []byte{1}) {
			t.Errorf("pieces %v: a released content can be written", pieces)
		}
	}
}

// TestContentBeside writes to one content from several goroutines, which need the same granules.
func TestContentBeside(t *testing.T) {
	for _, pieces := range []bool{false, true} {
		all := &Budget{Most: 8 * Granule}
		c := New(all, 8*Granule)
		if pieces {
			inPieces(c)
		}
		var done sync.WaitGroup
		for i := range uint64(4) {
			done.Go(func() {
				for g := range uint64(8) {
					if _, data := c.Window(g*Granule+i, true); data == nil {
						t.Error("there is no memory")
					} else {
						begin, data := c.Window(g*Granule+i, true)
						data[g*Granule+i-begin] = byte(i)
					}
				}
			})
		}
		done.Wait()
		for g := range uint64(8) {
			if data, _ := c.Part(g*Granule, 4); !bytes.Equal(data, []byte{0, 1, 2, 3}) {
				t.Errorf("Granule %d has %d", g, data)
			}
		}
		if all.used != all.Most {
			t.Errorf("%d bytes are in use", all.used)
		}
		c.Release()
	}
}

// TestSlots takes and gives back small memory of several sizes in a random order. Each piece is zero, and no other has
// its bytes. In the end no more than one mapping for each size is left.
func TestSlots(t *testing.T) {
	type piece struct {
		memory []byte
		of     *slab
		value  byte
	}
	var b Budget
	var list []piece
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 6000 {
		if n := len(list); n > 0 && (i >= 4000 || rng.IntN(5) < 2) {
			at := rng.IntN(n)
			p := list[at]
			if slices.ContainsFunc(p.memory, func(v byte) bool { return v != p.value }) {
				t.Fatalf("%d bytes have changed", len(p.memory))
			}
			b.giveSlot(p.memory, p.of)
			list = slices.Delete(list, at, at+1)
			continue
		}
		p := piece{value: byte(i)}
		p.memory, p.of = b.takeSlot(1 + rng.Uint64N(1<<(1+rng.IntN(mostSlot))))
		if p.memory == nil || slices.ContainsFunc(p.memory, func(v byte) bool { return v != 0 }) {
			t.Fatalf("%d bytes are not zero", len(p.memory))
		}
		for j := range p.memory {
			p.memory[j] = p.value
		}
		list = append(list, p)
	}
	for _, p := range list {
		b.giveSlot(p.memory, p.of)
	}
	if n := b.Mappings.Load(); n > mostSlot-leastSlot+1 {
		t.Errorf("%d mappings are left", n)
	}
}

// TestUnaskedRoom takes memory for the blocks of several launches when the machine has none left. They share what needs
// no question.
func TestUnaskedRoom(t *testing.T) {
	all := &Budget{Most: 1}
	list := make([]Room, 2*mostUnasked/unaskedStep)
	for round := range 2 {
		began := 0
		for i := range list {
			list[i].Budget = all
			if first, second := list[i].Take(1000), list[i].Take(1000); first && second {
				began++
			}
		}
		if want := mostUnasked / unaskedStep; began != want || list[0].Take(mostUnasked+1) {
			t.Errorf("round %d: %d launches have begun, want %d", round, began, want)
		}
		for i := range list {
			list[i].Give()
		}
	}
	if all.used != 0 || all.unasked.Load() != 0 {
		t.Errorf("%d and %d bytes are left", all.used, all.unasked.Load())
	}
}
