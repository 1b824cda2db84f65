package isa

import (
	"strings"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// videoRows are the instructions about packed bytes and half words, and those about whole words.
func videoRows() []*Instruction {
	var list []*Instruction
	for _, name := range []string{"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr"} {
		modifiers := "dt=u32|s32 t=u32|s32 u=u32|s32 sat? "
		if name == "vshl" || name == "vshr" {
			modifiers = "dt=u32|s32 t=u32|s32 u=u32 sat? mode=clamp|wrap "
		}
		word := func(v Variant) vm.Func { return wholeIntegers(v, name) }
		list = append(list,
			&Instruction{Name: name, Modifiers: modifiers + "second=add|min|max", Operands: "d:b32 a:b32 b:b32 c:b32",
				Make: word},
			&Instruction{Name: name, Modifiers: strings.TrimSpace(modifiers),
				Operands: "d:b32 a:b32 b:b32", Make: word})
	}
	const compares = "t=u32|s32 u=u32|s32 cmp=eq|ne|lt|le|gt|ge"
	set := func(v Variant) vm.Func { return wholeIntegers(v, "vset") }
	multiply := "dt=u32|s32 t=u32|s32 u=u32|s32 "
	list = append(list,
		&Instruction{Name: "vset", Modifiers: compares + " second=add|min|max", Operands: "d:b32 a:b32 b:b32 c:b32",
			Make: set},
		&Instruction{Name: "vset", Modifiers: compares, Operands: "d:b32 a:b32 b:b32", Make: set},
		&Instruction{Name: "vmad", Modifiers: multiply + "po? sat? scale=shr7|shr15", Operands: "d:b32 a:b32 b:b32 c:b32",
			Make: videoMultiply},
		&Instruction{Name: "vmad", Modifiers: multiply + "po? sat?", Operands: "d:b32 a:b32 b:b32 c:b32",
			Make: videoMultiply})
	for _, n := range []string{"2", "4"} {
		list = append(list, &Instruction{Name: "vset" + n, Modifiers: compares + " add?",
			Operands: "d:b32 a:b32 b:b32 c:b32", Special: "registers",
			Make: func(v Variant) vm.Func { return packedIntegers(v, "vset", n == "2") }})
	}
	for _, name := range []string{"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"} {
		for _, n := range []string{"2", "4"} {
			list = append(list, &Instruction{Name: name + n,
				Modifiers: "dt=u32|s32 t=u32|s32 u=u32|s32 sat? add?", Operands: "d:b32 a:b32 b:b32 c:b32",
				Special: "registers",
				Make:    func(v Variant) vm.Func { return packedIntegers(v, name, n == "2") }})
		}
	}
	return list
}

// wholeIntegers returns the function of an instruction that computes with more than 32 bits, and perhaps
// does a second operation with the result. An H200 does not compute all of them as the manual says. Its
// compiler makes several instructions of each. What follows are its results:
//
//   - With .sat, vshl limits the lowest 34 bits, as a signed number.
//   - With .sat and the type .u32, vadd, vsub and vabsdiff only replace negative numbers by 0.
//   - .min and .max compare c with 64 bits: signed ones for the type .s32, unsigned ones for .u32.
//     They extend the 32 bits of vadd and vsub, and of vshl and vshr with .sat, with their sign in both cases.
//   - The types of vset are those of a and b. That of a is the one for .min and .max.
func wholeIntegers(v Variant, name string) vm.Func {
	at, bt, dt := v.T(), v.Get("u"), v.Get("dt")
	if name == "vset" {
		dt = at
	}
	signed, sat, wrap, cmp := dt == "s32", v.Has("sat"), v.Get("mode") == "wrap", v.Get("cmp")
	short := name == "vadd" || name == "vsub" || sat && (name == "vshl" || name == "vshr")
	compute := func(a, b uint32) int64 {
		x, y := int64(extend(uint64(a), at)), int64(extend(uint64(b), bt))
		if wrap {
			y &= 31
		}
		switch name {
		case "vshl":
			x <<= min(y, 32)
		case "vshr":
			x >>= min(y, 32)
		case "vset":
			x = compareInts(cmp, x, y)
		default:
			x = videoOf(name, x, y)
		}
		switch {
		case sat && name == "vshl":
			x = narrow(x<<30>>30, 32, signed)
		case sat && signed:
			x = narrow(x, 32, true)
		case sat:
			x = max(x, 0)
		}
		if short {
			x = int64(int32(x))
		}
		return x
	}
	switch second := v.Get("second"); {
	case second == "":
		return two(func(a, b uint32) uint32 { return uint32(compute(a, b)) })
	case second == "add":
		return three(func(a, b, c uint32) uint32 { return uint32(compute(a, b)) + c })
	case signed && second == "min":
		return three(func(a, b uint32, c int32) uint32 { return uint32(min(compute(a, b), int64(c))) })
	case signed:
		return three(func(a, b uint32, c int32) uint32 { return uint32(max(compute(a, b), int64(c))) })
	case second == "min":
		return three(func(a, b, c uint32) uint32 { return uint32(min(uint64(compute(a, b)), uint64(c))) })
	default:
		return three(func(a, b, c uint32) uint32 { return uint32(max(uint64(compute(a, b)), uint64(c))) })
	}
}

// compareInts returns 1 if a comparison is true, otherwise 0.
func compareInts(cmp string, x, y int64) int64 {
	yes := x == y
	switch cmp {
	case "ne":
		yes = x != y
	case "lt":
		yes = x < y
	case "le":
		yes = x <= y
	case "gt":
		yes = x > y
	case "ge":
		yes = x >= y
	}
	return int64(choice(yes, 1, 0))
}

// videoMultiply returns the function of vmad. As the results of an H200 show, the factors and c are signed,
// whatever their types are. The types only choose the shift of the sum and the limits.
func videoMultiply(v Variant) vm.Func {
	signed, sat, more := v.T() == "s32" || v.Get("u") == "s32", v.Has("sat"), int64(choice(v.Has("po"), 1, 0))
	shift := map[string]int{"": 0, "shr7": 7, "shr15": 15}[v.Get("scale")]
	return three(func(a, b, c int32) uint32 {
		sum := int64(a)*int64(b) + int64(c) + more
		if signed {
			sum >>= shift
		} else {
			sum = int64(uint64(sum) >> shift)
		}
		if sat {
			sum = narrow(sum, 32, signed)
		}
		return uint32(sum)
	})
}

// videoOf computes what an instruction is about.
func videoOf(name string, x, y int64) int64 {
	switch name {
	case "vadd":
		return x + y
	case "vsub":
		return x - y
	case "vavrg":
		if x+y >= 0 {
			return (x + y + 1) >> 1
		}
		return (x + y) >> 1
	case "vabsdiff":
		return max(x-y, y-x)
	case "vmin":
		return min(x, y)
	}
	return max(x, y)
}

// packedIntegers returns the function of an instruction that computes two or four parts of a word, or
// their sum.
func packedIntegers(v Variant, name string, wide bool) vm.Func {
	if v.Has("sat") && v.Has("add") {
		return nil
	}
	size, count := 8, 4
	if wide {
		size, count = 16, 2
	}
	part := func(x uint32, i int, t string) int64 {
		x = x >> (i * size) << (32 - size)
		if t == "s32" {
			return int64(int32(x) >> (32 - size))
		}
		return int64(x >> (32 - size))
	}
	at, bt, signed, cmp := v.T(), v.Get("u"), v.Get("dt") == "s32", v.Get("cmp")
	return three(func(a, b, c uint32) uint32 {
		d := uint32(0)
		for i := range count {
			x, y := part(a, i, at), part(b, i, bt)
			if name == "vset" {
				x = compareInts(cmp, x, y)
			} else {
				x = videoOf(name, x, y)
			}
			switch {
			case v.Has("add"):
				c += uint32(x)
			case v.Has("sat"):
				x = int64(narrow(x, size, signed))
			}
			d |= uint32(x) & (1<<size - 1) << (i * size)
		}
		if v.Has("add") {
			return c
		}
		return d
	})
}
