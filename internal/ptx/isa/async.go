package isa

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// asyncRows are the asynchronous copies, which take place at once here, and the barriers in memory.
func asyncRows() []*Instruction {
	const (
		prefetch = "l2?=L2::64B|L2::128B|L2::256B"
		to       = "space=shared|shared::cta "
		anywhere = "scope?=cta|cluster space?=shared|shared::cta|shared::cluster "
		ordered  = "sem?=release|relaxed " + anywhere
		acquired = "sem?=acquire|relaxed scope?=cta|cluster space?=shared|shared::cta "
	)
	nothing := func(name, modifiers, operands string) *Instruction {
		return &Instruction{Name: name, Modifiers: modifiers, Operands: operands, Kind: vm.Nothing}
	}
	many := func(w *vm.Warp, o *vm.Op, lane int) uint64 {
		if o.X == nil || !o.X.Counted {
			return 1
		}
		return w.R[o.B][lane] & barrierMask
	}
	arrive := func(v Variant) vm.Func {
		return changeBarrier(v, func(w *vm.Warp, o *vm.Op, lane int, word uint64) uint64 {
			return arrived(w, word, many(w, o, lane))
		})
	}
	drop := func(v Variant) vm.Func {
		return changeBarrier(v, func(w *vm.Warp, o *vm.Op, lane int, word uint64) uint64 {
			n := many(w, o, lane)
			return arrived(w, word-n<<barrierCount, n)
		})
	}
	expect := func(sign int64) func(Variant) vm.Func {
		return func(v Variant) vm.Func {
			return changeBarrier(v, func(w *vm.Warp, o *vm.Op, lane int, word uint64) uint64 {
				return transacted(w, word, sign*int64(uint32(w.R[o.B][lane])))
			})
		}
	}
	expectArrive := func(drops uint64) func(Variant) vm.Func {
		return func(v Variant) vm.Func {
			return changeBarrier(v, func(w *vm.Warp, o *vm.Op, lane int, word uint64) uint64 {
				word = transacted(w, word, int64(uint32(w.R[o.B][lane])))
				return arrived(w, word-drops<<barrierCount, 1)
			})
		}
	}
	set := func(f func(w *vm.Warp, o *vm.Op, lane int) uint64) func(Variant) vm.Func {
		return func(v Variant) vm.Func {
			return onBarrier(v, func(w *vm.Warp, o *vm.Op, lane int, word *uint64) { atomic.StoreUint64(word, f(w, o, lane)) })
		}
	}
	test := func(f func(word, state uint64) bool) func(Variant) vm.Func {
		return func(v Variant) vm.Func {
			return onBarrier(v, func(w *vm.Warp, o *vm.Op, lane int, word *uint64) {
				passed(w, o, lane, f(atomic.LoadUint64(word), w.R[o.B][lane]))
			})
		}
	}
	// The state may be of the present phase or of the one before.
	wait := test(func(word, state uint64) bool { return word>>barrierPhase != state>>barrierPhase })
	parity := test(func(word, state uint64) bool { return (word>>barrierPhase^state)&1 != 0 })
	return []*Instruction{
		{Name: "cp", Modifiers: "async cop=ca|cg " + to + "global " + prefetch, Operands: "m n i",
			Kind: vm.Touches, Special: "copy", Make: copyAsync},
		{Name: "cp", Modifiers: "async cop=ca|cg " + to + "global hint=L2::cache_hint " + prefetch,
			Operands: "m n i e:b64",
			Kind:     vm.Touches, Special: "copy", Make: copyAsync},
		nothing("cp", "async commit_group", ""),
		nothing("cp", "async wait_group", "i"),
		nothing("cp", "async wait_all", ""),
		// The barrier waits for one arrival more, which takes place at once.
		nothing("cp", "async mbarrier arrive space?=shared|shared::cta t=b64", "m"),
		{Name: "cp", Modifiers: "async mbarrier arrive noinc space?=shared|shared::cta t=b64", Operands: "m",
			Kind: vm.Touches, Make: arrive},
		{Name: "mbarrier", Modifiers: "init space?=shared|shared::cta t=b64", Operands: "m b:b32", Kind: vm.Touches,
			Make: set(func(w *vm.Warp, o *vm.Op, lane int) uint64 {
				n := w.R[o.B][lane] & barrierMask
				return n | n<<barrierCount
			})},
		{Name: "mbarrier", Modifiers: "inval space?=shared|shared::cta t=b64", Operands: "m", Kind: vm.Touches,
			Make: set(func(*vm.Warp, *vm.Op, int) uint64 { return 0 })},
		{Name: "mbarrier", Modifiers: "arrive " + ordered + "t=b64", Operands: "d m b:b32?", Kind: vm.Touches,
			Special: "counted", Make: arrive},
		{Name: "mbarrier", Modifiers: "expect_tx sem?=relaxed " + anywhere + "t=b64", Operands: "m b:b32",
			Kind: vm.Touches, Make: expect(1)},
		{Name: "mbarrier", Modifiers: "complete_tx sem?=relaxed " + anywhere + "t=b64", Operands: "m b:b32",
			Kind: vm.Touches, Make: expect(-1)},
		{Name: "mbarrier", Modifiers: "arrive expect_tx " + ordered + "t=b64", Operands: "d m b:b32",
			Kind: vm.Touches, Make: expectArrive(0)},
		{Name: "mbarrier", Modifiers: "arrive_drop expect_tx " + ordered + "t=b64", Operands: "d m b:b32",
			Kind: vm.Touches, Make: expectArrive(1)},
		{Name: "mbarrier", Modifiers: "arrive_drop noComplete " + ordered + "t=b64", Operands: "d m b:b32",
			Kind: vm.Touches, Special: "counted", Make: drop},
		{Name: "mbarrier", Modifiers: "arrive noComplete " + ordered + "t=b64", Operands: "d m b:b32",
			Kind: vm.Touches, Special: "counted", Make: arrive},
		{Name: "mbarrier", Modifiers: "arrive_drop " + ordered + "t=b64", Operands: "d m b:b32?", Kind: vm.Touches,
			Special: "counted", Make: drop},
		{Name: "mbarrier", Modifiers: "test=test_wait|try_wait " + acquired + "t=b64", Operands: "P m b:b64 c:b32?",
			Kind: vm.Touches, Make: wait},
		{Name: "mbarrier", Modifiers: "test=test_wait|try_wait parity " + acquired + "t=b64",
			Operands: "P m b:b32 c:b32?", Kind: vm.Touches, Make: parity},
		{Name: "mbarrier", Modifiers: "pending_count t=b64", Operands: "d:b32 a:b64", Make: func(Variant) vm.Func {
			return one(func(a uint64) uint32 { return uint32(a & barrierMask) })
		}},
	}
}

