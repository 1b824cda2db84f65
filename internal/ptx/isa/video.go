package isa

import "github.com/purecu/purecu/internal/ptx/vm"

// videoRows are the instructions about packed bytes and half words, and those about words with a second
// operation.
func videoRows() []*Instruction {
	var list []*Instruction
	for _, name := range []string{"vadd", "vsub", "vabsdiff", "vmin", "vmax"} {
		for _, n := range []string{"2", "4"} {
			list = append(list, &Instruction{Name: name + n,
				Modifiers: "dt=u32|s32 t=u32|s32 u=u32|s32 sat? add?", Operands: "d:b32 a:b32 b:b32 c:b32",
				Special: "registers",
				Make:    func(v Variant) vm.Func { return packedIntegers(v, name, n == "2") }})
		}
		list = append(list,
			&Instruction{Name: name, Modifiers: "dt=u32|s32 t=u32|s32 u=u32|s32 sat?", Operands: "d:b32 a:b32 b:b32",
				Make: func(v Variant) vm.Func {
					f := wholeWords(v, name)
					return two(func(a, b uint32) uint32 { return f(a, b, 0) })
				}},
			&Instruction{Name: name, Modifiers: "dt=u32|s32 t=u32|s32 u=u32|s32 sat? add", Operands: "d:b32 a:b32 b:b32 c:b32",
				Make: func(v Variant) vm.Func { return three(wholeWords(v, name)) }})
	}
	return list
}

// wholeWords returns the function of an instruction about words. It adds c to the result.
func wholeWords(v Variant, name string) func(a, b, c uint32) uint32 {
	at, bt, signed, sat := v.T(), v.Get("u"), v.Get("dt") == "s32", v.Has("sat")
	return func(a, b, c uint32) uint32 {
		x := primary(name, int64(extend(uint64(a), at)), int64(extend(uint64(b), bt)))
		if sat {
			x = narrow(x, 32, signed)
		}
		return uint32(x) + c
	}
}

// primary returns the result of the first operation of an instruction.
func primary(name string, x, y int64) int64 {
	switch name {
	case "vadd":
		return x + y
	case "vsub":
		return x - y
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
	at, bt, signed := v.T(), v.Get("u"), v.Get("dt") == "s32"
	return three(func(a, b, c uint32) uint32 {
		d := uint32(0)
		for i := range count {
			x := primary(name, part(a, i, at), part(b, i, bt))
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
