package isa

import (
	"math/bits"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// warpRows are the instructions that exchange values in a warp.
func warpRows() []*Instruction {
	return []*Instruction{
		{Name: "activemask", Modifiers: "t=b32", Operands: "d", Make: func(Variant) vm.Func {
			return uniform(func(w *vm.Warp) uint64 { return uint64(w.Active) })
		}},
		{Name: "vote", Modifiers: "sync op=ballot t=b32", Operands: "d A e:b32", Kind: vm.Sync, Make: ballot},
		{Name: "vote", Modifiers: "sync op=all|any|uni pred", Operands: "P A e:b32", Kind: vm.Sync, Make: vote},
		{Name: "shfl", Modifiers: "sync mode=up|down|bfly|idx t=b32", Operands: "s a b:b32 c:b32 e:b32",
			Kind: vm.Sync, Make: shuffleOf},
		// Those without .sync are for targets before sm_70.
		{Name: "vote", Modifiers: "op=ballot t=b32", Operands: "d A", Make: ballot, Special: "before sm_70"},
		{Name: "vote", Modifiers: "op=all|any|uni pred", Operands: "P A", Make: vote, Special: "before sm_70"},
		{Name: "shfl", Modifiers: "mode=up|down|bfly|idx t=b32", Operands: "s a b:b32 c:b32", Make: shuffleOf,
			Special: "before sm_70"},
		{Name: "match", Modifiers: "op=any sync t=b32|b64", Operands: "d:b32 a e:b32", Kind: vm.Sync,
			Make: func(v Variant) vm.Func {
				mask := uint64(1<<64-1) >> (64 - sizeOf(v.T()))
				return func(w *vm.Warp, o *vm.Op) {
					a, d := w.R[o.A], &w.R[o.D]
					for i := range w.Each {
						d[i] = 0
						for j := range w.Each {
							if (a[i]^a[j])&mask == 0 {
								d[i] |= 1 << j
							}
						}
					}
				}
			}},
		{Name: "match", Modifiers: "op=all sync t=b32|b64", Operands: "s:b32 a e:b32", Kind: vm.Sync,
			Make: func(v Variant) vm.Func {
				mask := uint64(1<<64-1) >> (64 - sizeOf(v.T()))
				return func(w *vm.Warp, o *vm.Op) {
					a, d, all := w.R[o.A], &w.R[o.D], w.Active
					for i := range w.Each {
						if (a[i]^a[w.First()])&mask != 0 {
							all = 0
						}
					}
					for i := range w.Each {
						d[i] = uint64(all)
					}
					if o.X != nil && o.X.P != 0 {
						w.SetPredicate(o.X.P-1, all)
					}
				}
			}},
		{Name: "redux", Modifiers: "sync op=add|min|max t=u32|s32", Operands: "d a e:b32", Kind: vm.Sync, Make: redux},
		{Name: "redux", Modifiers: "sync op=and|or|xor t=b32", Operands: "d a e:b32", Kind: vm.Sync, Make: redux},
		{Name: "elect", Modifiers: "sync", Operands: "s:b32| e:b32", Kind: vm.Sync, Make: func(Variant) vm.Func {
			return func(w *vm.Warp, o *vm.Op) {
				leader, d := w.First(), &w.R[o.D]
				for i := range w.Each {
					d[i] = uint64(leader)
				}
				if o.X != nil && o.X.P != 0 {
					w.SetPredicate(o.X.P-1, 1<<leader)
				}
			}
		}},
		{Name: "bar", Modifiers: "warp sync", Operands: "e:b32", Kind: vm.Sync,
			Make:    func(Variant) vm.Func { return func(*vm.Warp, *vm.Op) {} },
			Special: "anyplace"},
	}
}

func ballot(Variant) vm.Func {
	return func(w *vm.Warp, o *vm.Op) {
		v, d := uint64(w.Truth(o.A)&w.Active), &w.R[o.D]
		for i := range w.Each {
			d[i] = v
		}
	}
}

func vote(v Variant) vm.Func {
	op := v.Get("op")
	return func(w *vm.Warp, o *vm.Op) {
		yes := w.Truth(o.A) & w.Active
		all, any := yes == w.Active, yes != 0
		if op == "all" && all || op == "any" && any || op == "uni" && (all || !any) {
			yes = vm.Full
		} else {
			yes = 0
		}
		w.SetPredicate(o.D, yes)
	}
}

func shuffleOf(v Variant) vm.Func {
	m := v.Get("mode")
	return func(w *vm.Warp, o *vm.Op) { shuffle(w, o, m) }
}

// shuffle executes shfl.
func shuffle(w *vm.Warp, o *vm.Op, mode string) {
	a, b, c, d := w.R[o.A], w.R[o.B], w.R[o.C], &w.R[o.D]
	inside := uint32(0)
	for i := range w.Each {
		n, clamp, segment := int(b[i]&31), int(c[i]&31), int(c[i]>>8&31)
		// The lanes of the segment are from least to most.
		most := i&segment | clamp&^segment
		least := i & segment
		var j int
		var in bool
		switch mode {
		case "up":
			j = i - n
			in = j >= most
		case "down":
			j = i + n
			in = j <= most
		case "bfly":
			j = i ^ n
			in = j <= most
		default:
			j = least | n&^segment
			in = j <= most
		}
		if !in {
			j = i
		} else {
			inside |= 1 << i
		}
		d[i] = a[j&31]
	}
	if o.X != nil && o.X.P != 0 {
		w.SetPredicate(o.X.P-1, inside)
	}
}

// redux returns the function of a reduction.
func redux(v Variant) vm.Func {
	f := map[string]func(a, b uint32) uint32{
		"addu32": addOf[uint32], "adds32": addOf[uint32],
		"minu32": minOf[uint32], "maxu32": maxOf[uint32],
		"mins32": func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) },
		"maxs32": func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) },
		"andb32": func(a, b uint32) uint32 { return a & b },
		"orb32":  func(a, b uint32) uint32 { return a | b },
		"xorb32": func(a, b uint32) uint32 { return a ^ b },
	}[v.Get("op")+v.T()]
	return func(w *vm.Warp, o *vm.Op) {
		a, d := &w.R[o.A], &w.R[o.D]
		x := uint32(a[w.First()])
		for m := w.Active & (w.Active - 1); m != 0; m &= m - 1 {
			x = f(x, uint32(a[bits.TrailingZeros32(m)&31]))
		}
		for i := range w.Each {
			d[i] = uint64(x)
		}
	}
}