// The word of a barrier has the number of arrivals that are missing, above it the number at the
// beginning of a phase, the number of bytes that are missing, and above that the number of phases that are
// complete. The number of bytes is below 0 if they come before they are expected. The state that an arrival
// returns is such a word.
const (
	barrierMask  = 1<<20 - 1
	barrierCount = 20
	barrierBytes = 40
	barrierPhase = 61
)

// onBarrier returns the function of an instruction about barriers in shared memory. Other blocks of the
// cluster may change a barrier at the same time.
func onBarrier(v Variant, f func(w *vm.Warp, o *vm.Op, lane int, word *uint64)) vm.Func {
	space := spaceOf(v)
	if v.Has("sem") != v.Has("scope") || v.Has("noComplete") && (v.Get("scope") == "cluster" ||
		v.Get("sem") == "relaxed" || v.Get("space") == "shared::cluster") {
		return nil
	}
	return func(w *vm.Warp, o *vm.Op) {
		a := w.R[o.A]
		for i := range w.Each {
			p := space(w, o, i, a[i]+uint64(o.Imm), 8, true)
			if p == nil {
				return
			}
			f(w, o, i, (*uint64)(p))
		}
	}
}

// changeBarrier returns the function of an instruction that changes a barrier. D gets the state before.
func changeBarrier(v Variant, f func(w *vm.Warp, o *vm.Op, lane int, word uint64) uint64) vm.Func {
	return onBarrier(v, func(w *vm.Warp, o *vm.Op, lane int, word *uint64) {
		w.R[o.D][lane] = vm.Update(unsafe.Pointer(word), 8, func(old uint64) uint64 { return f(w, o, lane, old) })
	})
}

// arrived returns the word of a barrier after arrivals. More than are missing are a mistake, for some of
// which an H200 has a fault.
func arrived(w *vm.Warp, word, n uint64) uint64 {
	missing := word & barrierMask
	if n > missing {
		w.Fail(vm.LaunchFailed, fmt.Sprintf("%d arrivals at a barrier in memory that waits for %d", n, missing))
		return word
	}
	return completed(word - n)
}

// transacted returns the word of a barrier that waits for more bytes, or for less.
func transacted(w *vm.Warp, word uint64, n int64) uint64 {
	bytes := missingBytes(word) + n
	if bytes > barrierMask || bytes < -barrierMask {
		w.Fail(vm.LaunchFailed, fmt.Sprintf("a barrier in memory would wait for %d bytes, and it counts up to %d", bytes,
			barrierMask))
		return word
	}
	const mask = 1<<(barrierPhase-barrierBytes) - 1
	return completed(word&^(mask<<barrierBytes) | uint64(bytes)&mask<<barrierBytes)
}

// missingBytes returns how many bytes a barrier waits for.
func missingBytes(word uint64) int64 {
	const above = 64 - barrierPhase
	return int64(word<<above) >> (above + barrierBytes)
}

// completed returns the word of a barrier, or that of the next phase if nothing is missing.
func completed(word uint64) uint64 {
	if word&barrierMask != 0 || missingBytes(word) != 0 {
		return word
	}
	count := word >> barrierCount & barrierMask
	return count | count<<barrierCount | (word>>barrierPhase+1)<<barrierPhase
}

// passed sets the predicate of a lane.
func passed(w *vm.Warp, o *vm.Op, lane int, yes bool) {
	w.P[o.D] &^= 1 << lane
	if yes {
		w.P[o.D] |= 1 << lane
	}
}

// copyAsync returns the function of an asynchronous copy to shared memory: A is the address there, B
// that of the source, and X.N the size. C is how many bytes are read, if X.Counted is set; zeros follow
// them. If the predicate X.P is true, none are read.
func copyAsync(v Variant) vm.Func {
	space := spaceOf(v)
	return func(w *vm.Warp, o *vm.Op) {
		a, b, size := w.R[o.A], w.R[o.B], uint64(o.X.N)
		for i := range w.Each {
			to := space(w, o, i, a[i]+uint64(o.Imm), size, true)
			if to == nil {
				return
			}
			n := size
			if o.X.P != 0 && w.Truth(o.X.P)>>i&1 != 0 {
				n = 0
			}
			if o.X.Counted {
				n = min(n, uint64(uint32(w.R[o.C][i])))
			}
			var data [16]byte
			if from := b[i] + uint64(o.X.Offset); n > 0 && !w.Aligned(i, from, size, false) {
				return
			}
			for at := uint64(0); at < n; at++ {
				from := w.Pointer(o, i, b[i]+uint64(o.X.Offset)+at, 1, false)
				if from == nil {
					return
				}
				data[at] = *(*byte)(from)
			}
			copy(unsafe.Slice((*byte)(to), size), data[:size])
		}
	}
}
