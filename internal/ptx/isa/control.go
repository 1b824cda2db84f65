package isa

import "github.com/purecu/purecu/internal/ptx/vm"

// controlRows are the instructions that change what is executed next.
func controlRows() []*Instruction {
	return []*Instruction{
		{Name: "bra", Modifiers: "uni?", Operands: "l", Kind: vm.Branch},
		{Name: "brx", Modifiers: "idx uni?", Operands: "a:b32 t", Kind: vm.Index},
		{Name: "call", Modifiers: "uni?", Kind: vm.Call, Special: "call"},
		{Name: "ret", Modifiers: "uni?", Kind: vm.Return, Special: "ret"},
		{Name: "exit", Kind: vm.Exit},
		{Name: "trap", Kind: vm.Trap, Special: "trap"},
		{Name: "brkpt", Kind: vm.Trap, Special: "trap"},
		{Name: "alloca", Modifiers: "t=u32|u64", Operands: "d b i?", Kind: vm.Touches, Special: "stack",
			Make: func(v Variant) vm.Func { return onStack(v, vm.Allocate) }},
		{Name: "stacksave", Modifiers: "t=u32|u64", Operands: "d", Special: "stack",
			Make: func(Variant) vm.Func { return Move }},
		{Name: "stackrestore", Modifiers: "t=u32|u64", Operands: "b", Kind: vm.Touches, Special: "stack",
			Make: func(v Variant) vm.Func { return onStack(v, vm.SetStack) }},
		{Name: "nanosleep", Modifiers: "t=u32", Operands: "a", Kind: vm.Nothing},
		{Name: "pmevent", Operands: "i", Kind: vm.Nothing},
		{Name: "pmevent", Modifiers: "mask", Operands: "i", Kind: vm.Nothing},
		{Name: "setmaxnreg", Modifiers: "how=inc|dec sync aligned t=u32", Operands: "i", Kind: vm.Nothing},
		{Name: "barrier", Modifiers: "cluster arrive sem?=release|relaxed aligned?", Kind: vm.Cluster, Special: "cluster"},
		{Name: "barrier", Modifiers: "cluster wait sem?=acquire aligned?", Kind: vm.Cluster, Special: "cluster"},
		{Name: "mapa", Modifiers: "space?=shared::cluster t=u32|u64", Operands: "d a b:b32", Special: "clusters",
			Make: func(Variant) vm.Func {
				return func(w *vm.Warp, o *vm.Op) {
					for i := range w.Each {
						w.R[o.D][i] = w.MapRank(w.R[o.A][i], uint32(w.R[o.B][i]))
					}
				}
			}},
		{Name: "getctarank", Modifiers: "space?=shared::cluster t=u32|u64", Operands: "d:u32 a", Special: "clusters",
			Make: func(Variant) vm.Func {
				return func(w *vm.Warp, o *vm.Op) {
					for i := range w.Each {
						w.R[o.D][i] = uint64(w.RankOf(w.R[o.A][i]))
					}
				}
			}},
		{Name: "griddepcontrol", Modifiers: "how=launch_dependents|wait", Kind: vm.Nothing},
		{Name: "bar", Modifiers: "cta? sync", Operands: "a:b32 b:b32?", Kind: vm.Barrier, Special: "barrier"},
		{Name: "bar", Modifiers: "cta? arrive", Operands: "a:b32 b:b32", Kind: vm.Barrier, Special: "barrier"},
		{Name: "barrier", Modifiers: "cta? sync aligned?", Operands: "a:b32 b:b32?", Kind: vm.Barrier,
			Special: "barrier"},
		{Name: "barrier", Modifiers: "cta? arrive aligned?", Operands: "a:b32 b:b32", Kind: vm.Barrier,
			Special: "barrier"},
		{Name: "bar", Modifiers: "cta? red op=popc t=u32", Operands: "d a:b32 b:b32? C", Kind: vm.Barrier,
			Make: reduced, Special: "barrier"},
		{Name: "bar", Modifiers: "cta? red op=and|or pred", Operands: "P a:b32 b:b32? C", Kind: vm.Barrier,
			Make: reduced, Special: "barrier"},
		{Name: "barrier", Modifiers: "cta? red op=popc aligned? t=u32", Operands: "d a:b32 b:b32? C",
			Kind: vm.Barrier, Make: reduced, Special: "barrier"},
		{Name: "barrier", Modifiers: "cta? red op=and|or aligned? pred", Operands: "P a:b32 b:b32? C",
			Kind: vm.Barrier, Make: reduced, Special: "barrier"},
	}
}

// reduced returns the function that writes what a barrier has computed.
func reduced(v Variant) vm.Func {
	if v.Get("op") == "popc" {
		return uniform(func(w *vm.Warp) uint64 { return uint64(w.Result) })
	}
	return func(w *vm.Warp, o *vm.Op) { w.SetPredicate(o.D, w.Result) }
}

// Reduction returns the number of a barrier's reduction.
func Reduction(v Variant) int64 {
	switch v.Get("op") {
	case "and":
		return vm.ReduceAnd
	case "or":
		return vm.ReduceOr
	}
	return vm.ReduceCount
}

// onStack returns the function of an instruction about the stack, whose operand B has 32 or 64 bits.
func onStack(v Variant, f vm.Func) vm.Func {
	if v.T() == "u64" {
		return f
	}
	return func(w *vm.Warp, o *vm.Op) {
		b := &w.R[o.B]
		for i := range w.Each {
			b[i] = extend(b[i], "u32")
		}
		f(w, o)
	}
}
