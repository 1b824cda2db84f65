package isa

import (
	"strings"

	"github.com/purecu/purecu/internal/ptx/softfloat"
	"github.com/purecu/purecu/internal/ptx/vm"
)

const atomics = "sem?=relaxed|acquire|release|acq_rel scope?=cta|cluster|gpu|sys space?=global|shared|shared::cta|shared::cluster "

const atomicsBehind = " sem=relaxed|acquire|release|acq_rel scope=cta|cluster|gpu|sys space?=global|shared|shared::cta|shared::cluster"

const inGlobal = "sem?=relaxed|acquire|release|acq_rel scope?=cta|cluster|gpu|sys space?=global "

// atomicRows are the instructions that change memory atomically.
func atomicRows() []*Instruction {
	var list []*Instruction
	for _, op := range []struct{ name, types string }{
		{"op=add", "u32|s32|u64|f32|f64"},
		{"op=min|max", "u32|s32|u64|s64"},
		{"op=and|or|xor", "b32|b64"},
		{"op=inc|dec", "u32"},
	} {
		modifiers := atomics + op.name + " t=" + op.types
		// CUDA's headers write the operation first.
		list = append(list, &Instruction{Name: "atom", Modifiers: op.name + atomicsBehind + " t=" + op.types,
			Operands: "d m b", Kind: vm.Touches, Make: func(v Variant) vm.Func { return atomically(v, true) }})
		hinted := atomics + op.name + " hint=L2::cache_hint t=" + op.types
		list = append(list,
			&Instruction{Name: "atom", Modifiers: hinted, Operands: "d m b e:b64", Kind: vm.Touches,
				Make: func(v Variant) vm.Func { return atomically(v, true) }},
			&Instruction{Name: "red", Modifiers: hinted, Operands: "m b e:b64", Kind: vm.Touches, Make: reduce},
			&Instruction{Name: "atom", Modifiers: modifiers, Operands: "d m b", Kind: vm.Touches,
				Make: func(v Variant) vm.Func { return atomically(v, true) }},
			&Instruction{Name: "red", Modifiers: modifiers, Operands: "m b", Kind: vm.Touches, Make: reduce})
	}
	for _, op := range []struct{ text, operands string }{
		{"op=exch" + atomicsBehind + " t=b32|b64", "d m b"}, {"op=cas" + atomicsBehind + " t=b32|b64|b16", "d m b c"},
	} {
		list = append(list, &Instruction{Name: "atom", Modifiers: op.text, Operands: op.operands, Kind: vm.Touches,
			Make: func(v Variant) vm.Func { return atomically(v, true) }})
	}
	for _, op := range []struct{ text, operands string }{
		{"op=exch" + atomicsBehind + " t=b128", "d m b"}, {"op=cas" + atomicsBehind + " t=b128", "d m b c"},
		{atomics + "op=exch t=b128", "d m b"}, {atomics + "op=cas t=b128", "d m b c"},
		{atomics + "op=exch hint=L2::cache_hint t=b128", "d m b e:b64"},
	} {
		list = append(list, &Instruction{Name: "atom", Modifiers: op.text, Operands: op.operands, Kind: vm.Touches,
			Make: wideUpdate})
	}
	for _, op := range []struct{ vec, op, t, operand string }{
		{"vec=v2|v4", "op=add", "t=f32", "f32"},
		{"vec=v2|v4|v8", "op=add|min|max noftz", "t=f16|bf16", "b16"},
		{"vec=v2|v4", "op=add|min|max noftz", "t=f16x2|bf16x2", "b32"},
	} {
		// The manual has the operation before the vector, and its examples have it at the end.
		for _, order := range []string{op.op + " " + op.vec + " " + op.t, op.vec + " " + op.t + " " + op.op} {
			modifiers := inGlobal + order
			list = append(list,
				&Instruction{Name: "atom", Modifiers: modifiers, Operands: "0:" + op.operand + " m 1:" + op.operand,
					Kind: vm.Touches, Special: "lists", Make: func(v Variant) vm.Func { return atomicVector(v, true) },
					Lengths: vectorLengths},
				&Instruction{Name: "red", Modifiers: modifiers, Operands: "m 1:" + op.operand, Kind: vm.Touches,
					Special: "lists", Make: func(v Variant) vm.Func { return atomicVector(v, false) }, Lengths: vectorLengths})
		}
	}
	return append(list,
		&Instruction{Name: "atom", Modifiers: atomics + "op=exch hint=L2::cache_hint t=b32|b64", Operands: "d m b e:b64",
			Kind: vm.Touches, Make: func(v Variant) vm.Func { return atomically(v, true) }},
		&Instruction{Name: "atom", Modifiers: atomics + "op=exch t=b32|b64", Operands: "d m b", Kind: vm.Touches,
			Make: func(v Variant) vm.Func { return atomically(v, true) }},
		&Instruction{Name: "atom", Modifiers: atomics + "op=cas t=b32|b64|b16", Operands: "d m b c", Kind: vm.Touches,
			Make: func(v Variant) vm.Func { return atomically(v, true) }},
		&Instruction{Name: "atom", Modifiers: atomics + "op=add noftz t=f16|bf16|f16x2|bf16x2", Operands: "d m b",
			Kind: vm.Touches, Make: func(v Variant) vm.Func { return atomically(v, true) }},
		&Instruction{Name: "red", Modifiers: atomics + "op=add noftz t=f16|bf16|f16x2|bf16x2", Operands: "m b",
			Kind: vm.Touches, Make: reduce})
}

