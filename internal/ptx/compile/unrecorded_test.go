package compile

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// unrecorded are instructions like those of manual.
var unrecorded = []bodyOf{
	// Only what the metadata selects is multiplied: the other numbers are infinite.
	{`and.b32 r1,r0,1; setp.eq.u32 p,r1,0; selp.b32 r1,0x3c003c00,0x7c007c00,p; mov.b32 r2,0x3c003c00;
		mov.b32 r3,0x44444444; mov.b32 r4,0;
		mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {r9,r8},{r2,r2},{r1,r1},{r4,r4},r3,0;`, 0x48004800},
	// Two predicates, of the lower and of the upper numbers.
	{`mov.b32 r1,0x3c00c000; mov.b32 r2,0x3c003c00; setp.lt.f16x2 p|q,r1,r2; selp.u32 r9,1,0,p; selp.u32 r3,2,0,q;
		or.b32 r9,r9,r3;`, 1},
	{`.reg .pred s; mov.b32 r1,0x3f80ff80; mov.b32 r2,0x7fc03f80; setp.eq.u32 s,r0,r0; setp.neu.xor.bf16x2 p|q,r1,r2,s;
		selp.u32 r9,1,0,p; selp.u32 r3,2,0,q; or.b32 r9,r9,r3;`, 0},
	{`.reg .pred s; mov.b32 r1,0x3f80ff80; setp.ne.u32 s,r0,r0; setp.nan.or.bf16x2 p|q,r1,r1,s; selp.u32 r9,1,8,p;`, 8},
	{`mov.b32 r1,0x00010001; mov.b32 r2,0; setp.eq.ftz.f16x2 p|_,r1,r2; selp.u32 r9,1,8,p;`, 1},
	// The state space of parameters is a part of the global one.
	{"mov.b64 d1,out; cvta.param.u64 d1,d1; isspacep.global p,d1; selp.u32 r9,1,0,p;", 1},
	{"mov.b64 d1,out; cvta.param::entry.u64 d1,d1; isspacep.param::entry p,d1; selp.u32 r9,1,0,p;", 1},
	{"isspacep.param::entry p,d0; selp.u32 r9,1,2,p;", 2},
	// Constant memory is no shared memory.
	{".shared .b32 s[9]; mov.u64 d1,s; cvta.shared.u64 d1,d1; isspacep.const p,d1; isspacep.shared q,d1; " +
		"selp.u32 r9,1,0,p; selp.u32 r3,2,0,q; or.b32 r9,r9,r3;", 2},
	{".shared .b32 s[9]; mov.u64 d1,s; cvta.shared::cta.u64 d1,d1; cvta.to.shared::cta.u64 d1,d1; st.shared.u32 [d1],7; " +
		"ld.shared.u32 r9,[s];", 7},
	{".shared .b32 s[9]; mov.u64 d1,s; cvta.shared::cluster.u64 d1,d1; st.u32 [d1],7; ld.shared.u32 r9,[s];", 7},
	{"mov.b64 d1,out; cvta.param::entry.u64 d2,d1; cvta.to.param::entry.u64 d2,d2; sub.u64 d2,d2,d1; " +
		"mov.b64 {r9,r8},d2; or.b32 r9,r9,r8;", 0},
	// Memory of the stack.
	{"alloca.u64 d1,16; st.local.u32 [d1+12],7; cvta.local.u64 d1,d1; ld.u32 r9,[d1+12];", 7},
	{"alloca.u32 r1,16,32; and.b32 r9,r1,31; st.local.u32 [r1],r9;", 0},
	{"alloca.u64 d1,3,64; alloca.u64 d2,3; sub.u64 d3,d2,d1; setp.ge.s64 p,d3,3; selp.u32 r9,1,0,p;", 1},
	{".local .b32 l[4]; stacksave.u64 d1; alloca.u64 d2,256; stackrestore.u64 d1; alloca.u64 d3,256; sub.u64 d3,d3,d2; " +
		"mov.b64 {r9,r8},d3;", 0},
	{".local .b32 l[4]; stacksave.u32 r1; alloca.u32 r2,256; stackrestore.u32 r1; alloca.u32 r3,256; " +
		"sub.u32 r9,r3,r2;", 0},
	{`mov.u32 r1,0; again: stacksave.u64 d1; alloca.u64 d2,4096; st.local.u32 [d2],r1; ld.local.u32 r9,[d2];
		stackrestore.u64 d1; add.u32 r1,r1,1; setp.lt.u32 p,r1,100; @p bra again;`, 99},
	// Barriers that count bytes. The phase ends when nothing is missing, neither arrivals nor bytes.
	{onBarriers + `mbarrier.arrive.expect_tx.shared::cta.b64 d1,[mb],8; mbarrier.test_wait.shared.b64 p,[mb],d1;
		mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [mb],8; mbarrier.test_wait.shared.b64 q,[mb],d1;` + bothTruths, 2},
	{onBarriers + `mbarrier.complete_tx.shared.b64 [mb],24; mbarrier.arrive.expect_tx.shared.b64 d1,[mb],8;
		mbarrier.test_wait.shared.b64 p,[mb],d1; mbarrier.expect_tx.shared.b64 [mb],16;
		mbarrier.test_wait.shared.b64 q,[mb],d1;` + bothTruths, 2},
	{onBarriers + `mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [mb],8; mbarrier.arrive.shared.b64 d1,[mb];
		mbarrier.test_wait.shared.b64 p,[mb],d1; mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [mb],8;
		mbarrier.test_wait.shared.b64 q,[mb],d1;` + bothTruths, 2},
	{onBarriers + `mbarrier.expect_tx.b64 [gb],8; mbarrier.arrive.shared.b64 d1,[mb];
		mbarrier.test_wait.shared.b64 p,[mb],d1;
		mbarrier.complete_tx.b64 [gb],8; mbarrier.test_wait.shared.b64 q,[mb],d1;` + bothTruths, 2},
	{onBarriers + `mbarrier.arrive.expect_tx.b64 d1,[gb],8; mbarrier.test_wait.shared.b64 p,[mb],d1;
		mbarrier.complete_tx.b64 [gb],8; mbarrier.test_wait.shared.b64 q,[mb],d1; xor.b64 d1,d1,1;` + bothTruths, 2},
	{onBarriers + `mbarrier.init.shared.b64 [mb],2; mbarrier.arrive.expect_tx.shared.b64 d1,[mb],0;
		mbarrier.arrive.expect_tx.shared::cluster.b64 _,[mb],0; mbarrier.test_wait.shared.b64 p,[mb],d1;
		shr.u64 d1,d1,61; mbarrier.arrive.expect_tx.shared::cta.b64 d2,[mb],0; shr.u64 d2,d2,61;
		setp.ne.u64 q,d1,d2;` + bothTruths, 3},
	{onBarriers + `mbarrier.expect_tx.shared::cta.b64 [mb],8; mbarrier.arrive.shared.b64 d1,[mb];
		mbarrier.complete_tx.shared::cta.b64 [mb],8; mbarrier.test_wait.shared.b64 p,[mb],d1; selp.u32 r9,1,0,p;`, 1},
	{onBarriers + `mbarrier.init.shared.b64 [mb],3; mbarrier.arrive.expect_tx.shared.b64 d1,[mb],8;
		mbarrier.pending_count.b64 r9,d1;`, 3},
	// An arrival that drops makes the next phase shorter.
	{onBarriers + `mbarrier.init.shared.b64 [mb],3; mbarrier.arrive_drop.expect_tx.shared::cta.b64 d1,[mb],8;
		mbarrier.arrive_drop.expect_tx.b64 d1,[gb],8; mbarrier.arrive.shared.b64 d1,[mb];
			mbarrier.test_wait.shared.b64 p,[mb],d1;
		mbarrier.complete_tx.shared.b64 [mb],16; mbarrier.arrive.shared.b64 d1,[mb];
			mbarrier.test_wait.shared.b64 q,[mb],d1;` +
		bothTruths, 2},
	{onBarriers + `mbarrier.init.shared.b64 [mb],3; mbarrier.arrive_drop.expect_tx.shared.b64 d1,[mb],0;
		mbarrier.pending_count.b64 r9,d1;`, 3},
	{onBarriers + `mbarrier.init.shared.b64 [mb],3; mbarrier.arrive_drop.expect_tx.shared.b64 d1,[mb],0;
		mbarrier.arrive_drop.expect_tx.shared::cluster.b64 _,[mb],0; mbarrier.arrive.noComplete.shared.b64 d1,[mb],0;
		mbarrier.pending_count.b64 r9,d1;`, 1},
	{onBarriers + `mbarrier.init.shared.b64 [mb],3; mbarrier.arrive_drop.expect_tx.shared.b64 d1,[mb],0;
		mbarrier.arrive_drop.noComplete.shared.b64 d2,[mb],1; mbarrier.arrive_drop.noComplete.shared::cta.b64 d2,[mb],1;
		mbarrier.pending_count.b64 r9,d2; shr.u64 d1,d1,61; shr.u64 d2,d2,61; setp.ne.u64 p,d1,d2; @p mov.u32 r9,9;`, 1},
	{onBarriers + `mbarrier.init.shared.b64 [mb],4; mbarrier.arrive_drop.noComplete.b64 d1,[gb],2;
		mbarrier.arrive.shared.b64 d1,[mb],2; mbarrier.arrive.shared.b64 d1,[mb]; mbarrier.test_wait.shared.b64 p,[mb],d1;
		mbarrier.arrive.shared.b64 d1,[mb]; mbarrier.test_wait.shared.b64 q,[mb],d1;` + bothTruths, 2},
	{onBarriers + `cp.async.mbarrier.arrive.shared.b64 [mb]; mbarrier.arrive.shared.b64 d1,[mb];
		mbarrier.test_wait.shared.b64 p,[mb],d1; selp.u32 r9,1,0,p;`, 1},
	// If the predicate is true, zeros are copied.
	{`.shared .b32 s[64]; .reg .b32 at; .reg .b64 from; mul.wide.u32 from,r0,4; add.u64 from,from,d0;
		st.global.u32 [from],7;
		mov.u32 at,s; mad.lo.u32 at,r0,4,at; st.shared.u32 [at],5; setp.eq.u32 q,r0,r0;
		cp.async.ca.shared.global [at],[from],4,q; cp.async.wait_all; ld.shared.u32 r1,[at]; setp.ne.u32 q,r0,r0;
		cp.async.ca.shared.global [at],[from],4,q; cp.async.wait_all; ld.shared.u32 r9,[at]; mad.lo.u32 r9,r1,16,r9;`, 7},
	// What has no effect.
	{`cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; cp.async.bulk.wait_group.read 1;
		setmaxnreg.inc.sync.aligned.u32 64;
		cp.async.bulk.prefetch.L2.global [d0],16; pmevent.mask 3; membar.proxy.alias; mov.u32 r9,7;`, 7},
	{`createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 d1,[d0],16,32;
		cp.async.bulk.prefetch.L2.global.L2::cache_hint [d0],16,d1; mov.u32 r9,7;`, 7},
}

