package isa

import (
	"math"
	"math/bits"

	"github.com/purecu/purecu/internal/ptx/vm"
)

const integers = "t=u16|s16|u32|s32|u64|s64"

// integerRows are the instructions that compute with integers.
func integerRows() []*Instruction {
	return []*Instruction{
		{Name: "add", Modifiers: integers, Operands: "d a b", Make: func(v Variant) vm.Func {
			return bySize(v, two(addOf[uint16]), fast(add32, two(addOf[uint32])), fast(add64, two(addOf[uint64])))
		}},
		{Name: "add", Modifiers: "sat t=s32", Operands: "d a b", Make: func(Variant) vm.Func {
			return two(func(a, b int32) int32 { return clamp32(int64(a) + int64(b)) })
		}},
		{Name: "sub", Modifiers: integers, Operands: "d a b", Make: func(v Variant) vm.Func {
			return bySize(v, two(subOf[uint16]), fast(sub32, two(subOf[uint32])), fast(sub64, two(subOf[uint64])))
		}},
		{Name: "sub", Modifiers: "sat t=s32", Operands: "d a b", Make: func(Variant) vm.Func {
			return two(func(a, b int32) int32 { return clamp32(int64(a) - int64(b)) })
		}},
		{Name: "add", Modifiers: "u16x2", Operands: "d:b32 a:b32 b:b32", Special: "registers",
			Make: func(Variant) vm.Func { return two(halves(addOf[uint16])) }},
		{Name: "add", Modifiers: "s16x2", Operands: "d:b32 a:b32 b:b32", Special: "registers",
			Make: func(Variant) vm.Func { return two(halves(addOf[uint16])) }},
		{Name: "mul", Modifiers: "lo " + integers, Operands: "d a b", Make: func(v Variant) vm.Func {
			return bySize(v, two(mulOf[uint16]), fast(mul32, two(mulOf[uint32])), two(mulOf[uint64]))
		}},
		{Name: "mul", Modifiers: "hi " + integers, Operands: "d a b", Make: func(v Variant) vm.Func {
			return byType(v, two(highOf[uint16](16)), two(highOf[int16](16)), two(high32), two(highOf[int32](32)),
				two(highU64), two(highS64))
		}},
		{Name: "mul", Modifiers: "wide t=u16|s16|u32|s32", Operands: "d:w a b", Make: func(v Variant) vm.Func {
			return byType(v, two(wideOf[uint16]), two(wideOf[int16]), two(wideOf[uint32]), two(wideOf[int32]), nil, nil)
		}},
		{Name: "mad", Modifiers: "lo " + integers, Operands: "d a b c", Make: func(v Variant) vm.Func {
			return bySize(v, three(madOf[uint16]), fast3(mad32, three(madOf[uint32])), three(madOf[uint64]))
		}},
		{Name: "mad", Modifiers: "hi " + integers, Operands: "d a b c", Make: func(v Variant) vm.Func {
			return byType(v, three(madHigh(highOf[uint16](16))), three(madHigh(highOf[int16](16))),
				three(madHigh(high32)),
				three(madHigh(highOf[int32](32))), three(madHigh(highU64)), three(madHigh(highS64)))
		}},
		{Name: "mad", Modifiers: "hi sat t=s32", Operands: "d a b c", Make: func(Variant) vm.Func {
			return three(func(a, b, c int32) int32 { return clamp32(int64(a)*int64(b)>>32 + int64(c)) })
		}},
		{Name: "mad", Modifiers: "wide t=u16|s16|u32|s32", Operands: "d:w a b c:w", Make: func(v Variant) vm.Func {
			return byType(v, three(madWide[uint16]), three(madWide[int16]), three(madWide[uint32]),
				three(madWide[int32]), nil, nil)
		}},
		{Name: "mul24", Modifiers: "part=hi|lo t=u32|s32", Operands: "d a b", Make: func(v Variant) vm.Func {
			shift := shift24(v)
			if v.T() == "u32" {
				return two(func(a, b uint32) uint32 { return uint32(uint64(a&0xffffff) * uint64(b&0xffffff) >> shift) })
			}
			return two(func(a, b int32) uint32 { return uint32(int64(a<<8>>8) * int64(b<<8>>8) >> shift) })
		}},
		{Name: "mad24", Modifiers: "part=hi|lo t=u32|s32", Operands: "d a b c", Make: func(v Variant) vm.Func {
			shift := shift24(v)
			if v.T() == "u32" {
				return three(func(a, b, c uint32) uint32 { return uint32(uint64(a&0xffffff)*uint64(b&0xffffff)>>shift) + c })
			}
			return three(func(a, b int32, c uint32) uint32 { return uint32(int64(a<<8>>8)*int64(b<<8>>8)>>shift) + c })
		}},
		{Name: "mad24", Modifiers: "part=hi sat t=s32", Operands: "d a b c", Make: func(v Variant) vm.Func {
			shift := shift24(v)
			return three(func(a, b, c int32) int32 {
				return int32(narrow(int64(a<<8>>8)*int64(b<<8>>8)>>shift+int64(c), 32, true))
			})
		}},
		{Name: "div", Modifiers: integers, Operands: "d a b", Make: func(v Variant) vm.Func {
			return byType(v, two(divide[uint16]), two(divide[int16]), two(divide[uint32]), two(divide[int32]),
				two(divide[uint64]), two(divide[int64]))
		}},
		{Name: "rem", Modifiers: integers, Operands: "d a b", Make: func(v Variant) vm.Func {
			return byType(v, two(remainder[uint16]), two(remainder[int16]), two(remainder[uint32]),
				two(remainder[int32]),
				two(remainder[uint64]), two(remainder[int64]))
		}},
		{Name: "min", Modifiers: integers, Operands: "d a b", Make: func(v Variant) vm.Func {
			return byType(v, two(minOf[uint16]), two(minOf[int16]), two(minOf[uint32]), two(minOf[int32]),
				two(minOf[uint64]), two(minOf[int64]))
		}},
		{Name: "max", Modifiers: integers, Operands: "d a b", Make: func(v Variant) vm.Func {
			return byType(v, two(maxOf[uint16]), two(maxOf[int16]), two(maxOf[uint32]), two(maxOf[int32]),
				two(maxOf[uint64]), two(maxOf[int64]))
		}},
		{Name: "min", Modifiers: "relu? t=u16x2|s16x2|s32", Operands: "d a b", Make: packedExtreme(minOf[uint16], minOf[int16],
			minOf[int32])},
		{Name: "max", Modifiers: "relu? t=u16x2|s16x2|s32", Operands: "d a b", Make: packedExtreme(maxOf[uint16], maxOf[int16],
			maxOf[int32])},
		{Name: "abs", Modifiers: "t=s16|s32|s64", Operands: "d a", Make: func(v Variant) vm.Func {
			return byType(v, nil, one(absolute[int16]), nil, one(absolute[int32]), nil, one(absolute[int64]))
		}},
		{Name: "neg", Modifiers: "t=s16|s32|s64", Operands: "d a", Make: func(v Variant) vm.Func {
			return one(func(a uint64) uint64 { return -a })
		}},
		{Name: "sad", Modifiers: integers, Operands: "d a b c", Make: func(v Variant) vm.Func {
			return byType(v, three(distance[uint16]), three(distance[int16]), three(distance[uint32]),
				three(distance[int32]),
				three(distance[uint64]), three(distance[int64]))
		}},
		{Name: "dp4a", Modifiers: "t=u32|s32 u=u32|s32", Operands: "d:b32 a b:u c:b32", Make: func(v Variant) vm.Func {
			return three(func(a, b, c uint32) uint32 {
				for i := 0; i < 32; i += 8 {
					c += part(a, i, 8, v.T() == "s32") * part(b, i, 8, v.Get("u") == "s32")
				}
				return c
			})
		}},
		{Name: "dp2a", Modifiers: "part=lo|hi t=u32|s32 u=u32|s32", Operands: "d:b32 a b:u c:b32",
			Make: func(v Variant) vm.Func {
				from := 0
				if v.Get("part") == "hi" {
					from = 16
				}
				return three(func(a, b, c uint32) uint32 {
					for i := range 2 {
						c += part(a, 16*i, 16, v.T() == "s32") * part(b, from+8*i, 8, v.Get("u") == "s32")
					}
					return c
				})
			}},
		{Name: "add", Modifiers: "cc t=u32|s32|u64|s64", Operands: "d a b",
			Make: func(v Variant) vm.Func { return carry(v, false, false, true) }},
		{Name: "addc", Modifiers: "cc? t=u32|s32|u64|s64", Operands: "d a b",
			Make: func(v Variant) vm.Func { return carry(v, false, true, v.Has("cc")) }},
		{Name: "sub", Modifiers: "cc t=u32|s32|u64|s64", Operands: "d a b",
			Make: func(v Variant) vm.Func { return carry(v, true, false, true) }},
		{Name: "subc", Modifiers: "cc? t=u32|s32|u64|s64", Operands: "d a b",
			Make: func(v Variant) vm.Func { return carry(v, true, true, v.Has("cc")) }},
		{Name: "mad", Modifiers: "part=lo|hi cc t=u32|s32|u64|s64", Operands: "d a b c",
			Make: func(v Variant) vm.Func { return madCarry(v, false, true) }},
		{Name: "madc", Modifiers: "part=lo|hi cc? t=u32|s32|u64|s64", Operands: "d a b c",
			Make: func(v Variant) vm.Func { return madCarry(v, true, v.Has("cc")) }},
	}
}