// reduce returns the function of red, which reads nothing that others have released.
func reduce(v Variant) vm.Func {
	if s := v.Get("sem"); s == "acquire" || s == "acq_rel" {
		return nil
	}
	return atomically(v, false)
}

// atomically returns the function of an atomic operation. The lanes change the memory in their order.
func atomically(v Variant, returns bool) vm.Func {
	f, flushed, space, size := updateOf(v), flushedUpdate(v), spaceOf(v), updateSize(v)
	shared := strings.HasPrefix(v.Get("space"), "shared")
	if shared && v.Has("hint") {
		return nil
	}
	return func(w *vm.Warp, o *vm.Op) {
		a, b, c := w.R[o.A], &w.R[o.B], &w.R[o.C]
		for i := range w.Each {
			p := space(w, o, i, a[i]+uint64(o.Imm), size, true)
			if p == nil {
				return
			}
			x, y := b[i], c[i]
			g := func(old uint64) uint64 { return flushed(old, x, y) }
			if shared || (a[i]+uint64(o.Imm))&^(vm.WindowSize-1) == vm.SharedWindow {
				g = func(old uint64) uint64 { return f(old, x, y) }
			}
			if old := change(p, 0, size, g); returns {
				w.R[o.D][i] = old
			}
		}
	}
}

// wideUpdate returns the function of an atomic operation on 128 bits. The columns are those of the lower halves, and
// those of the upper halves follow.
func wideUpdate(v Variant) vm.Func {
	space, swap := spaceOf(v), v.Get("op") == "cas"
	if v.Has("hint") && strings.HasPrefix(v.Get("space"), "shared") {
		return nil
	}
	return func(w *vm.Warp, o *vm.Op) {
		a := w.R[o.A]
		for i := range w.Each {
			p := space(w, o, i, a[i]+uint64(o.Imm), 16, true)
			if p == nil {
				return
			}
			low, high := w.UpdateWide(p, func(low, high uint64) (uint64, uint64) {
				switch {
				case !swap:
					return w.R[o.B][i], w.R[o.B+1][i]
				case low == w.R[o.B][i] && high == w.R[o.B+1][i]:
					return w.R[o.C][i], w.R[o.C+1][i]
				}
				return low, high
			})
			if o.D != 0 {
				w.R[o.D][i], w.R[o.D+1][i] = low, high
			}
		}
	}
}

