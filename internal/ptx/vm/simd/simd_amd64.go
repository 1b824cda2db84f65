//go:build !cu_portable

package simd

import "strings"

// detect returns the best level that the processor and the operating system have: AVX-512 with F, DQ, BW and VL, or
// AVX2 with FMA. AVX-512 also takes BMI2.
func detect() level {
	const (
		fma, saves = 1 << 12, 1 << 27 // the operating system says which registers it saves
		avx2bit    = 1 << 5
		avx512bits = 1<<8 | 1<<16 | 1<<17 | 1<<30 | 1<<31 // BMI2, F, DQ, BW, VL
		vectors    = 0x06                                 // registers of 256 bits
		masks      = 0xe6                                 // all vector registers, and masks
	)
	_, c := cpuid(1)
	if c&saves == 0 {
		return none
	}
	b, _ := cpuid(7)
	switch states := xgetbv(); {
	case b&avx512bits == avx512bits && states&masks == masks:
		return avx512
	case b&avx2bit != 0 && c&fma != 0 && states&vectors == vectors:
		return avx2
	}
	return none
}

// functions returns the functions of instructions.
func (l level) functions() map[string]Func {
	return chosen(l, []choice[Func]{
		{"add.u32 add.s32", add32, add32AVX2},
		{"add.u64 add.s64", add64, add64AVX2},
		{"sub.u32 sub.s32", sub32, sub32AVX2},
		{"sub.u64 sub.s64", sub64, sub64AVX2},
		{"mul.lo.u32 mul.lo.s32", mul32, mul32AVX2},
		{"mul.lo.u64 mul.lo.s64", mul64, nil},
		{"mad.lo.u32 mad.lo.s32", mad32, mad32AVX2},
		{"mad.lo.u64 mad.lo.s64", mad64, nil},
		{"mul.wide.u32", wideU32, wideU32AVX2},
		{"mul.wide.s32", wideS32, wideS32AVX2},
		{"mad.wide.u32", madWideU32, madWideU32AVX2},
		{"mad.wide.s32", madWideS32, madWideS32AVX2},
		{"min.u32", minU32, minU32AVX2},
		{"min.s32", minS32, minS32AVX2},
		{"min.u64", minU64, nil},
		{"min.s64", minS64, nil},
		{"max.u32", maxU32, maxU32AVX2},
		{"max.s32", maxS32, maxS32AVX2},
		{"max.u64", maxU64, nil},
		{"max.s64", maxS64, nil},
		{"and.b16 and.b32 and.b64", and, andAVX2},
		{"or.b16 or.b32 or.b64", or, orAVX2},
		{"xor.b16 xor.b32 xor.b64", xor, xorAVX2},
		{"shl.b32", shl32, shl32AVX2},
		{"shl.b64", shl64, shl64AVX2},
		{"shr.u32 shr.b32", shrU32, shrU32AVX2},
		{"shr.s32", shrS32, shrS32AVX2},
		{"shr.u64 shr.b64", shrU64, shrU64AVX2},
		{"shr.s64", shrS64, nil},
		{"cvt.u64.u32 cvt.s64.u32", extendU32, extendU32AVX2},
		{"cvt.u64.s32 cvt.s64.s32", extendS32, extendS32AVX2},
		{"add.f32 add.rn.f32", addF32, addF32AVX2},
		{"sub.f32 sub.rn.f32", subF32, subF32AVX2},
		{"mul.f32 mul.rn.f32", mulF32, mulF32AVX2},
		{"div.rn.f32", divF32, divF32AVX2},
		{"fma.rn.f32 mad.rn.f32", fmaF32, fmaF32AVX2},
		{"cvt.rn.f32.s32", fromS32, fromS32AVX2},
		{"cvt.rn.f32.u32", fromU32, nil},
		{"add.f64 add.rn.f64", addF64, addF64AVX2},
		{"sub.f64 sub.rn.f64", subF64, subF64AVX2},
		{"mul.f64 mul.rn.f64", mulF64, mulF64AVX2},
		{"div.rn.f64", divF64, divF64AVX2},
		{"fma.rn.f64 mad.rn.f64", fmaF64, fmaF64AVX2},
		{"cvt.f64.f32", widen, widenAVX2},
		{"cvt.rn.f32.f64", narrow, narrowAVX2},
		{"cvt.rn.f64.s32", doubleS32, doubleS32AVX2},
		{"cvt.rn.f64.u32", doubleU32, nil},
	})
}