func addOf[T integer](a, b T) T       { return a + b }
func subOf[T integer](a, b T) T       { return a - b }
func mulOf[T integer](a, b T) T       { return a * b }
func madOf[T integer](a, b, c T) T    { return a*b + c }
func minOf[T integer](a, b T) T       { return min(a, b) }
func maxOf[T integer](a, b T) T       { return max(a, b) }
func wideOf[T integer](a, b T) uint64 { return uint64(a) * uint64(b) }

func madWide[T integer](a, b T, c uint64) uint64 { return uint64(a)*uint64(b) + c }

// The loops for all lanes of the most frequent instructions.

func add32(d, a, b *vm.Column) {
	for i := range d {
		d[i] = uint64(uint32(a[i]) + uint32(b[i]))
	}
}

func add64(d, a, b *vm.Column) {
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func sub32(d, a, b *vm.Column) {
	for i := range d {
		d[i] = uint64(uint32(a[i]) - uint32(b[i]))
	}
}

func sub64(d, a, b *vm.Column) {
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func mul32(d, a, b *vm.Column) {
	for i := range d {
		d[i] = uint64(uint32(a[i]) * uint32(b[i]))
	}
}

func mad32(d, a, b, c *vm.Column) {
	for i := range d {
		d[i] = uint64(uint32(a[i])*uint32(b[i]) + uint32(c[i]))
	}
}

// halves applies a function to both halves of words.
func halves(f func(a, b uint16) uint16) func(a, b uint32) uint32 {
	return func(a, b uint32) uint32 {
		return uint32(f(uint16(a), uint16(b))) | uint32(f(uint16(a>>16), uint16(b>>16)))<<16
	}
}

// packedExtreme returns what makes the function of the minimum or maximum of pairs, or with relu of what
// is not negative.
func packedExtreme(u16 func(a, b uint16) uint16, s16 func(a, b int16) int16,
	s32 func(a, b int32) int32) func(Variant) vm.Func {
	return func(v Variant) vm.Func {
		relu := v.Has("relu")
		switch t := v.T(); {
		case t == "s32" && relu: // without it there is another row
			return two(func(a, b int32) int32 { return max(s32(a, b), 0) })
		case t == "u16x2" && !relu:
			return two(halves(u16))
		case t == "s16x2":
			return two(halves(func(a, b uint16) uint16 {
				x := s16(int16(a), int16(b))
				if relu {
					x = max(x, 0)
				}
				return uint16(x)
			}))
		}
		return nil
	}
}

// clamp32 limits a number to 32 bits.
func clamp32(v int64) int32 { return int32(min(max(v, math.MinInt32), math.MaxInt32)) }

// highOf returns the function for the upper half of a product of a number of bits, up to 32.
func highOf[T integer](size int) func(a, b T) T {
	return func(a, b T) T { return T(int64(a) * int64(b) >> size) }
}

// high32 is the upper half of an unsigned product.
func high32(a, b uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) }

func madHigh[T integer](high func(a, b T) T) func(a, b, c T) T {
	return func(a, b, c T) T { return high(a, b) + c }
}

func highU64(a, b uint64) uint64 {
	hi, _ := bits.Mul64(a, b)
	return hi
}

func highS64(a, b int64) int64 {
	hi, _ := bits.Mul64(uint64(a), uint64(b))
	return int64(hi) - a>>63&b - b>>63&a
}

// shift24 returns by how much a product of 24 bits is shifted.
func shift24(v Variant) int {
	if v.Get("part") == "hi" {
		return 16
	}
	return 0
}

// The results of divisions by zero are those of an H200. The manual does not define them.

func divide[T integer](a, b T) T {
	if b == 0 {
		return T(0) - 1
	}
	return a / b
}

func remainder[T integer](a, b T) T {
	if b == 0 {
		return T(0) - 1
	}
	return a % b
}

func absolute[T integer](a T) T {
	if a < 0 {
		return -a
	}
	return a
}

func distance[T integer](a, b, c T) T {
	if a < b {
		return c + b - a
	}
	return c + a - b
}

// part returns a part of a word, extended to a word.
func part(v uint32, from, size int, signed bool) uint32 {
	v = v >> from << (32 - size)
	if signed {
		return uint32(int32(v) >> (32 - size))
	}
	return v >> (32 - size)
}

// Carry is the predicate that has the condition code.
const Carry = 0

// addCarry returns x + y + c, or x - y - c, with 32 or 64 bits, and the carry or borrow.
func addCarry(size int, subtract bool, x, y, c uint64) (sum, out uint64) {
	f := bits.Add64
	if subtract {
		f = bits.Sub64
	}
	if size == 64 {
		return f(x, y, c)
	}
	sum, _ = f(x&(1<<32-1), y&(1<<32-1), c)
	return sum, sum >> 32 & 1
}

// carry returns the function of an addition or subtraction with the condition code. in and out say
// whether the instruction reads and writes it.
func carry(v Variant, subtract, in, out bool) vm.Func {
	size := sizeOf(v.T())
	return func(w *vm.Warp, o *vm.Op) {
		d, a, b := &w.R[o.D], &w.R[o.A], &w.R[o.B]
		for i := range w.Each {
			d[i] = withCode(w, i, size, subtract, in, out, a[i], b[i])
		}
	}
}

// withCode computes a sum or difference with the condition code of a lane. The code of a difference is the
// carry of x + ^y + 1, which is how GPUs subtract: 0 if it borrows. That matters where addc follows sub.cc, or subc
// add.cc.
func withCode(w *vm.Warp, lane, size int, subtract, in, out bool, x, y uint64) uint64 {
	c, borrows := uint64(0), uint64(0)
	if subtract {
		borrows = 1
	}
	if in {
		c = uint64(w.P[Carry]>>lane&1) ^ borrows
	}
	sum, over := addCarry(size, subtract, x, y, c)
	over ^= borrows
	if out {
		w.P[Carry] = w.P[Carry]&^(1<<lane) | uint32(over)<<lane
	}
	return sum
}

// madCarry returns the function of a multiplication and addition with the condition code.
func madCarry(v Variant, in, out bool) vm.Func {
	size := sizeOf(v.T())
	product := mulOf[uint64]
	if v.Get("part") == "hi" {
		switch v.T() {
		case "u32":
			product = func(a, b uint64) uint64 { return uint64(high32(uint32(a), uint32(b))) }
		case "s32":
			product = func(a, b uint64) uint64 { return uint64(uint32(int64(int32(a)) * int64(int32(b)) >> 32)) }
		case "u64":
			product = highU64
		default:
			product = func(a, b uint64) uint64 { return uint64(highS64(int64(a), int64(b))) }
		}
	}
	return func(w *vm.Warp, o *vm.Op) {
		d, a, b, c := &w.R[o.D], &w.R[o.A], &w.R[o.B], &w.R[o.C]
		for i := range w.Each {
			d[i] = withCode(w, i, size, false, in, out, product(a[i], b[i]), c[i])
		}
	}
}
