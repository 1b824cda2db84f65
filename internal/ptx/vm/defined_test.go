package vm

import (
	"math/rand/v2"
	"testing"
)

// TestDefined compares random changes with those of a slice.
func TestDefined(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		size := 1 + r.Uint64N(5*pageBytes)
		var all [2]*Defined
		var want [2][]bool
		for i := range all {
			all[i], want[i] = NewDefined(size), make([]bool, size)
		}
		for range 200 {
			off := r.Uint64N(size)
			n := r.Uint64N(size - off + 1)
			if r.IntN(2) == 0 {
				n = min(n, r.Uint64N(200))
			}
			i := r.IntN(2)
			switch r.IntN(3) {
			case 0:
				if r.IntN(20) > 0 {
					n = min(n, 3000)
				}
				all[i].Set(off, n)
				for j := off; j < off+n; j++ {
					want[i][j] = true
				}
			case 1:
				at, is := all[i].Missing(off, n)
				for j := off; j < off+n; j++ {
					if !want[i][j] {
						if !is || at != j {
							t.Fatalf("size %d, %d bytes at %d: %d, %v; want %d", size, n, off, at, is, j)
						}
						is = false
						break
					}
				}
				if is {
					t.Fatalf("size %d, %d bytes at %d: %d; want none", size, n, off, at)
				}
			default:
				at := r.Uint64N(size - n + 1)
				all[i].Copy(off, all[1-i], at, n)
				for j := range n {
					want[i][off+j] = want[i][off+j] || want[1-i][at+j]
				}
			}
		}
	}
	var none *Defined
	none.Set(0, 5)
	if _, is := none.Missing(0, 5); is {
		t.Error("a nil Defined misses something")
	}
}
