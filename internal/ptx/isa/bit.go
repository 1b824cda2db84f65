package isa

import (
	"math"
	"math/bits"

	"github.com/purecu/purecu/internal/ptx/softfloat"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// bitRows are the instructions that compute with bits.
func bitRows() []*Instruction {
	logic := func(name string, full func(d, a, b *vm.Column), f func(a, b uint64) uint64) []*Instruction {
		return []*Instruction{
			{Name: name, Modifiers: "t=b16|b32|b64", Operands: "d a b",
				Make: func(Variant) vm.Func { return fast(full, two(f)) }},
			{Name: name, Modifiers: "pred", Operands: "P A B", Make: func(Variant) vm.Func {
				return func(w *vm.Warp, o *vm.Op) {
					w.SetPredicate(o.D, uint32(f(uint64(w.Truth(o.A)), uint64(w.Truth(o.B)))))
				}
			}},
		}
	}
	var list []*Instruction
	list = append(list, logic("and", and64, func(a, b uint64) uint64 { return a & b })...)
	list = append(list, logic("or", or64, func(a, b uint64) uint64 { return a | b })...)
	list = append(list, logic("xor", xor64, func(a, b uint64) uint64 { return a ^ b })...)
	return append(list, []*Instruction{
		{Name: "not", Modifiers: "t=b16|b32|b64", Operands: "d a", Make: func(Variant) vm.Func {
			return one(func(a uint64) uint64 { return ^a })
		}},
		{Name: "not", Modifiers: "pred", Operands: "P A", Make: func(Variant) vm.Func {
			return func(w *vm.Warp, o *vm.Op) { w.SetPredicate(o.D, ^w.Truth(o.A)) }
		}},
		{Name: "cnot", Modifiers: "t=b16|b32|b64", Operands: "d a", Make: func(v Variant) vm.Func {
			return bySize(v, one(isZero[uint16]), one(isZero[uint32]), one(isZero[uint64]))
		}},
		{Name: "shl", Modifiers: "t=b16|b32|b64", Operands: "d a b:b32", Make: func(v Variant) vm.Func {
			return bySize(v, two(left[uint16]), fast(left32, two(left[uint32])), two(left[uint64]))
		}},
		{Name: "shr", Modifiers: "t=b16|b32|b64|u16|s16|u32|s32|u64|s64", Operands: "d a b:b32",
			Make: func(v Variant) vm.Func {
				return byType(v, two(right[uint16]), two(right[int16]), fast(right32, two(right[uint32])),
					two(right[int32]), two(right[uint64]),
					two(right[int64]))
			}},
		{Name: "shf", Modifiers: "to=l|r how=clamp|wrap t=b32", Operands: "d a b c:b32", Make: func(v Variant) vm.Func {
			l, clamp := v.Get("to") == "l", v.Get("how") == "clamp"
			return three(func(a, b, c uint32) uint32 {
				if !clamp {
					c &= 31
				}
				c = min(c, 32)
				return funnel(l, a, b, c)
			})
		}},
		{Name: "lop3", Modifiers: "t=b32", Operands: "d a b c i", Make: func(Variant) vm.Func {
			return func(w *vm.Warp, o *vm.Op) {
				d, a, b, c := &w.R[o.D], &w.R[o.A], &w.R[o.B], &w.R[o.C]
				for i := range w.Each {
					d[i] = lop3(a[i], b[i], c[i], o.Imm)
				}
			}
		}},
		{Name: "lop3", Modifiers: "bool=or|and t=b32", Operands: "s| a b e i C", Make: func(v Variant) vm.Func {
			how := v.Get("bool")
			return func(w *vm.Warp, o *vm.Op) {
				d, a, b, c, some, q := &w.R[o.D], &w.R[o.A], &w.R[o.B], &w.R[o.E], uint32(0), w.Truth(o.C)
				for i := range w.Each {
					if d[i] = lop3(a[i], b[i], c[i], o.Imm); uint32(d[i]) != 0 {
						some |= 1 << i
					}
				}
				if o.X.P != 0 {
					w.SetPredicate(o.X.P-1, combine(how, some, q))
				}
			}
		}},
		{Name: "popc", Modifiers: "t=b32|b64", Operands: "d:u32 a", Make: func(v Variant) vm.Func {
			return bySize(v, nil, one(func(a uint32) uint32 { return uint32(bits.OnesCount32(a)) }),
				one(func(a uint64) uint32 { return uint32(bits.OnesCount64(a)) }))
		}},
		{Name: "clz", Modifiers: "t=b32|b64", Operands: "d:u32 a", Make: func(v Variant) vm.Func {
			return bySize(v, nil, one(func(a uint32) uint32 { return uint32(bits.LeadingZeros32(a)) }),
				one(func(a uint64) uint32 { return uint32(bits.LeadingZeros64(a)) }))
		}},
		{Name: "brev", Modifiers: "t=b32|b64", Operands: "d a", Make: func(v Variant) vm.Func {
			return bySize(v, nil, one(bits.Reverse32), one(bits.Reverse64))
		}},
		{Name: "bfind", Modifiers: "shiftamt? t=u32|s32|u64|s64", Operands: "d:u32 a", Make: func(v Variant) vm.Func {
			size, signed, shift := sizeOf(v.T()), v.T()[0] == 's', v.Has("shiftamt")
			return one(func(a uint64) uint32 { return findBit(a<<(64-size)>>(64-size), size, signed, shift) })
		}},
		{Name: "bfe", Modifiers: "t=u32|s32|u64|s64", Operands: "d a b:b32 c:b32", Make: func(v Variant) vm.Func {
			size, signed := sizeOf(v.T()), v.T()[0] == 's'
			return three(func(a uint64, b, c uint32) uint64 {
				return extract(a<<(64-size)>>(64-size), field(b, size), field(c, size), size, signed)
			})
		}},
		{Name: "bfi", Modifiers: "t=b32|b64", Operands: "d a b c:b32 e:b32", Make: func(v Variant) vm.Func {
			size := sizeOf(v.T())
			return four(func(a, b uint64, c, e uint32) uint64 {
				return insert(a, b, field(c, size), field(e, size),
					size)
			})
		}},
		{Name: "bmsk", Modifiers: "how=clamp|wrap t=b32", Operands: "d a b:b32", Make: func(v Variant) vm.Func {
			clamp := v.Get("how") == "clamp"
			return two(func(a, b uint32) uint32 {
				if !clamp {
					a, b = a&31, b&31
				}
				return uint32((uint64(1)<<min(b, 32) - 1) << min(a, 32))
			})
		}},
		{Name: "szext", Modifiers: "how=clamp|wrap t=u32|s32", Operands: "d a b:b32", Make: func(v Variant) vm.Func {
			clamp, signed := v.Get("how") == "clamp", v.T() == "s32"
			return two(func(a, b uint32) uint32 {
				if !clamp {
					b &= 31
				}
				if b >= 32 {
					return a
				}
				return part(a, 0, int(b), signed)
			})
		}},
		{Name: "prmt", Modifiers: "t=b32 mode?=f4e|b4e|rc8|ecl|ecr|rc16", Operands: "d a b c",
			Make: func(v Variant) vm.Func {
				m := v.Get("mode")
				return three(func(a, b, c uint32) uint32 { return permute(m, a, b, c) })
			}},
		{Name: "fns", Modifiers: "t=b32", Operands: "d:b32 a:b32 b:b32 c:s32",
			Make: func(Variant) vm.Func { return three(nthBit) }},
		{Name: "copysign", Modifiers: "t=f32|f64", Operands: "d a b", Make: func(v Variant) vm.Func {
			sign := softfloat.Of(v.T()).Sign()
			return two(func(a, b uint64) uint64 { return b&^sign | a&sign })
		}},
	}...)
}

func and64(d, a, b *vm.Column) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func or64(d, a, b *vm.Column) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func xor64(d, a, b *vm.Column) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

func left32(d, a, b *vm.Column) {
	for i := range d {
		d[i] = uint64(uint32(a[i]) << uint32(b[i]))
	}
}

func right32(d, a, b *vm.Column) {
	for i := range d {
		d[i] = uint64(uint32(a[i]) >> uint32(b[i]))
	}
}

func isZero[T integer](a T) T {
	if a == 0 {
		return 1
	}
	return 0
}

func left[T integer](a T, b uint32) T { return a << b }

func right[T integer](a T, b uint32) T { return a >> b }

// funnel shifts two words.
func funnel(l bool, a, b, c uint32) uint32 {
	v := uint64(b)<<32 | uint64(a)
	if l {
		return uint32(v << c >> 32)
	}
	return uint32(v >> c)
}

// lop3 computes a function of three bits, by its truth table.
func lop3(a, b, c uint64, table int64) (d uint64) {
	for i := range 8 {
		if table>>i&1 == 0 {
			continue
		}
		x, y, z := a, b, c
		if i&4 == 0 {
			x = ^x
		}
		if i&2 == 0 {
			y = ^y
		}
		if i&1 == 0 {
			z = ^z
		}
		d |= x & y & z
	}
	return d
}

// findBit returns the position of the highest bit that is not the sign.
func findBit(a uint64, size int, signed, shift bool) uint32 {
	if signed && a>>(size-1) != 0 {
		a = ^a << (64 - size) >> (64 - size)
	}
	switch {
	case a == 0:
		return 1<<32 - 1
	case shift:
		return uint32(size - bits.Len64(a))
	}
	return uint32(bits.Len64(a) - 1)
}

// field returns a position or length. For 32 bits the lower 8 bits count, as the manual says, and for
// 64 bits all bits, as on an H200.
func field(n uint32, size int) int {
	if size == 32 {
		return int(n & 0xff)
	}
	return int(min(n, 0xff))
}

// extract returns a field of bits.
func extract(a uint64, at, n, size int, signed bool) uint64 {
	sign := uint64(0)
	if signed && n > 0 {
		sign = a >> min(at+n-1, size-1) & 1
	}
	n = min(n, 64)
	field := a >> at
	mask := uint64(1)<<n - 1
	if n == 64 {
		mask = 1<<64 - 1
	}
	// Bits beyond the operand have its sign.
	if present := max(size-at, 0); present < n && present < 64 {
		mask = 1<<present - 1
	}
	if field &= mask; sign != 0 {
		field |= ^mask
	}
	return field
}

// insert returns b with a field of bits of a.
func insert(a, b uint64, at, n, size int) uint64 {
	if at >= size {
		return b
	}
	n = min(n, 64)
	mask := uint64(1<<64 - 1)
	if n < 64 {
		mask = 1<<n - 1
	}
	mask <<= at
	return b&^mask | a<<at&mask
}

// permute selects bytes of two words.
func permute(mode string, a, b, c uint32) (d uint32) {
	v := uint64(b)<<32 | uint64(a)
	for i := range uint32(4) {
		n, sign := i, false
		switch k := c & 3; mode {
		case "":
			n, sign = c>>(4*i)&7, c>>(4*i)&8 != 0
		case "f4e":
			n = k + i
		case "b4e":
			n = (k - i) & 7
		case "rc8":
			n = k
		case "ecl":
			n = max(k, i)
		case "ecr":
			n = min(k, i)
		case "rc16":
			n = k&1*2 + i&1
		}
		x := uint32(v >> (8 * n) & 0xff)
		if sign {
			x = uint32(int32(int8(x)) >> 7 & 0xff)
		}
		d |= x << (8 * i)
	}
	return d
}

// nthBit returns the position of the n-th set bit from a position.
func nthBit(mask, base uint32, offset int32) uint32 {
	if offset == 0 {
		if base < 32 && mask>>base&1 != 0 {
			return base
		}
		return 1<<32 - 1
	}
	if offset == math.MinInt32 {
		return 0 // as on an H200
	}
	pos, step := int64(base), int64(1)
	n := int64(offset) - 1
	if offset < 0 {
		step, n = -1, -int64(offset)-1
	}
	for ; pos >= 0 && pos < 32; pos += step {
		if mask>>pos&1 != 0 {
			if n == 0 {
				return uint32(pos)
			}
			n--
		}
	}
	return 1<<32 - 1
}