// comparisons returns the functions of comparisons.
func (l level) comparisons() map[string]Comparison {
	return chosen(l, []choice[Comparison]{
		{"eq.b32 eq.u32 eq.s32", equal32, equal32AVX2},
		{"lt.u32", lessU32, lessU32AVX2},
		{"lt.s32", lessS32, lessS32AVX2},
		{"eq.b64 eq.u64 eq.s64", equal64, equal64AVX2},
		{"lt.u64", lessU64, lessU64AVX2},
		{"lt.s64", lessS64, lessS64AVX2},
		{"eq.f32", equalF32, equalF32AVX2},
		{"lt.f32", lessF32, lessF32AVX2},
		{"le.f32", lessEqualF32, lessEqualF32AVX2},
		{"nan.f32", unorderedF32, unorderedF32AVX2},
		{"eq.f64", equalF64, equalF64AVX2},
		{"lt.f64", lessF64, lessF64AVX2},
		{"le.f64", lessEqualF64, lessEqualF64AVX2},
		{"nan.f64", unorderedF64, unorderedF64AVX2},
	})
}

// choice has functions that do the same with different vector instructions, or nil, and what they are for.
type choice[F any] struct {
	names        string
	avx512, avx2 F
}

// chosen returns the functions of a level.
func chosen[F Func | Comparison](l level, list []choice[F]) map[string]F {
	m := make(map[string]F)
	for _, c := range list {
		f := map[level]F{avx512: c.avx512, avx2: c.avx2}[l]
		for name := range strings.FieldsSeq(c.names) {
			if f != nil {
				m[name] = f
			}
		}
	}
	return m
}

func (l level) choose(d, a, b *Column, yes, lanes uint32) bool {
	switch l {
	case avx512:
		choose(d, a, b, yes, lanes)
	case avx2:
		chooseAVX2(d, a, b, yes, lanes)
	}
	return l != none
}

func (l level) load32(column, a *Column, m *Memory, lanes uint32) bool {
	return l == avx512 && load32(column, a, m, lanes) || l == avx2 && load32AVX2(column, a, m, lanes)
}

func (l level) load64(column, a *Column, m *Memory, lanes uint32) bool {
	return l == avx512 && load64(column, a, m, lanes) || l == avx2 && load64AVX2(column, a, m, lanes)
}

func (l level) store32(column, a *Column, m *Memory, lanes uint32) bool {
	return l == avx512 && store32(column, a, m, lanes) || l == avx2 && store32AVX2(column, a, m, lanes)
}

func (l level) store64(column, a *Column, m *Memory, lanes uint32) bool {
	return l == avx512 && store64(column, a, m, lanes) || l == avx2 && store64AVX2(column, a, m, lanes)
}

func cpuid(leaf uint32) (b, c uint32)

func xgetbv() (states uint32)

//go:noescape
func add32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func sub32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func mul32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func mad32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func minU32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func maxU32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func minS32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func maxS32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func shl32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func shrU32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func shrS32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func extendU32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func extendS32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func add64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func sub64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func mul64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func mad64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func minU64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func maxU64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func minS64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func maxS64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func and(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func or(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func xor(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func wideU32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func wideS32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func madWideU32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func madWideS32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func shl64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func shrU64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func shrS64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func addF32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func subF32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func mulF32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func divF32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func fmaF32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func fromS32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func fromU32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func addF64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func subF64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func mulF64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func divF64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func fmaF64(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func widen(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func narrow(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func doubleS32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func doubleU32(d, a, b, c *Column, lanes uint32) (left uint32)

//go:noescape
func equal32(a, b *Column) (yes uint32)

//go:noescape
func lessU32(a, b *Column) (yes uint32)

//go:noescape
func lessS32(a, b *Column) (yes uint32)

//go:noescape
func equal64(a, b *Column) (yes uint32)

//go:noescape
func lessU64(a, b *Column) (yes uint32)

//go:noescape
func lessS64(a, b *Column) (yes uint32)

//go:noescape
func equalF32(a, b *Column) (yes uint32)

//go:noescape
func lessF32(a, b *Column) (yes uint32)

//go:noescape
func lessEqualF32(a, b *Column) (yes uint32)

//go:noescape
func unorderedF32(a, b *Column) (yes uint32)

//go:noescape
func equalF64(a, b *Column) (yes uint32)

//go:noescape
func lessF64(a, b *Column) (yes uint32)

//go:noescape
func lessEqualF64(a, b *Column) (yes uint32)

//go:noescape
func unorderedF64(a, b *Column) (yes uint32)

//go:noescape
func choose(d, a, b *Column, yes, lanes uint32)

//go:noescape
func load32(column, a *Column, m *Memory, lanes uint32) (done bool)

//go:noescape
func load64(column, a *Column, m *Memory, lanes uint32) (done bool)

//go:noescape
func store32(column, a *Column, m *Memory, lanes uint32) (done bool)

//go:noescape
func store64(column, a *Column, m *Memory, lanes uint32) (done bool)
