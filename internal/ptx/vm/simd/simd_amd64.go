//go:build !cu_portable

package simd

// Available reports whether the processor and the operating system have what this package needs.
func Available() bool { return available }

var available = detect()

// detect finds AVX-512 with F, DQ, BW and VL, and BMI2.
func detect() bool {
	const (
		saves  = 1 << 27                              // the operating system says which registers it saves
		needed = 1<<8 | 1<<16 | 1<<17 | 1<<30 | 1<<31 // BMI2, F, DQ, BW, VL
		states = 0xe6                                 // all vector registers, and masks
	)
	if _, c := cpuid(1); c&saves == 0 || xgetbv()&states != states {
		return false
	}
	b, _ := cpuid(7)
	return b&needed == needed
}

// functions are the functions of instructions, or nil.
var functions = func() map[string]Func {
	if !available {
		return nil
	}
	return map[string]Func{
		"add.u32": add32, "add.s32": add32, "add.u64": add64, "add.s64": add64,
		"sub.u32": sub32, "sub.s32": sub32, "sub.u64": sub64, "sub.s64": sub64,
		"mul.lo.u32": mul32, "mul.lo.s32": mul32, "mul.lo.u64": mul64, "mul.lo.s64": mul64,
		"mad.lo.u32": mad32, "mad.lo.s32": mad32, "mad.lo.u64": mad64, "mad.lo.s64": mad64,
		"mul.wide.u32": wideU32, "mul.wide.s32": wideS32, "mad.wide.u32": madWideU32, "mad.wide.s32": madWideS32,
		"min.u32": minU32, "min.s32": minS32, "min.u64": minU64, "min.s64": minS64,
		"max.u32": maxU32, "max.s32": maxS32, "max.u64": maxU64, "max.s64": maxS64,
		"and.b16": and, "and.b32": and, "and.b64": and, "or.b16": or, "or.b32": or, "or.b64": or,
		"xor.b16": xor, "xor.b32": xor, "xor.b64": xor,
		"shl.b32": shl32, "shl.b64": shl64, "shr.u32": shrU32, "shr.b32": shrU32, "shr.s32": shrS32,
		"shr.u64": shrU64, "shr.b64": shrU64, "shr.s64": shrS64,
		"cvt.u64.u32": extendU32, "cvt.s64.u32": extendU32, "cvt.u64.s32": extendS32, "cvt.s64.s32": extendS32,
		"add.f32": addF32, "add.rn.f32": addF32, "sub.f32": subF32, "sub.rn.f32": subF32,
		"mul.f32": mulF32, "mul.rn.f32": mulF32, "div.rn.f32": divF32, "fma.rn.f32": fmaF32, "mad.rn.f32": fmaF32,
		"cvt.rn.f32.s32": fromS32, "cvt.rn.f32.u32": fromU32,
		"add.f64": addF64, "add.rn.f64": addF64, "sub.f64": subF64, "sub.rn.f64": subF64,
		"mul.f64": mulF64, "mul.rn.f64": mulF64, "div.rn.f64": divF64, "fma.rn.f64": fmaF64, "mad.rn.f64": fmaF64,
		"cvt.f64.f32": widen, "cvt.rn.f32.f64": narrow, "cvt.rn.f64.s32": doubleS32, "cvt.rn.f64.u32": doubleU32,
	}
}()

// comparisons are the functions of comparisons, or nil.
var comparisons = func() map[string]Comparison {
	if !available {
		return nil
	}
	return map[string]Comparison{
		"eq.b32": equal32, "eq.u32": equal32, "eq.s32": equal32, "lt.u32": lessU32, "lt.s32": lessS32,
		"eq.b64": equal64, "eq.u64": equal64, "eq.s64": equal64, "lt.u64": lessU64, "lt.s64": lessS64,
		"eq.f32": equalF32, "lt.f32": lessF32, "le.f32": lessEqualF32, "nan.f32": unorderedF32,
		"eq.f64": equalF64, "lt.f64": lessF64, "le.f64": lessEqualF64, "nan.f64": unorderedF64,
	}
}()

// Choose sets d to a in the lanes of yes, and to b in the other lanes. It reports whether it has done so.
func Choose(d, a, b *Column, yes, lanes uint32) bool {
	if !available {
		return false
	}
	choose(d, a, b, yes, lanes)
	return true
}

// Load32 loads a number of 32 bits for each lane from the address in a. It reports whether it has done so: not if an
// address is outside the memory, or is not aligned.
func Load32(d, a *Column, m *Memory, lanes uint32) bool {
	return available && load32(d, a, m, lanes)
}

// Load64 is Load32 for 64 bits.
func Load64(d, a *Column, m *Memory, lanes uint32) bool {
	return available && load64(d, a, m, lanes)
}

// Store32 stores the lower 32 bits of b at the addresses in a, as Load32 loads them. Of several lanes with one address
// the highest counts.
func Store32(b, a *Column, m *Memory, lanes uint32) bool {
	return available && store32(b, a, m, lanes)
}

// Store64 is Store32 for 64 bits.
func Store64(b, a *Column, m *Memory, lanes uint32) bool {
	return available && store64(b, a, m, lanes)
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