const (
	// onBarriers makes a barrier for each thread: mb, and its generic address gb.
	onBarriers = `.shared .b64 s[64]; .reg .b64 mb,gb; mul.wide.u32 mb,r0,8; mov.u64 gb,s; add.u64 mb,mb,gb;
		cvta.shared.u64 gb,mb; mbarrier.init.shared.b64 [mb],1; `
	// bothTruths leaves p and twice q.
	bothTruths = "selp.u32 r9,1,0,p; selp.u32 r3,2,0,q; or.b32 r9,r9,r3;"
)

// unrecordedExamples returns the examples of this file.
func unrecordedExamples() []*example {
	list := bodies(unrecorded, false)
	return slices.Concat(list, lop3Examples(), pairExamples(), conversionExamples(), accessExamples(), updateExamples(),
		bulkExamples(), laterVideoExamples(), imageExamples(), wideExamples())
}

// lop3Examples returns lop3 with a predicate.
func lop3Examples() (list []*example) {
	inputs := cross(map[string][]uint64{"i": {0, 1, 0x80000000, 0xffffffff}}, []string{"i", "i", "i"})
	for _, how := range []string{"or", "and"} {
		for _, q := range []string{"P", "!P"} {
			list = append(list, computed(fmt.Sprintf(`.reg .pred R; .reg .b32 X; setp.ne.u32 P,C,0;
				lop3.%s.b32 X|R,A,B,C,0x80,%s;
				selp.b32 D,0x40,0,R; xor.b32 D,D,X`, how, q), "i", inputs, func(in []uint64) uint64 {
				d, p := in[0]&in[1]&in[2], (in[2] != 0) == (q == "P")
				if how == "or" {
					p = p || d != 0
				} else {
					p = p && d != 0
				}
				if p {
					d ^= 0x40
				}
				return d
			}))
		}
	}
	return list
}

// pairExamples returns comparisons of pairs of numbers. The lower bit of the result is about the lower numbers.
func pairExamples() (list []*example) {
	var inputs []uint64
	values := map[string][]uint64{"f16x2": {0, 0x8000, 1, 0x3c00, 0xbc00, 0x7c00, 0x7e00},
		"bf16x2": {0, 0x8000, 1, 0x3f80, 0xbf80, 0x7f80, 0x7fc0}}
	for typ, numbers := range values {
		inputs = nil
		for i, a := range numbers {
			for j, b := range numbers {
				other := func(n int) uint64 { return numbers[n%len(numbers)] << 16 }
				inputs = append(inputs, a|other(j+2), b|other(i+3), uint64(i+j), 0)
			}
		}
		for _, cmp := range strings.Fields("eq ne lt le gt ge equ neu ltu leu gtu geu num nan") {
			for _, how := range strings.Fields("none and or xor") {
				for _, ftz := range []string{"", ".ftz"} {
					if typ == "bf16x2" && ftz != "" {
						continue
					}
					ins := fmt.Sprintf("setp.%s.%s%s.%s P|Q,A,B,R", cmp, how, ftz, typ)
					if how == "none" {
						ins = fmt.Sprintf("setp.%s%s.%s P|Q,A,B", cmp, ftz, typ)
					}
					ins = ".reg .pred Q,R; and.b32 D,C,1; setp.ne.u32 R,D,0; " + ins + "; selp.u32 D,1,0,P; @Q or.b32 D,D,2"
					list = append(list, computed(ins, "i", inputs, func(in []uint64) (d uint64) {
						for half := range 2 {
							number := func(v uint64) float64 {
								v = v >> (16 * half) & 0xffff
								if ftz != "" && v&0x7c00 == 0 {
									v &= 0x8000
								}
								return decode(typ[:len(typ)-2], []byte{byte(v), byte(v >> 8)})
							}
							yes, r := compared(cmp, number(in[0]), number(in[1])), in[2]&1 != 0
							switch how {
							case "and":
								yes = yes && r
							case "or":
								yes = yes || r
							case "xor":
								yes = yes != r
							}
							if yes {
								d |= 1 << half
							}
						}
						return d
					}))
				}
			}
		}
	}
	return list
}

