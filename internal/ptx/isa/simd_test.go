package isa

import (
	"math/rand/v2"
	"testing"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// TestVectorComparisons compares the comparisons by vector instructions with those lane by lane.
func TestVectorComparisons(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	numbers := []uint64{0, 1, 1 << 31, 1<<31 - 1, 1<<32 - 1, 1 << 63, 1<<63 - 1, 1<<64 - 1,
		0x3f800000, 0x7f800000, 0xff800000,
		0x7fc00000, 0xff800001, 0x80000001, 0x3ff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000,
		0xfff0000000000001}
	number := func() uint64 {
		n := numbers[r.IntN(len(numbers))]
		if r.IntN(2) == 0 {
			n += uint64(r.IntN(3)) - 1
		}
		return n
	}
	for _, row := range table()["setp"] {
		for _, v := range row.Variants() {
			vectorized := vectorComparison(v.Get("cmp"), v.T())
			if vectorized == nil || v.Has("ftz") || v.Has("bool") {
				continue
			}
			scalar := scalarComparison(v)
			for range 500 {
				w := &vm.Warp{R: make([]vm.Column, 2), Active: r.Uint32()}
				for i := range w.R[0] {
					w.R[0][i], w.R[1][i] = number()|r.Uint64()<<32*uint64(r.IntN(2)), number()
				}
				o := &vm.Op{A: 0, B: 1}
				if got, want := vectorized(w, o)&w.Active, scalar(w, o)&w.Active; got != want {
					t.Fatalf("%v of %#x and %#x: %#x, want %#x", v, w.R[0], w.R[1], got, want)
				}
			}
		}
	}
}