// vectorLengths returns the numbers of registers of the result and of the operand.
func vectorLengths(v Variant) []int {
	n := int(v.Get("vec")[1] - '0')
	return []int{n, n}
}

// atomicVector returns the function of atomic operations on a vector. Each element is changed for itself.
func atomicVector(v Variant, returns bool) vm.Func {
	if s := v.Get("sem"); !returns && (s == "acquire" || s == "acq_rel") {
		return nil
	}
	f, size := flushedUpdate(v), updateSize(v)
	return func(w *vm.Warp, o *vm.Op) {
		a, operands := w.R[o.A], o.X.Lists[1]
		for i := range w.Each {
			p := w.Pointer(o, i, a[i]+uint64(o.Imm), size*uint64(len(operands)), true)
			if p == nil {
				return
			}
			var old [8]uint64
			for j, c := range operands {
				x := w.R[c][i]
				old[j] = change(p, j, size, func(old uint64) uint64 { return f(old, x, 0) })
			}
			if !returns {
				continue
			}
			for j, c := range o.X.Lists[0] {
				w.R[c][i] = old[j]
			}
		}
	}
}

// updateSize returns the size of what is changed at once, in bytes.
func updateSize(v Variant) uint64 {
	if paired(v.T()) {
		return 4
	}
	return uint64(sizeOf(v.T()) / 8)
}

// flushedUpdate is updateOf for global memory, where sums of f32 have zeros instead of subnormal numbers.
func flushedUpdate(v Variant) func(old, b, c uint64) uint64 {
	if v.Get("op")+v.T() == "addf32" {
		return func(old, b, _ uint64) uint64 {
			f := softfloat.F32
			return f.Flush(f.Add(f.Flush(old), f.Flush(b&(1<<32-1)), softfloat.RN))
		}
	}
	return updateOf(v)
}

// updateOf returns the new value for the old one and the operands.
func updateOf(v Variant) func(old, b, c uint64) uint64 {
	size, signed := sizeOf(v.T()), v.T()[0] == 's'
	less := func(a, b uint64) bool {
		if signed {
			return int64(extend(a, v.T())) < int64(extend(b, v.T()))
		}
		return a<<(64-size)>>(64-size) < b<<(64-size)>>(64-size)
	}
	switch op := v.Get("op"); op {
	case "min", "max":
		switch v.T() {
		case "f16", "bf16", "f16x2", "bf16x2":
			return number(v, ofTwo(extremeOf(v, op == "min")))
		}
		return func(old, b, _ uint64) uint64 { return choice(less(b, old) == (op == "min"), b, old) }
	case "add":
		switch v.T() {
		case "f32":
			return func(old, b, _ uint64) uint64 { return softfloat.F32.Add(old, b&(1<<32-1), softfloat.RN) }
		case "f64":
			return func(old, b, _ uint64) uint64 { return softfloat.F64.Add(old, b, softfloat.RN) }
		case "f16", "bf16", "f16x2", "bf16x2":
			return number(v, ofTwo(softfloat.Format.Add))
		}
		return func(old, b, _ uint64) uint64 { return old + b }
	case "and":
		return func(old, b, _ uint64) uint64 { return old & b }
	case "or":
		return func(old, b, _ uint64) uint64 { return old | b }
	case "xor":
		return func(old, b, _ uint64) uint64 { return old ^ b }
	case "inc":
		return func(old, b, _ uint64) uint64 { return choice(old >= b&(1<<32-1), 0, old+1) }
	case "dec":
		return func(old, b, _ uint64) uint64 {
			b &= 1<<32 - 1
			return choice(old == 0 || old > b, b, old-1)
		}
	case "exch":
		return func(_, b, _ uint64) uint64 { return b }
	}
	mask := uint64(1<<64-1) >> (64 - size)
	return func(old, b, c uint64) uint64 { return choice(old == b&mask, c, old) }
}