// compared returns the result of a comparison.
func compared(cmp string, a, b float64) bool {
	unordered := a != a || b != b
	switch cmp {
	case "num":
		return !unordered
	case "nan":
		return unordered
	}
	if unordered {
		return len(cmp) == 3
	}
	return map[string]bool{"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[cmp[:2]]
}

// numberOf returns a small number as one of a format.
func numberOf(typ string, v float64) uint64 {
	typ = strings.TrimSuffix(typ, "x2")
	man, bias, sign := map[string]int{"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[typ],
		map[string]int{"f16": 15, "bf16": 127, "f32": 127, "f64": 1023}[typ], uint64(0)
	if v == 0 {
		return 0
	}
	if v < 0 {
		sign, v = 1<<(bits16(typ)-1), -v
	}
	f, e := math.Frexp(v)
	return sign | uint64(e-1+bias)<<man | uint64(math.Ldexp(2*f-1, man))
}

// bits16 returns the size of a type of floats in bits.
func bits16(typ string) int {
	return map[string]int{"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[typ]
}

// conversionExamples returns conversions from and to bf16, those to the largest finite number, and to integers of
// fewer than eight bits.
func conversionExamples() (list []*example) {
	add := func(ins, kinds string, ins1, want uint64) {
		e := computed(ins, kinds, []uint64{ins1, 0, 0, 0}, func([]uint64) uint64 { return want })
		if strings.Contains(ins, ".satfinite.tf32") { // no earlier target has it
			e.text = strings.Replace(e.text, "sm_90a", "sm_100a", 1)
		}
		list = append(list, e)
	}
	// Of 1 + 2^-7 · 1/4, 1/2, 3/4, and the same with the next digit.
	for _, c := range []struct {
		x              float64
		rn, rz, rm, rp uint64
	}{
		{1 + 1.0/512, 0x3f80, 0x3f80, 0x3f80, 0x3f81}, {1 + 1.0/256, 0x3f80, 0x3f80, 0x3f80, 0x3f81},
		{1 + 3.0/256, 0x3f82, 0x3f81, 0x3f81, 0x3f82}, {-1 - 1.0/512, 0xbf80, 0xbf80, 0xbf81, 0xbf80},
	} {
		for i, want := range []uint64{c.rn, c.rz, c.rm, c.rp} {
			rnd := []string{"rn", "rz", "rm", "rp"}[i]
			add(".reg .b16 X; mov.b64 {X,_,_,_},A; cvt."+rnd+".bf16.f16 X,X; cvt.u64.u16 D,X", "i64", numberOf("f16", c.x), want)
			add(".reg .b16 X; cvt."+rnd+".bf16.f64 X,A; cvt.u64.u16 D,X", "i64", math.Float64bits(c.x), want)
		}
	}
	for _, c := range []struct{ from, rn, rz, rm, rp uint64 }{
		{0x3380, 1, 1, 1, 1}, {0x33c0, 2, 1, 1, 2}, {0xb3c0, 0x8002, 0x8001, 0x8002, 0x8001}, {0x3300, 0, 0, 0, 1},
		{0x7f00, 0x7c00, 0x7bff, 0x7bff, 0x7c00}, {0x3fc0, 0x3e00, 0x3e00, 0x3e00, 0x3e00},
	} {
		for i, want := range []uint64{c.rn, c.rz, c.rm, c.rp} {
			rnd := []string{"rn", "rz", "rm", "rp"}[i]
			add("cvt."+rnd+".f16.bf16 D,A", "i16", c.from, want)
		}
	}
	for _, x := range []float64{1.5, -1.5, 2.5, 0.25, -3} {
		from, whole := numberOf("bf16", x), []float64{math.RoundToEven(x), math.Trunc(x), math.Floor(x), math.Ceil(x)}
		add(".reg .b16 X; mov.b64 {X,_,_,_},A; cvt.f64.bf16 D,X", "i64", from, math.Float64bits(x))
		for i, rnd := range []string{"rni", "rzi", "rmi", "rpi"} {
			if want := numberOf("bf16", whole[i]); whole[i] != 0 {
				add("cvt."+rnd+".bf16.bf16 D,A", "i16", from, want)
			}
			add(".reg .b16 X; mov.b64 {X,_,_,_},A; cvt."+rnd+".s64.bf16 D,X", "i64", from, uint64(int64(whole[i])))
		}
	}
	for _, typ := range strings.Fields("u16 s16 u32 s32 u64 s64") {
		size, wide := 8*int(syntax.TypeSize(typ)), typ[:1]+"64" // the registers must have the size
		regs := ".reg .b16 X; .reg .b" + typ[1:] + " Y; "
		for i, rnd := range []string{"rn", "rz", "rm", "rp"} {
			mode := []big.RoundingMode{big.ToNearestEven, big.ToZero, big.ToNegativeInf, big.ToPositiveInf}[i]
			for _, from := range []uint64{3, 0x81, 0x181, 0x1180, 0x8101, 0x01018181, 0x80008001, 0x0123456789abcdef, 1<<64 - 3,
				0xfedcba9876543210} {
				n := new(big.Int).SetUint64(from << (64 - size) >> (64 - size))
				if typ[0] == 's' {
					n.SetInt64(int64(from<<(64-size)) >> (64 - size))
				}
				v, _ := new(big.Float).SetMode(mode).SetPrec(8).SetInt(n).Float64()
				add(regs+"cvt."+typ+".u64 Y,A; cvt."+rnd+".bf16."+typ+" X,Y; cvt.u64.u16 D,X", "i64", from, numberOf("bf16", v))
			}
			for _, x := range []float64{0.75, 1.5, -1.5, 2.5, 129, -131, 300, 40192, -40192, 3 << 30, -3 << 30, 1 << 41, 1 << 70,
				-1 << 70} {
				least, most := 0.0, math.Ldexp(1, size)-1
				if typ[0] == 's' {
					least, most = -math.Ldexp(1, size-1), math.Ldexp(1, size-1)-1
				}
				want := uint64(0)
				switch whole := []float64{math.RoundToEven(x), math.Trunc(x), math.Floor(x), math.Ceil(x)}[i]; {
				case whole >= most:
					want = 1<<(size-1)<<1 - 1
					if typ[0] == 's' {
						want >>= 1
					}
				case whole < 0:
					want = uint64(int64(max(whole, least)))
				default:
					want = uint64(whole)
				}
				add(regs+"mov.b64 {X,_,_,_},A; cvt."+rnd+"i."+typ+".bf16 Y,X; cvt."+wide+"."+typ+" D,Y", "i64",
					numberOf("bf16", x), want)
			}
		}
	}
	// The largest finite numbers.
	for _, c := range []struct {
		from                    uint64
		f16, bf16, tf32, nearer uint64
	}{
		{0x7f7fffff, 0x7bff, 0x7f7f, 0x7f7fe000, 0x7f7fe000}, {0xff800000, 0xfbff, 0xff7f, 0xff7fe000, 0xff7fe000},
		{0x7fc00000, 0x7fff, 0x7fff, 0x7fffffff, 0x7fffffff}, {0x3f803001, 0x3c02, 0x3f80, 0x3f804000, 0x3f802000},
		{0x3f801000, 0x3c00, 0x3f80, 0x3f800000, 0x3f800000}, {0xbf80f000, 0xbc08, 0xbf81, 0xbf810000, 0xbf80e000},
	} {
		zero := func(v uint64) uint64 {
			if c.from>>31 != 0 {
				return 0
			}
			return v
		}
		pair := func(v uint64) uint64 { return v<<16 | v }
		truncated := c.from &^ 0x1fff
		switch {
		case c.from>>23&0xff == 0xff:
			truncated = c.tf32
		}
		add("cvt.rn.satfinite.f16x2.f32 D,A,A", "i32", c.from, pair(c.f16))
		add("cvt.rn.satfinite.bf16x2.f32 D,A,A", "i32", c.from, pair(c.bf16))
		add("cvt.rn.relu.satfinite.f16x2.f32 D,A,A", "i32", c.from, pair(zero(c.f16)))
		add("cvt.rn.relu.satfinite.bf16x2.f32 D,A,A", "i32", c.from, pair(zero(c.bf16)))
		add(".reg .b16 X; cvt.rn.satfinite.f16.f32 X,A; cvt.u32.u16 D,X", "i32", c.from, c.f16)
		add(".reg .b16 X; cvt.rn.satfinite.bf16.f32 X,A; cvt.u32.u16 D,X", "i32", c.from, c.bf16)
		add(".reg .b16 X; cvt.rn.relu.satfinite.f16.f32 X,A; cvt.u32.u16 D,X", "i32", c.from, zero(c.f16))
		add(".reg .b16 X; cvt.rn.relu.satfinite.bf16.f32 X,A; cvt.u32.u16 D,X", "i32", c.from, zero(c.bf16))
		add("cvt.rn.satfinite.tf32.f32 D,A", "i32", c.from, c.tf32)
		add("cvt.rn.relu.satfinite.tf32.f32 D,A", "i32", c.from, zero(c.tf32))
		add("cvt.rz.satfinite.tf32.f32 D,A", "i32", c.from, truncated)
	}
	add("cvt.rna.satfinite.tf32.f32 D,A", "i32", 0x3f801000, 0x3f802000)
	add("cvt.rna.satfinite.tf32.f32 D,A", "i32", 0x7f7fffff, 0x7f7fe000)
	add("cvt.rz.satfinite.f16x2.f32 D,A,A", "i32", 0x3f803fff, 0x3c013c01)
	add("cvt.rz.satfinite.bf16x2.f32 D,A,A", "i32", 0x3f81ffff, 0x3f813f81)
	add(".reg .b16 X; cvt.rz.satfinite.f16.f32 X,A; cvt.u32.u16 D,X", "i32", 0x3f803fff, 0x3c01)
	add(".reg .b16 X; cvt.rz.satfinite.bf16.f32 X,A; cvt.u32.u16 D,X", "i32", 0x3f81ffff, 0x3f81)
	for _, c := range []struct {
		typ  string
		a, b int32
		want uint64
	}{
		{"u4", 100, -5, 0x345678f0}, {"s4", 100, -5, 0x3456787b}, {"u2", 100, -5, 0x12345678<<4&0xffffffff | 0xc},
		{"s2", 100, -5, 0x23456786}, {"u4", 9, 3, 0x34567893}, {"s4", -9, 3, 0x34567883}, {"u2", 2, 1, 0x23456789},
		{"s2", -1, 0, 0x2345678c},
	} {
		add(fmt.Sprintf("mov.b32 C,0x12345678; cvt.pack.sat.%s.s32.b32 D,%d,%d,C", c.typ, c.a, c.b), "i32", 0, c.want)
	}
	return list
}

// sharedPlace is the declaration of eight bytes of shared memory for each thread, at the address at.
const sharedPlace = ".shared .align 16 .b8 s[1024]; .reg .b32 at; mov.u32 at,s; mad.lo.u32 at,t,8,at; "

// accessExamples returns loads and stores with modifiers that change nothing.
func accessExamples() (list []*example) {
	const policy = ".reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy; "
	inputs := []uint64{0x8000000000000001, 0, 0, 0, 0x7fedcba987654321, 0, 0, 0, 0x8080818180808181, 0, 0, 0}
	for _, typ := range strings.Fields("b8 u8 s8 b16 u16 s16 b32 u32 s32 f32 b64 u64 s64 f64") {
		size := 8 * syntax.TypeSize(typ)
		register := "i64"
		if typ == "f32" {
			register = "i32"
		}
		add := func(ins string) {
			list = append(list, computed(ins, register, inputs, func(in []uint64) uint64 {
				if v := in[0] << (64 - size); typ[0] == 's' {
					return uint64(int64(v) >> (64 - size))
				} else {
					return v >> (64 - size)
				}
			}))
		}
		for _, op := range []string{"ld.volatile.global.L2::64B", "ld.volatile.L2::128B",
			"ld.relaxed.gpu.global.L1::no_allocate",
			"ld.acquire.sys.L1::evict_last.L2::64B", "ld.mmio.relaxed.sys.global", "ld.mmio.relaxed.sys"} {
			add(op + "." + typ + " D,[i]")
		}
		for _, op := range []string{"st.relaxed.gpu.global.L1::no_allocate", "st.release.sys.L1::evict_last",
			"st.mmio.relaxed.sys.global", "st.mmio.relaxed.sys"} {
			add(op + "." + typ + " [o],A; ld.global." + typ + " D,[o]")
		}
		for _, op := range []string{"st.relaxed.gpu.global.L2::cache_hint", "st.release.sys.L1::evict_last.L2::cache_hint"} {
			add(policy + op + "." + typ + " [o],A,policy; ld.global." + typ + " D,[o]")
		}
		for _, space := range []string{"shared::cta", "shared::cluster"} {
			add(sharedPlace + "st.shared." + typ + " [at],A; ld.volatile." + space + "." + typ + " D,[at]")
			add(sharedPlace + "st.volatile." + space + "." + typ + " [at],A; ld.shared." + typ + " D,[at]")
		}
	}
	return list
}

// wideExamples returns accesses to 128 bits in all forms. The result is three times the lower half plus the upper half.
func wideExamples() (list []*example) {
	const (
		policy = "createpolicy.fractional.L2::evict_first.b64 policy; "
		begin  = ".reg .b128 Q,R,S; .reg .b64 L,H,policy; ld.global.v2.b64 {L,H},[i]; mov.b128 Q,{L,H}; mov.b128 R,{H,L}; "
		end    = "; mov.b128 {L,H},Q; mad.lo.u64 D,L,3,H"
	)
	inputs := []uint64{0x8000000000000001, 0x123456789, 0, 0, 0x7fedcba987654321, 1, 0, 0, 5, 0x8080818180808181, 0, 0}
	add := func(ins string, want func(low, high uint64) (uint64, uint64)) {
		list = append(list, computed(begin+ins+end, "i64", inputs, func(in []uint64) uint64 {
			low, high := want(in[0], in[1])
			return 3*low + high
		}))
	}
	same := func(low, high uint64) (uint64, uint64) { return low, high }
	swapped := func(low, high uint64) (uint64, uint64) { return high, low }
	add("mov.b128 Q,R", swapped)
	add(".reg .b32 A0,A1,A2,A3; mov.b128 {A0,A1,A2,A3},R; mov.b128 Q,{A0,A1,A2,A3}", swapped)
	add(".reg .b32 A0,A1; mov.b64 {A0,A1},L; mov.b128 Q,{A0,A1,A0,A1}; mov.b128 {_,H},R; mov.b128 {L,_},Q; "+
		"mov.b128 Q,{H,L}", func(low, _ uint64) (uint64, uint64) { return low, low })
	for _, op := range strings.Fields("ld.global ld ld.weak ld.global.ca ld.global.L1::no_allocate.L2::64B ld.global.nc " +
		"ld.global.nc.L2::128B ld.global.cg.nc ldu.global ldu ld.volatile.global ld.volatile ld.volatile.L2::64B " +
		"ld.relaxed.gpu.global ld.acquire.sys ld.relaxed.gpu.global.L1::no_allocate ld.acquire.cta.L2::64B " +
		"ld.mmio.relaxed.sys.global ld.mmio.relaxed.sys") {
		add("mov.b128 Q,R; "+op+".b128 Q,[i]", same)
	}
	for _, op := range strings.Fields("ld.global.L2::cache_hint ld.L2::cache_hint ld.global.nc.L2::cache_hint " +
		"ld.acquire.gpu.global.L2::cache_hint ld.relaxed.gpu.L2::cache_hint") {
		add("mov.b128 Q,R; "+policy+op+".b128 Q,[i],policy", same)
	}
	// The results have 8 bytes each: what is stored goes to the inputs.
	for _, op := range strings.Fields("st.global st st.weak st.global.wt st.volatile.global st.volatile " +
		"st.relaxed.gpu.global st.release.sys " +
		"st.relaxed.gpu.global.L1::no_allocate st.release.cta.L1::evict_last st.mmio.relaxed.sys.global " +
		"st.mmio.relaxed.sys") {
		add(op+".b128 [i],R; ld.global.b128 Q,[i]; st.global.v2.b64 [i],{L,H}", swapped)
	}
	for _, op := range strings.Fields("st.global.L2::cache_hint st.L2::cache_hint st.release.gpu.global.L2::cache_hint " +
		"st.relaxed.gpu.L2::cache_hint") {
		add(policy+op+".b128 [i],R,policy; ld.global.b128 Q,[i]; st.global.v2.b64 [i],{L,H}", swapped)
	}
	const place = ".shared .align 16 .b8 s[2048]; .reg .b32 at; mov.u32 at,%tid.x; shl.b32 at,at,4; .reg .b32 base; " +
		"mov.u32 base,s; add.u32 at,at,base; .local .align 16 .b8 l[16]; "
	for _, space := range []string{"shared", "shared::cta", "shared::cluster"} {
		for _, order := range []string{"", ".volatile", ".relaxed.cta"} {
			release := strings.Replace(order, "relaxed", "release", 1)
			add(place+"st."+"shared.b128 [at],R; ld"+order+"."+space+".b128 Q,[at]", swapped)
			add(place+"st"+release+"."+space+".b128 [at],R; ld.shared.b128 Q,[at]", swapped)
		}
		for _, order := range []string{"atom.%s.%s", "atom.relaxed.cta.%s.%s", "atom.%[2]s.relaxed.cta.%[1]s"} {
			exchange, swap := fmt.Sprintf(order, space, "exch"), fmt.Sprintf(order, space, "cas")
			add(place+"st.shared.b128 [at],R; "+exchange+".b128 R,[at],Q; ld.shared.b128 Q,[at]", same)
			add(place+"st.shared.b128 [at],R; "+exchange+".b128 Q,[at],Q", swapped)
			add(place+"st.shared.b128 [at],Q; "+swap+".b128 S,[at],Q,R; ld.shared.b128 Q,[at]", swapped)
			add(place+"st.shared.b128 [at],Q; "+swap+".b128 _,[at],R,R; ld.shared.b128 Q,[at]", same)
			add(place+"st.shared.b128 [at],R; "+swap+".b128 Q,[at],Q,Q", swapped)
		}
	}
	add(place+"st.local.b128 [l],R; ld.local.b128 Q,[l]", swapped)
	add(".reg .b64 U,V; ld.param.b128 Q,[in]; ld.param.v2.b64 {U,V},[in]; mov.b128 {L,H},Q; sub.u64 L,L,U; "+
		"sub.u64 H,H,V; mov.b128 Q,{L,H}", func(_, _ uint64) (uint64, uint64) { return 0, 0 })
	add("mov.u64 L,0; ld.const.b128 Q,[L]", func(_, _ uint64) (uint64, uint64) { return 0, 0 })
	for _, order := range []string{"atom%s%s", "atom.acq_rel.gpu%s%s", "atom%[2]s.acquire.sys%[1]s"} {
		for _, space := range []string{"", ".global"} {
			exchange, swap := fmt.Sprintf(order, space, ".exch"), fmt.Sprintf(order, space, ".cas")
			add(exchange+".b128 Q,[i],R; ld.global.b128 Q,[i]; st.global.v2.b64 [i],{L,H}", swapped)
			add(swap+".b128 S,[i],Q,R; ld.global.b128 Q,[i]; st.global.v2.b64 [i],{L,H}", swapped)
			add(swap+".b128 S,[i],R,R; ld.global.b128 Q,[i]", same)
		}
	}
	for _, space := range []string{"", ".global"} {
		add(policy+"atom"+space+".exch.L2::cache_hint.b128 S,[i],R,policy; ld.global.b128 Q,[i]; st.global.v2.b64 [i],{L,H}",
			swapped)
		add("mov.b128 S,Q; "+policy+"atom.relaxed.gpu"+space+".exch.L2::cache_hint.b128 Q,[i],R,policy; "+
			"st.global.v2.b64 [i],{L,H}", same)
	}
	return list
}

// TestWideAtomics lets threads of several blocks exchange words of 128 bits whose halves are equal, and read them.
func TestWideAtomics(t *testing.T) {
	data := make([]uint64, 4)
	fault, err := launch(t, textHeader+`.entry k(.param .u64 out) { .reg .b128 Q; .reg .b64 o,L,H;
		.reg .b32 n,c; .reg .pred P; ld.param.u64 o,[out]; mov.u32 n,%tid.x; mov.u32 c,%ctaid.x;
		mad.lo.u32 n,c,64,n; mov.u32 c,0; again:
		mad.lo.u32 n,n,5,7; cvt.u64.u32 L,n; mov.b128 Q,{L,L}; atom.exch.b128 Q,[o],Q; mov.b128 {L,H},Q; setp.ne.u64 P,L,H;
		@P st.global.u64 [o+16],1; ld.relaxed.gpu.b128 Q,[o]; mov.b128 {L,H},Q; setp.ne.u64 P,L,H; @P st.global.u64 [o+24],1;
		st.relaxed.gpu.b128 [o],Q; add.u32 c,c,1; setp.lt.u32 P,c,200; @P bra again; ret; }`, 8, 64,
		memory{1 << 32: vm.BytesOf(data)}, 1<<32)
	if err != nil || fault != nil {
		t.Fatal(err, fault)
	}
	if data[0] != data[1] || data[2] != 0 || data[3] != 0 {
		t.Errorf("halves of different words are together: %x", data)
	}
}

// TestWideParameters passes words of 128 bits to functions, in registers and in memory.
func TestWideParameters(t *testing.T) {
	data := make([]uint64, 2)
	fault, err := launch(t, textHeader+`
		.func (.reg .b128 r) swap(.reg .b128 a) { .reg .b64 x,y; mov.b128 {x,y},a; mov.b128 r,{y,x}; ret; }
		.func (.param .b128 r) twice(.param .b128 a) { .reg .b64 x,y; .reg .b128 q; ld.param.b128 q,[a]; mov.b128 {x,y},q;
			add.u64 x,x,x; add.u64 y,y,y; mov.b128 q,{x,y}; st.param.b128 [r],q; ret; }
		.entry k(.param .u64 out) { .reg .b128 q; .reg .b64 x,y,o; ld.param.u64 o,[out]; mov.u64 x,1; mov.u64 y,3;
			mov.b128 q,{x,y}; call (q),swap,(q); { .param .b128 p,r; st.param.b128 [p],q; call (r),twice,(p);
			ld.param.b128 q,[r]; } st.global.b128 [o],q; ret; }`, 1, 1, memory{1 << 32: vm.BytesOf(data)}, 1<<32)
	if err != nil || fault != nil || data[0] != 6 || data[1] != 2 {
		t.Error(data, fault, err)
	}
}

// updated returns what an operation makes of a number in memory.
func updated(op, typ string, a, b uint64) uint64 {
	size := int(8 * syntax.TypeSize(typ))
	mask := uint64(1<<64-1) >> (64 - size)
	switch {
	case strings.HasSuffix(typ, "x2"):
		one := typ[:len(typ)-2]
		return updated(op, one, a&0xffff, b&0xffff) | updated(op, one, a>>16&0xffff, b>>16&0xffff)<<16
	case strings.Contains(typ, "f"): // the numbers are small integers
		number := func(v uint64) float64 {
			for n := -20.0; n <= 20; n++ {
				if numberOf(typ, n) == v {
					return n
				}
			}
			return math.NaN()
		}
		x, y := number(a&mask), number(b&mask)
		return numberOf(typ, map[string]float64{"add": x + y, "min": min(x, y), "max": max(x, y)}[op])
	}
	a, b = a&mask, b&mask
	less := a < b
	if typ[0] == 's' {
		less = int64(a<<(64-size)) < int64(b<<(64-size))
	}
	switch op {
	case "add":
		return (a + b) & mask
	case "and":
		return a & b
	case "or":
		return a | b
	case "xor":
		return a ^ b
	case "exch":
		return b
	case "inc":
		if a >= b {
			return 0
		}
		return a + 1
	case "dec":
		if a == 0 || a > b {
			return b
		}
		return a - 1
	}
	if less == (op == "min") {
		return a
	}
	return b
}

// numbers returns pairs of operands of a type.
func numbers(typ string) (inputs []uint64) {
	values := []uint64{0, 1, 5, 0x7fffffff, 0x80000001, 0xffffffff, 0x7fffffff00000003, 0x8000000100000000, 1<<64 - 1}
	if strings.Contains(typ, "f") {
		values = nil
		for _, v := range []float64{-9, -3, 0, 1, 4, 7} {
			n := numberOf(typ, v)
			if strings.HasSuffix(typ, "x2") {
				n |= numberOf(typ, 2-v) << 16
			}
			values = append(values, n)
		}
	}
	for _, a := range values {
		for _, b := range values {
			inputs = append(inputs, a, b, 0, 0)
		}
	}
	return inputs
}

// updateExamples returns atomic operations with a policy about caches, and those on vectors.
func updateExamples() (list []*example) {
	const policy = ".reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy; "
	kindOf := func(typ string) string { return fmt.Sprint("i", 8*syntax.TypeSize(typ)) }
	for _, form := range []struct{ ops, types string }{
		{"add", "u32 s32 u64 f32 f64"}, {"min max", "u32 s32 u64 s64"}, {"and or xor", "b32 b64"}, {"inc dec", "u32"},
		{"exch", "b32 b64"},
	} {
		for _, op := range strings.Fields(form.ops) {
			for _, typ := range strings.Fields(form.types) {
				for _, space := range []string{"", ".global"} {
					result := func(in []uint64) uint64 { return updated(op, typ, in[0], in[1]) }
					bits := 8 * syntax.TypeSize(typ)
					name := space + "." + op + ".L2::cache_hint." + typ
					store := fmt.Sprintf("%sst.global.b%d [o],A; ", policy, bits)
					list = append(list, computed(store+"atom"+name+" D,[o],B,policy; atom"+name+" D,[o],B,policy", kindOf(typ),
						numbers(typ), result))
					if op != "exch" {
						list = append(list, computed(fmt.Sprintf("%sred%s [o],B,policy; ld.global.b%d D,[o]", store, name, bits),
							kindOf(typ), numbers(typ), result))
					}
				}
			}
		}
	}
	for _, form := range []struct{ ops, vecs, types, more string }{
		{"add", "2 4", "f32", ""}, {"add min max", "2 4 8", "f16 bf16", ".noftz"},
		{"add min max", "2 4", "f16x2 bf16x2", ".noftz"},
	} {
		for _, op := range strings.Fields(form.ops) {
			for _, vec := range strings.Fields(form.vecs) {
				for _, typ := range strings.Fields(form.types) {
					operation, elements := "."+op+form.more, ".v"+vec+"."+typ
					for _, name := range []string{operation + elements, elements + operation} {
						list = append(list, vectorUpdate("atom.global"+name, op, typ, int(vec[0]-'0')),
							vectorUpdate("red"+name, op, typ, int(vec[0]-'0')))
					}
				}
			}
		}
	}
	return list
}

// vectorUpdate returns an atomic operation on a vector, whose elements are the same. The result is the last
// element, or 0xdead if they are different.
func vectorUpdate(name, op, typ string, n int) *example {
	bits := 8 * int(syntax.TypeSize(typ))
	var b strings.Builder
	fmt.Fprintf(&b, ".reg .b%d e<8>; .reg .pred Q; ", bits)
	list := func(element string) string {
		var names []string
		for i := range n {
			names = append(names, strings.ReplaceAll(element, "#", fmt.Sprint(i)))
		}
		return "{" + strings.Join(names, ",") + "}"
	}
	for i := range n {
		fmt.Fprintf(&b, "st.global.b%d [i+%d],A; ", bits, 16+i*bits/8)
	}
	if strings.HasPrefix(name, "atom") {
		for range 2 {
			fmt.Fprintf(&b, "%s %s,[i+16],%s; ", name, list("e#"), list("B"))
		}
	} else {
		fmt.Fprintf(&b, "%s [i+16],%s; ", name, list("B"))
		for i := range n {
			fmt.Fprintf(&b, "ld.global.b%d e%d,[i+%d]; ", bits, i, 16+i*bits/8)
		}
	}
	fmt.Fprintf(&b, "mov.b%d D,e%d; ", bits, n-1)
	for i := range n {
		fmt.Fprintf(&b, "setp.ne.b%d Q,e%d,D; @Q bra other; ", bits, i)
	}
	fmt.Fprintf(&b, "bra same; other: mov.b%d D,0xdead; same:", bits)
	return computed(strings.TrimSuffix(b.String(), ";")+" mov.b"+fmt.Sprint(bits)+" D,D", fmt.Sprint("i", bits),
		numbers(typ),
		func(in []uint64) uint64 { return updated(op, typ, in[0], in[1]) })
}

// bulkExamples returns copies and other operations whose bytes a barrier counts.
func bulkExamples() (list []*example) {
	const (
		// Each thread has 16 bytes of shared memory at sa, and at sb, and a barrier at mb, which waits for 16 bytes.
		places = `.shared .align 16 .b8 s[2048]; .shared .align 16 .b8 u[2048]; .shared .b64 m[128]; .reg .b32 sa,sb,mb;
			.reg .b64 token,policy; .reg .pred Q; mov.u32 sa,s; mad.lo.u32 sa,t,16,sa; mov.u32 sb,u; mad.lo.u32 sb,t,16,sb;
			mov.u32 mb,m; mad.lo.u32 mb,t,8,mb; mbarrier.init.shared.b64 [mb],1;
			createpolicy.fractional.L2::evict_first.b64 policy; `
		// expect waits for a number of bytes.
		expect = "mbarrier.arrive.expect_tx.shared.b64 token,[mb],%d; "
		// If the barrier still waits, the result is wrong.
		wait = "mbarrier.test_wait.shared.b64 Q,[mb],token; @!Q bra late; "
		end  = " bra done; late: mov.b%d D,0xdead; done: mov.b%[1]d D,D"
	)
	first := func(in []uint64) uint64 { return in[0] ^ in[1] }
	inputs := []uint64{1, 2, 3, 4, 1 << 63, 1 << 62, 5, 6, 1<<64 - 1, 7, 8, 9}
	copied := func(body string) {
		list = append(list, computed(places+body+fmt.Sprintf(end, 64), "i64", inputs, first))
	}
	const fromShared = "ld.shared.v2.b64 {A,B},[sa]; xor.b64 D,A,B;"
	for _, c := range []string{".shared::cluster.global.mbarrier::complete_tx::bytes [sa],[i],16,[mb]; ",
		".shared::cta.global.mbarrier::complete_tx::bytes [sa],[i],16,[mb]; ",
		".shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [sa],[i],16,[mb],policy; ",
		".shared::cluster.shared::cta.mbarrier::complete_tx::bytes [sa],[sb],16,[mb]; "} {
		copied("st.shared.v2.b64 [sb],{A,B}; " + fmt.Sprintf(expect, 16) + "cp.async.bulk" + c + wait + fromShared)
	}
	for _, c := range []string{" [i+16],[sb],16; ", ".L2::cache_hint [i+16],[sb],16,policy; "} {
		copied("st.global.v2.b64 [i+16],{0,0}; st.shared.v2.b64 [sb],{A,B}; cp.async.bulk.global.shared::cta.bulk_group" + c +
			"ld.global.v2.b64 {A,B},[i+16]; xor.b64 D,A,B;")
	}
	element := func(typ string, load string) string { // of four, two or eight equal ones
		bits := 8 * int(syntax.TypeSize(typ))
		return fmt.Sprintf("%s.b%d D,[%%s]; %[1]s.b%[2]d B,[%%s+%d]; setp.ne.b%[2]d Q,D,B; @Q bra late;", load, bits,
			16-bits/8)
	}
	for _, form := range []struct{ ops, types, more string }{
		{"add", "u32 s32 u64 f32 f64", ""}, {"add", "f16 bf16", ".noftz"}, {"min max", "u32 s32 u64 s64 f16 bf16", ""},
		{"inc dec", "u32", ""}, {"and or xor", "b32 b64", ""},
	} {
		for _, op := range strings.Fields(form.ops) {
			for _, typ := range strings.Fields(form.types) {
				bits := 8 * int(syntax.TypeSize(typ))
				var fill strings.Builder
				for at := 0; at < 16; at += bits / 8 {
					fmt.Fprintf(&fill, "st.shared.b%d [sa+%d],A; st.shared.b%[1]d [sb+%[2]d],B; st.global.b%[1]d [i+%[3]d],A; ",
						bits, at,
						16+at)
				}
				add := func(body string) {
					list = append(list, computed(places+fill.String()+body+fmt.Sprintf(end, bits), fmt.Sprint("i", bits), numbers(typ),
						func(in []uint64) uint64 { return updated(op, typ, in[0], in[1]) }))
				}
				for _, c := range []string{"#" + form.more + "." + typ + " [i+16],[sb],16; ",
					".L2::cache_hint#" + form.more + "." + typ + " [i+16],[sb],16,policy; "} {
					add("cp.reduce.async.bulk.global.shared::cta.bulk_group" + strings.Replace(c, "#", "."+op, 1) +
						fmt.Sprintf(element(typ, "ld.global"), "i+16", "i+16"))
				}
				if bits == 32 && typ != "f32" || op+typ == "addu64" {
					name := ".mbarrier::complete_tx::bytes." + op + "." + typ
					add(fmt.Sprintf(expect, 16) + "cp.reduce.async.bulk.shared::cluster.shared::cta" + name + " [sa],[sb],16,[mb]; " +
						wait + fmt.Sprintf(element(typ, "ld.shared"), "sa", "sa"))
					for _, space := range []string{"", ".shared::cluster"} {
						add(fmt.Sprintf(expect, bits/8) + "red.async.relaxed.cluster" + space + name + " [sa],B,[mb]; " + wait +
							fmt.Sprintf("ld.shared.b%d D,[sa];", bits))
					}
				}
			}
		}
	}
	for _, typ := range strings.Fields("b32 b64 u32 u64 s32 s64 f32 f64") {
		bits := 8 * int(syntax.TypeSize(typ))
		for _, n := range []int{1, 2, 4} {
			if n*bits > 128 {
				continue
			}
			vec, what := "", "A"
			if n > 1 {
				vec, what = fmt.Sprint(".v", n), "{"+strings.Repeat("B,", n-1)+"A}"
			}
			for _, space := range []string{"", ".shared::cluster"} {
				body := fmt.Sprintf(expect+"st.async%s.mbarrier::complete_tx::bytes%s.%s [sa],%s,[mb]; "+wait+
					"ld.shared.b%d D,[sa+%d];", n*bits/8, space, vec, typ, what, bits, (n-1)*bits/8)
				list = append(list, computed(places+body+fmt.Sprintf(end, bits), fmt.Sprint("i", bits), inputs,
					func(in []uint64) uint64 { return in[0] << (64 - bits) >> (64 - bits) }))
			}
		}
	}
	return list
}

// laterVideoExamples returns vset, vmad and vavrg. The results are computed as the manual describes it, or, where
// recordedVideo shows others, as an H200 computes them.
func laterVideoExamples() (list []*example) {
	special := []uint64{0, 1, 127, 0x80, 0x7fff, 0x8001, 0x00ff80, 0x12348765, 0x7fffffff, 0x80000000, 0xfffffffe,
		0xffffffff}
	var inputs []uint64
	for _, a := range special {
		for i, b := range special {
			inputs = append(inputs, a, b, special[(i*5+3)%len(special)], 0)
		}
	}
	part := func(v uint64, typ string, from, size int) int64 {
		if v = v >> from << (64 - size); typ[0] == 's' {
			return int64(v) >> (64 - size)
		}
		return int64(v >> (64 - size))
	}
	truth := func(cmp string, x, y int64) int64 {
		if compared(cmp, float64(x), float64(y)) { // 32 bits are exact
			return 1
		}
		return 0
	}
	types, comparisons := []string{"u32", "s32"}, strings.Fields("eq ne lt le gt ge")
	for _, at := range types {
		for _, bt := range types {
			for _, cmp := range comparisons {
				for _, second := range []string{"", "add", "min", "max"} {
					ins := "vset." + at + "." + bt + "." + cmp
					if second != "" {
						ins += "." + second + " D,A,B,C"
					} else {
						ins += " D,A,B"
					}
					list = append(list, computed(ins, "i", inputs, func(in []uint64) uint64 {
						d := uint64(truth(cmp, part(in[0], at, 0, 32), part(in[1], bt, 0, 32)))
						c := part(in[2], at, 0, 32) // the manual says that it has no sign
						switch second {
						case "add":
							d += in[2]
						case "min":
							d = uint64(min(int64(d), c))
						case "max":
							d = uint64(max(int64(d), c))
						}
						return d & 0xffffffff
					}))
				}
			}
			for _, size := range []int{16, 8} {
				packed := func(ins string, add bool, one func(x, y int64) int64) {
					list = append(list, computed(ins+" D,A,B,C", "i", inputs, func(in []uint64) (d uint64) {
						if add {
							d = in[2]
						}
						for from := 0; from < 32; from += size {
							x := uint64(one(part(in[0], at, from, size), part(in[1], bt, from, size)))
							if add {
								d += x
							} else {
								d |= x << (64 - size) >> (64 - size) << from
							}
						}
						return d & 0xffffffff
					}))
				}
				n := fmt.Sprint(32 / size)
				for _, cmp := range comparisons {
					one := func(x, y int64) int64 { return truth(cmp, x, y) }
					packed("vset"+n+"."+at+"."+bt+"."+cmp, false, one)
					packed("vset"+n+"."+at+"."+bt+"."+cmp+".add", true, one)
				}
				for _, dt := range types {
					average := func(x, y int64) int64 {
						up := int64(0)
						if x+y >= 0 {
							up = 1
						}
						return int64(math.Floor(float64(x+y+up) / 2))
					}
					limited := func(x, y int64) int64 {
						if dt == "s32" {
							return min(max(average(x, y), -1<<(size-1)), 1<<(size-1)-1)
						}
						return min(max(average(x, y), 0), 1<<size-1)
					}
					name := "vavrg" + n + "." + dt + "." + at + "." + bt
					packed(name, false, average)
					packed(name+".add", true, average)
					packed(name+".sat", false, limited)
				}
			}
			for _, dt := range types {
				for i := range 12 {
					po, sat, shift := i&1 == 1, i&2 == 2, []uint{0, 7, 15}[i/4]
					ins := "vmad." + dt + "." + at + "." + bt
					for _, m := range []struct {
						is   bool
						text string
					}{{po, ".po"}, {sat, ".sat"}, {shift != 0, fmt.Sprint(".shr", shift)}} {
						if m.is {
							ins += m.text
						}
					}
					list = append(list, computed(ins+" D,A,B,C", "i", inputs, func(in []uint64) uint64 {
						signed := at == "s32" || bt == "s32"
						least, most := int64(0), int64(math.MaxUint32)
						if signed {
							least, most = math.MinInt32, math.MaxInt32
						}
						sum := new(big.Int).Mul(big.NewInt(int64(int32(in[0]))), big.NewInt(int64(int32(in[1]))))
						sum.Add(sum, big.NewInt(int64(int32(in[2]))))
						if po {
							sum.Add(sum, big.NewInt(1))
						}
						if !signed && shift != 0 {
							sum.And(sum, new(big.Int).SetUint64(math.MaxUint64))
						}
						sum.Rsh(sum, shift)
						if sat && sum.Cmp(big.NewInt(least)) < 0 {
							sum.SetInt64(least)
						} else if sat && sum.Cmp(big.NewInt(most)) > 0 {
							sum.SetInt64(most)
						}
						return new(big.Int).And(sum, big.NewInt(math.MaxUint32)).Uint64()
					}))
				}
			}
		}
	}
	return list
}

// TestUnrecorded executes instructions that were not recorded on a GPU, and compares them with what the manual says.
func TestUnrecorded(t *testing.T) {
	for _, e := range unrecordedExamples() {
		e.check(t)
	}
}

// TestBulkFaults executes operations that count bytes with mistakes.
func TestBulkFaults(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"cp.async.bulk.global.shared::cta.bulk_group [m],[s],16;", ""},
		{"cp.async.bulk.global.shared::cta.bulk_group [m],[s],8;", "the size of the copy, 8 bytes, is no multiple of 16"},
		{"mbarrier.init.shared.b64 [s],1; mov.u32 d,0xfffff; mbarrier.expect_tx.shared.b64 [s],d; " +
			"mbarrier.expect_tx.shared.b64 [s],1;",
			"a barrier in memory would wait for 1048576 bytes, and it counts up to 1048575"},
		{"alloca.u64 x,16000; st.local.u8 [x+15999],1;", ""},
		{"alloca.u64 x,17000;", "the stack of the thread is too small for what it allocates"},
		{"mov.u64 x,-1; alloca.u64 x,x;", "the stack of the thread is too small for what it allocates"},
		{"stacksave.u64 x; alloca.u64 m,16000; stackrestore.u64 x; alloca.u64 x,16000;", ""},
		{"mov.u64 x,-2; stackrestore.u64 x; call pass,(a);", "the thread restores an address that its stack does not have"},
		{"mov.u32 d,-2; stackrestore.u32 d;", "the thread restores an address that its stack does not have"},
		{"alloca.u64 x,3; call pass,(a);", ""},
		{"lop3.or.b32 d|_,d,d,d,0x80,p;", ""},
	} {
		fault, err := launch(t, textHeader+`.func pass(.param .b32 a) { .reg .u64 x; .local .u64 l; alloca.u64 x, 16;
			st.local.u64 [l], x; ret; }
			.entry k(.param .u64 out) { .reg .u32 s, d; .reg .u64 m, x; .reg .pred p; .param .b32 a;
			.shared .align 16 .b8 sh[64]; mov.u32 s, sh; ld.param.u64 m, [out]; `+c.body+" ret; }", 1, 1,
			memory{1 << 32: vm.BytesOf(make([]uint64, 8))}, 1<<32)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case fault != nil:
			got = cmp.Or(fault.Reason, fmt.Sprintf("%d %s", fault.Code, fault.Instruction))
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.body, got, c.want)
		}
	}
}
