package isa

import (
	"fmt"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// fragmentRows are the rows of wmma.
func fragmentRows() []*Instruction {
	const large = "m16n16k16|m8n32k16|m32n8k16"
	return []*Instruction{
		loadRow("a|b", "row|col", "m16n16k8", "t=tf32", "b32"),
		loadRow("c", "row|col", "m16n16k8", "t=f32", "b32"),
		loadRow("a|b|c", "row|col", "m8n8k4", "t=f64", "b64"),
		storeRow("m16n16k8", "t=f32", "b32"),
		storeRow("m8n8k4", "t=f64", "b64"),
		wmmaRow("m16n16k8 dt=f32 t=tf32 u=tf32 ct=f32", "b32", wmma),
		wmmaRow("m8n8k4 dt=f64 t=f64 u=f64 ct=f64", "b64", wmma),
		loadRow("a|b|c", "row|col", large, "t=f16|bf16|s8|u8|f32|s32", "b32"),
		storeRow(large, "t=f16|f32|s32", "b32"),
		wmmaRow(large+" dt=f16|f32 ct=f16|f32", "b32", wmma),
		wmmaRow(large+" dt=f32 t=bf16 u=bf16 ct=f32", "b32", wmma),
		wmmaRow(large+" dt=s32 t=s8|u8 u=s8|u8 ct=s32 satfinite?", "b32", wmma),
		wmmaRow(large+" dt=f16|f32 ct=f16|f32 satfinite", "b32", wmma),
		wmmaRow("m8n8k4 rnd=rn|rz|rm|rp dt=f64 t=f64 u=f64 ct=f64", "b64", wmma),
		// The elements of these lie in the registers as they do for mma.
		loadRow("a", "row", "m8n8k32", "t=s4|u4", "b32"),
		loadRow("b", "col", "m8n8k32", "t=s4|u4", "b32"),
		loadRow("a", "row", "m8n8k128", "t=b1", "b32"),
		loadRow("b", "col", "m8n8k128", "t=b1", "b32"),
		loadRow("c", "row|col", "m8n8k32|m8n8k128", "t=s32", "b32"),
		storeRow("m8n8k32|m8n8k128", "t=s32", "b32"),
		productRow("wmma", "mma sync aligned row col shape=m8n8k32 dt=s32 t=s4|u4 u=s4|u4 ct=s32 satfinite?", "b32", mmaAlike,
			mmaLengths),
		productRow("wmma", "mma op=xor|and popc sync aligned row col shape=m8n8k128 dt=s32 t=b1 u=b1 ct=s32", "b32", mmaBits,
			mmaLengths),
	}
}

// mmaAlike is mma for factors of the same type.
func mmaAlike(v Variant) vm.Func {
	if v.T() != v.Get("u") {
		return nil
	}
	return mma(v)
}

// wmmaRow is a row of wmma.mma.
func wmmaRow(modifiers, register string, make func(Variant) vm.Func) *Instruction {
	return productRow("wmma", "mma sync aligned al=row|col bl=row|col shape="+modifiers, register, make, wmmaLengths)
}

// inMemory describes where wmma.load and wmma.store find a matrix, and how it lies there.
const inMemory = " sync aligned layout=%s shape=%s space?=global|shared|shared::cta %s"

// loadRow is a row of wmma.load.
func loadRow(matrices, layouts, shapes, types, register string) *Instruction {
	return &Instruction{Name: "wmma", Modifiers: "load which=" + matrices + fmt.Sprintf(inMemory, layouts, shapes, types),
		Operands: "0:" + register + " m b:b32?", Kind: vm.Sync, Special: "whole", Make: loadFragment,
		Lengths: loadLengths}
}

// storeRow is a row of wmma.store.
func storeRow(shapes, types, register string) *Instruction {
	return &Instruction{Name: "wmma", Modifiers: "store which=d" + fmt.Sprintf(inMemory, "row|col", shapes, types),
		Operands: "m 1:" + register + " b:b32?", Kind: vm.Sync, Special: "whole", Make: storeFragment,
		Lengths: storeLengths}
}

// fragment describes how the lanes share a matrix of wmma, which the manual leaves open. Here each lane
// has elements that follow each other in a row, and then the same again if there are more registers.
type fragment struct {
	rows, columns int
	registers     int
	each          int // the different elements of a lane
	packed        int // the elements of a register
}

// fragmentOf returns the fragment of the operand a, b, c or d.
func fragmentOf(v Variant, which string) fragment {
	m, n, k := shapeOf(v.Get("shape"))
	t := v.T()
	switch {
	case which == "c" && v.Get("ct") != "":
		t = v.Get("ct")
	case which == "d" && v.Get("dt") != "":
		t = v.Get("dt")
	case t == "":
		t = "f16"
	}
	f := fragment{rows: m, columns: n, packed: elements(t)}
	switch which {
	case "a":
		f.columns = k
	case "b":
		f.rows = k
	}
	f.each = f.rows * f.columns / vm.Lanes
	f.registers = f.each / f.packed
	if (which == "a" || which == "b") && t == "f16" {
		f.registers = 8
	}
	return f
}

func wmmaLengths(v Variant) []int {
	return []int{fragmentOf(v, "d").registers, fragmentOf(v, "a").registers, fragmentOf(v, "b").registers,
		fragmentOf(v, "c").registers}
}

func loadFragment(v Variant) vm.Func { return moveFragment(v, true) }

func loadLengths(v Variant) []int { return []int{fragmentOf(v, v.Get("which")).registers} }

func storeFragment(v Variant) vm.Func { return moveFragment(v, false) }

func storeLengths(v Variant) []int { return []int{0, fragmentOf(v, "d").registers} }

// moveFragment returns the function of wmma.load and wmma.store.
func moveFragment(v Variant, load bool) vm.Func {
	which, t := v.Get("which"), v.T()
	accumulates := which == "c" || which == "d"
	if accumulates != (t == "f16" || t == "f32" || t == "s32") && t != "f16" && t != "f64" {
		return nil
	}
	f, space, byColumns := fragmentOf(v, which), spaceOf(v), v.Get("layout") == "col"
	// What is moved at once: an element, or a register of elements that are smaller than a byte, which are next to
	// each other in memory.
	moved, size := 1, uint64(4/f.packed)
	switch {
	case t == "f64":
		size = 8
	case size == 0:
		moved, size = f.packed, 4
		f.rows, f.columns = 8, 4*moved // of b, the columns are the rows here
		byColumns = false
	}
	stride := uint64(f.columns)
	if byColumns {
		stride = uint64(f.rows)
	}
	return func(w *vm.Warp, o *vm.Op) {
		list := o.X.Lists[0]
		if !load {
			list = o.X.Lists[1]
		}
		a, strides := w.R[o.A], w.R[o.B]
		for lane := range vm.Lanes {
			step := stride
			if o.B != 0 {
				step = uint64(uint32(strides[lane]))
			}
			for i := 0; i < len(list)*f.packed; i += moved {
				at := lane*f.each + i%f.each
				r, c := at/f.columns, at%f.columns
				if byColumns {
					r, c = c, r
				}
				off := (uint64(r)*step + uint64(c)) / uint64(moved) * size
				p := space(w, o, lane, a[lane]+uint64(o.Imm)+off, size, !load)
				if p == nil {
					return
				}
				place, shift := &w.R[list[i/f.packed]][lane], uint64(i%f.packed)*8*size
				if load && shift == 0 {
					*place = 0
				}
				moveElement(p, place, size, shift, load)
			}
		}
	}
}

// wmma returns the function of wmma.mma.
func wmma(v Variant) vm.Func {
	if v.T() != v.Get("u") {
		return nil
	}
	m, n, k := shapeOf(v.Get("shape"))
	types := [4]string{v.Get("dt"), v.T(), v.Get("u"), v.Get("ct")}
	for i := range types {
		if types[i] == "" {
			types[i] = "f16"
		}
	}
	var fragments [4]fragment
	var parts [4]func(register uint64, i int) float64
	for i, which := range []string{"d", "a", "b", "c"} {
		fragments[i], parts[i] = fragmentOf(v, which), element(types[i])
	}
	// Of floats, an H200 limits only those that it makes shorter.
	limited := v.Has("satfinite") && (types[0] == "s32" || types[0] == "f16" && types[3] == "f32")
	result, add := rounded(types[0], limited), adder(v)
	return func(w *vm.Warp, o *vm.Op) {
		var all [4][512]float64
		for x := 1; x < 4; x++ {
			f := fragments[x]
			for lane := range vm.Lanes {
				for i := range f.each {
					all[x][lane*f.each+i] = parts[x](w.R[o.X.Lists[x][i/f.packed]][lane], i%f.packed)
				}
			}
		}
		product(all[3][:], all[1][:], all[2][:], m, n, k, add)
		f := fragments[0]
		for lane := range vm.Lanes {
			for i := range f.each {
				v, place := result(all[3][lane*f.each+i]), &w.R[o.X.Lists[0][i/f.packed]][lane]
				if i%f.packed == 0 {
					*place = v
				} else {
					*place |= v << (16 * (i % f.packed))
				}
			}
		}
	}
}
