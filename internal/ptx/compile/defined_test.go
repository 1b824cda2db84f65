package compile

import (
	"fmt"
	"math"
	"testing"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// TestDefined executes instructions whose results the manual defines. A body has the lane in t, words of
// random bits in a and b, and gives its result in d. s is the address of 1 KB of shared memory, m that of
// 1 KB of memory whose words are their indices.
func TestDefined(t *testing.T) {
	pairs := func(a, b uint32, size int, signed bool, f func(x, y int64) int64) (list []int64) {
		for i := 0; i < 32; i += size {
			x, y := int64(a>>i&(1<<size-1)), int64(b>>i&(1<<size-1))
			if signed {
				x, y = int64(int32(a<<(32-size-i))>>(32-size)), int64(int32(b<<(32-size-i))>>(32-size))
			}
			list = append(list, f(x, y))
		}
		return list
	}
	pack := func(list []int64) (d uint32) {
		size := 32 / len(list)
		for i, v := range list {
			d |= uint32(v) & (1<<size - 1) << (i * size)
		}
		return d
	}
	clamp := func(size int) func(v int64) int64 {
		return func(v int64) int64 { return min(max(v, -1<<(size-1)), 1<<(size-1)-1) }
	}
	add := func(x, y int64) int64 { return x + y }
	for _, c := range []struct {
		body string
		want func(t, a, b uint32) uint32
	}{
		{"min.s16x2 d, a, b;", func(_, a, b uint32) uint32 {
			return pack(pairs(a, b, 16, true, func(x, y int64) int64 { return min(x, y) }))
		}},
		{"max.relu.s16x2 d, a, b;", func(_, a, b uint32) uint32 {
			return pack(pairs(a, b, 16, true, func(x, y int64) int64 { return max(x, y, 0) }))
		}},
		{"max.u16x2 d, a, b;", func(_, a, b uint32) uint32 {
			return pack(pairs(a, b, 16, false, func(x, y int64) int64 { return max(x, y) }))
		}},
		{"min.relu.s32 d, a, b;", func(_, a, b uint32) uint32 { return uint32(max(min(int32(a), int32(b)), 0)) }},
		{"vadd4.s32.s32.s32.sat d, a, b, t;", func(_, a, b uint32) uint32 {
			return pack(pairs(a, b, 8, true, func(x, y int64) int64 { return clamp(8)(x + y) }))
		}},
		{"vadd2.u32.u32.u32 d, a, b, t;", func(_, a, b uint32) uint32 { return pack(pairs(a, b, 16, false, add)) }},
		{"vsub2.u32.u32.u32.sat d, a, b, t;", func(_, a, b uint32) uint32 {
			return pack(pairs(a, b, 16, false, func(x, y int64) int64 { return max(x-y, 0) }))
		}},
		{"vsub4.s32.s32.s32 d, a, b, t;", func(_, a, b uint32) uint32 {
			return pack(pairs(a, b, 8, true, func(x, y int64) int64 { return x - y }))
		}},
		{"vabsdiff2.u32.u32.u32.add d, a, b, t;", func(t, a, b uint32) uint32 {
			for _, v := range pairs(a, b, 16, false, func(x, y int64) int64 { return max(x-y, y-x) }) {
				t += uint32(v)
			}
			return t
		}},
		{"vabsdiff4.s32.s32.s32.add d, a, b, t;", func(t, a, b uint32) uint32 {
			for _, v := range pairs(a, b, 8, true, func(x, y int64) int64 { return max(x-y, y-x) }) {
				t += uint32(v)
			}
			return t
		}},
		{"vmin4.u32.u32.u32 d, a, b, t;", func(_, a, b uint32) uint32 {
			return pack(pairs(a, b, 8, false, func(x, y int64) int64 { return min(x, y) }))
		}},
		{"vmin2.s32.s32.s32 d, a, b, t;", func(_, a, b uint32) uint32 {
			return pack(pairs(a, b, 16, true, func(x, y int64) int64 { return min(x, y) }))
		}},
		{"vmax4.s32.s32.s32 d, a, b, t;", func(_, a, b uint32) uint32 {
			return pack(pairs(a, b, 8, true, func(x, y int64) int64 { return max(x, y) }))
		}},
		{"vmax2.u32.u32.u32 d, a, b, t;", func(_, a, b uint32) uint32 {
			return pack(pairs(a, b, 16, false, func(x, y int64) int64 { return max(x, y) }))
		}},
		// Copies: some bytes, and zeros behind them.
		{"mul.lo.u32 e, t, 16; add.u32 e, e, s; mul.wide.u32 x, t, 16; add.u64 x, x, m; cp.async.cg.shared.global [e], [x], 16; " +
			"cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 d, [e+8];", func(t, _, _ uint32) uint32 { return 4*t + 2 }},
		{"mul.lo.u32 e, t, 8; add.u32 e, e, s; mul.wide.u32 x, t, 8; add.u64 x, x, m; and.b32 d, t, 7; " +
			"cp.async.ca.shared.global.L2::128B [e], [x+8], 8, d; cp.async.wait_all; ld.shared.v2.u32 {d, e}, [e]; " +
			"mad.lo.u32 d, e, 1000, d;", func(t, _, _ uint32) uint32 {
			first, second := 2*t+2, 2*t+3
			switch n := t & 7; {
			case n < 4:
				first &= 1<<(8*n) - 1
				second = 0
			default:
				second &= 1<<(8*(n-4)) - 1
			}
			return second*1000 + first
		}},
		// Matrices of 8 by 8: row r of matrix i is at the address that lane 8i+r has.
		{"mul.lo.u32 e, t, 16; add.u32 e, e, s; st.shared.v4.u32 [e], {t, t, t, t}; mul.lo.u32 d, t, 4; st.shared.u32 [e+4], d; " +
			"bar.warp.sync -1; xor.b32 e, e, 0x30; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {d, f, g, h}, [e]; mad.lo.u32 d, h, 256, d;",
			func(t, _, _ uint32) uint32 {
				element := func(row uint32) uint32 { // two halves of a row
					row ^= 3
					if t%4 == 1 {
						return row * 4
					}
					return row
				}
				return element(24+t/4)*256 + element(t/4)
			}},
		{"shl.b32 e, t, 4; add.u32 e, e, s; shl.b32 f, t, 8; add.u32 g, f, 0x10000; add.u32 f, f, g; and.b32 f, f, 0xffff; " +
			"shl.b32 f, t, 8; or.b32 g, f, 0x10000; or.b32 g, g, f; shl.b32 h, f, 16; or.b32 f, f, h; or.b32 f, f, 0x10000; " +
			"add.u32 g, f, 0x20002; add.u32 h, f, 0x40004; add.u32 d, f, 0x60006; st.shared.v4.u32 [e], {f, g, h, d}; bar.warp.sync -1; " +
			"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {d, f}, [e]; mad.lo.u32 d, f, 3, d;",
			func(t, _, _ uint32) uint32 { // element (r, c) is 256r+c
				part := func(row uint32) uint32 { return row*256 + t/4 | ((row+1)*256+t/4)<<16 }
				return part(8+t%4*2)*3 + part(t%4*2)
			}},
		{"shl.b32 e, t, 4; add.u32 e, e, s; mul.lo.u32 f, t, 0x20002; add.u32 f, f, 0x10000; add.u32 g, f, 0x1000100; " +
			"stmatrix.sync.aligned.m8n8.x2.shared.b16 [e], {f, g}; bar.warp.sync -1; shl.b32 e, t, 2; add.u32 e, e, s; " +
			"ld.shared.u32 d, [e]; ld.shared.u32 f, [e+128]; mad.lo.u32 d, f, 3, d;", func(t, _, _ uint32) uint32 {
			w := t*0x20002 + 0x10000
			return w + 3*(w+0x1000100)
		}},
		{"shl.b32 e, t, 4; add.u32 e, e, s; mul.lo.u32 f, t, 0x20002; add.u32 f, f, 0x10000; " +
			"stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [e], {f}; bar.warp.sync -1; shl.b32 e, t, 1; add.u32 e, e, s; " +
			"ld.shared.u16 d, [e];", func(t, _, _ uint32) uint32 { // element t of the transposed matrix
			r, c := t/8, t%8
			return c*8 + r
		}},
		{"mov.b32 e, 0x01010101; mov.b32 f, 0x7ffffff8; mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32 {d, g}, {e}, {e}, {f, f};",
			func(_, _, _ uint32) uint32 { return math.MaxInt32 }},
		{"mov.b32 e, 0x01010101; mov.b32 f, 0x7ffffff8; mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {d, g}, {e}, {e}, {f, f};",
			func(_, _, _ uint32) uint32 { return 0x80000008 }},
		// Barriers in memory.
		{"setp.eq.u32 p, t, 0; @p mbarrier.init.shared.b64 [s], 33; bar.warp.sync -1; mbarrier.arrive.shared.b64 x, [s]; bar.warp.sync -1; " +
			"mbarrier.test_wait.shared.b64 q, [s], x; selp.u32 d, 1, 0, q; bar.warp.sync -1; @p mbarrier.arrive.shared::cta.b64 _, [s]; " +
			"bar.warp.sync -1; mbarrier.try_wait.shared.b64 q, [s], x, 100; selp.u32 e, 2, 0, q; add.u32 d, d, e; " +
			"mbarrier.test_wait.parity.shared.b64 q, [s], 0; selp.u32 e, 4, 0, q; add.u32 d, d, e; " +
			"mbarrier.try_wait.parity.shared.b64 q, [s], 1; selp.u32 e, 8, 0, q; add.u32 d, d, e;",
			func(_, _, _ uint32) uint32 { return 6 }},
		{"setp.ne.u32 p, t, 0; mov.u32 d, 24; @p bra end; mbarrier.init.shared.b64 [s], 5; mbarrier.arrive.shared.b64 x, [s], 3; " +
			"mbarrier.arrive_drop.shared.b64 x, [s]; mbarrier.pending_count.b64 d, x; mbarrier.arrive.release.cta.shared.b64 x, [s]; " +
			"mbarrier.arrive.shared.b64 x, [s]; mbarrier.pending_count.b64 e, x; mad.lo.u32 d, d, 10, e; mbarrier.inval.shared.b64 [s]; end:",
			func(_, _, _ uint32) uint32 { return 24 }}, // 2 before the second arrival, and 4 of the next phase
		{"setp.ne.u32 p, t, 0; mov.u32 d, 1; @p bra end; mbarrier.init.shared.b64 [s], 2; mbarrier.arrive.noComplete.shared.b64 x, [s], 1; " +
			"cp.async.mbarrier.arrive.noinc.shared.b64 [s]; mbarrier.test_wait.shared.b64 q, [s], x; selp.u32 d, 1, 0, q; end:",
			func(_, _, _ uint32) uint32 { return 1 }},
		// Atomic operations with the order behind the operation.
		{"atom.add.acq_rel.gpu.u32 d, [m+1024], 1; bar.warp.sync -1; ld.global.u32 d, [m+1024];", func(_, _, _ uint32) uint32 { return 32 }},
		{"atom.max.release.cta.s32 d, [m+1028], t; bar.warp.sync -1; ld.global.u32 d, [m+1028];", func(_, _, _ uint32) uint32 { return 31 }},
		{"shl.b32 e, 1, t; atom.or.relaxed.sys.global.b32 d, [m+1032], e; bar.warp.sync -1; ld.global.u32 d, [m+1032];",
			func(_, _, _ uint32) uint32 { return math.MaxUint32 }},
		{"atom.inc.acquire.gpu.u32 d, [m+1036], 30; bar.warp.sync -1; ld.global.u32 d, [m+1036];", func(_, _, _ uint32) uint32 { return 1 }},
		{"atom.cas.acq_rel.gpu.b32 d, [m+1040], t, 50; atom.exch.acq_rel.gpu.b32 e, [m+1044], t; bar.warp.sync -1; ld.global.u32 d, [m+1040]; " +
			"ld.global.u32 e, [m+1044]; add.u32 d, d, e;", func(_, _, _ uint32) uint32 { return 81 }},
		// Comparisons of halves, and clusters of one block.
		{"mov.b32 e, 0x3c004000; mov.b32 f, 0x3c004200; set.ge.f16x2.f16x2 d, e, f;", func(_, _, _ uint32) uint32 { return 0x3c000000 }},
		{"mov.b32 e, 0x7e004000; set.nan.u32.f16x2 d, e, e;", func(_, _, _ uint32) uint32 { return 0xffff0000 }},
		{"mov.b32 e, 0x3f803f80; mov.b32 f, 0x40003f80; set.lt.bf16x2.bf16x2 d, e, f;", func(_, _, _ uint32) uint32 { return 0x3f800000 }},
		{"{ .reg .b16 h; mov.b16 h, 0x3c00; set.eq.f16.f16 h, h, h; cvt.u32.u16 d, h; }", func(_, _, _ uint32) uint32 { return 0x3c00 }},
		{"mapa.shared::cluster.u32 e, s, 0; st.shared.u32 [s], 7; barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; " +
			"ld.shared::cluster.u32 d, [e]; getctarank.shared::cluster.u32 f, e; add.u32 d, d, f; mov.u32 f, %cluster_nctarank; add.u32 d, d, f;",
			func(_, _, _ uint32) uint32 { return 8 }},
		// There is no block 3, and nothing is at an address of it.
		{"mapa.shared::cluster.u32 e, s, 3; getctarank.shared::cluster.u32 d, e; griddepcontrol.wait;", func(_, _, _ uint32) uint32 { return 0xfe }},
		{"mov.f64 y, 0d4010000000000001; rcp.approx.ftz.f64 y, y; mov.b64 {d, e}, y; add.u32 d, d, e;", func(_, _, _ uint32) uint32 { return 0x3fd00000 }},
		{"mov.f64 y, 0d4010000000000001; rsqrt.approx.ftz.f64 y, y; mov.b64 {d, e}, y; add.u32 d, d, e;", func(_, _, _ uint32) uint32 { return 0x3fe00000 }},
	} {
		data := make([]uint64, 64+128+16)
		for i := range 32 {
			data[i] = splitmix(uint64(i))
		}
		words := vm.BytesOf(data)
		for i := range 256 {
			words[512+4*i], words[512+4*i+1] = byte(i), byte(i>>8)
		}
		results := make([]uint64, 16)
		fault, err := launch(t, textHeader+`.entry k(.param .u64 in, .param .u64 out) {
			.reg .b32 t, a, b, d, e, f, g, h, s; .reg .b64 m, o, x; .reg .f64 y; .reg .pred p, q; .shared .align 16 .b8 sh[1024];
			ld.param.u64 m, [in]; ld.param.u64 o, [out]; mov.u32 t, %tid.x; mul.wide.u32 x, t, 8; add.u64 x, m, x;
			ld.global.v2.u32 {a, b}, [x]; add.u64 m, m, 512; mov.u32 s, sh; `+c.body+`
			mul.wide.u32 x, t, 4; add.u64 o, o, x; st.global.u32 [o], d; ret; }`, 1, 32,
			memory{1 << 32: words, 1 << 33: vm.BytesOf(results)}, 1<<32, 1<<33)
		if err != nil || fault != nil {
			t.Errorf("%s: %v %+v", c.body, err, fault)
			continue
		}
		for i := range uint32(32) {
			a, b := uint32(splitmix(uint64(i))), uint32(splitmix(uint64(i))>>32)
			if got, want := uint32(results[i/2]>>(i%2*32)), c.want(i, a, b); got != want {
				t.Errorf("%s: lane %d has %#x, want %#x", c.body, i, got, want)
				break
			}
		}
	}
}

// TestBytes converts between floats of eight bits and others, and compares with a search for the nearest
// number.
func TestBytes(t *testing.T) {
	for _, kind := range []struct {
		name      string
		man, low  int
		last, nan uint32 // the largest number, and the first that is none
	}{{"e4m3x2", 3, -6, 0x7e, 0x7f}, {"e5m2x2", 2, -14, 0x7b, 0x7d}} {
		value := func(b uint32) float64 {
			m, e := float64(b&(1<<kind.man-1)), int(b&0x7f)>>kind.man
			v := math.Ldexp(m, kind.low-kind.man)
			if e > 0 {
				v = math.Ldexp(m+float64(int(1)<<kind.man), kind.low-kind.man+e-1)
			}
			if b&0x80 != 0 {
				v = -v
			}
			return v
		}
		var in []uint64
		for i := range 32 * 16 {
			v := math.Ldexp(float64(i%37)-18.5, i/9-30)
			in = append(in, uint64(math.Float32bits(float32(v)))|uint64(math.Float32bits(float32(-v*1.25)))<<32)
		}
		results := make([]uint64, len(in))
		fault, err := launch(t, textHeader+fmt.Sprintf(`.entry k(.param .u64 in, .param .u64 out) {
			.reg .b32 t, a, b, d; .reg .b64 i, o, x; .reg .b16 h, r;
			ld.param.u64 i, [in]; ld.param.u64 o, [out]; mov.u32 t, %%tid.x; mul.wide.u32 x, t, 8; add.u64 i, i, x; add.u64 o, o, x;
			ld.global.v2.u32 {a, b}, [i]; cvt.rn.satfinite.%[1]s.f32 h, a, b; cvt.rn.satfinite.relu.%[1]s.f32 r, a, b;
			st.global.u16 [o], h; st.global.u16 [o+2], r; cvt.rn.f16x2.%[1]s d, h; st.global.u32 [o+4], d; ret; }`, kind.name), 1, 512,
			memory{1 << 32: vm.BytesOf(in), 1 << 33: vm.BytesOf(results)}, 1<<32, 1<<33)
		if err != nil || fault != nil {
			t.Fatalf("%s: %v %+v", kind.name, err, fault)
		}
		for i, r := range results {
			for half, bits := range []uint32{uint32(in[i] >> 32), uint32(in[i])} {
				v := float64(math.Float32frombits(bits))
				got := uint32(r>>(8*half)) & 0xff
				best, ties := math.Inf(1), uint32(0)
				for b := uint32(0); b <= kind.last; b++ {
					switch d := math.Abs(math.Abs(v) - value(b)); {
					case d < best, d == best && b&1 == 0:
						best, ties = d, b
					}
				}
				want := ties
				if math.Signbit(v) {
					want |= 0x80
				}
				if got != want {
					t.Errorf("%s of %g is %#x, want %#x", kind.name, v, got, want)
				}
				if relu := uint32(r>>(16+8*half)) & 0xff; v > 0 && relu != want || v <= 0 && relu != 0 {
					t.Errorf("%s with relu of %g is %#x", kind.name, v, relu)
				}
				wide := r >> (32 + 16*half)
				if back := decode("f16", []byte{byte(wide), byte(wide >> 8)}); back != value(got) {
					t.Errorf("%s %#x is %g, want %g", kind.name, got, back, value(got))
				}
			}
		}
	}
}
