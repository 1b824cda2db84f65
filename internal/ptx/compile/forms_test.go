package compile

import (
	"slices"
	"testing"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// TestForms executes kernels with less usual forms of declarations, operands and calls. They read the
// words of in, and write those of out.
func TestForms(t *testing.T) {
	const in = 0x1122334455667788
	for _, c := range []struct {
		name, functions, body string
		want                  []uint64
	}{
		{"one register as a vector", "", `@p st.global.b32 [ o + 0 ], { r0 }; @p ld.global.b64 { d0 }, [ i + 0 ];
			st.global.b64 [o+8], {d0};`,
			[]uint64{7, in}},
		{"elements of vectors", "", `.reg .v4 .b32 v; .reg .v2 .b32 u<3>; mov.b32 v.x, r0; add.u32 v.y, v.x, 1;
			mov.b32 v.b, 3; mov.b32 v.w, v.g;
			mov.v2.b32 u1, {v.w, v.z}; mov.v2.b32 {u1.y, u1.x}, u1; mov.b64 d0, u1; st.global.b64 [o], d0;
			st.global.v4.b32 [o+16], v;
			mov.v4.b32 {v.x, v.y, v.z, v.w}, {v.w, v.z, v.y, v.x}; st.global.v4.b32 [o+32], v;
			ld.global.v2.u32 u2, [i]; st.global.b32 [o+8], u2.r; st.global.b32 [o+12], u2.y;`,
			[]uint64{8<<32 | 3, in, 8<<32 | 7, 8<<32 | 3, 3<<32 | 8, 7<<32 | 8}},
		{"vectors and predicates of functions",
			`.func (.reg .v2 .b32 y, .reg .pred odd) swap(.reg .v2 .b32 x, .reg .pred go) { .reg .b32 a;
				mov.v2.b32 y, {x.y, x.x}; @!go mov.b32 y.x, 0; and.b32 a, x.x, 1; setp.ne.u32 odd, a, 0; ret; }`,
			`.reg .v2 .b32 v; .reg .pred q; ld.global.v2.b32 v, [i]; call (v, q), swap, (v, p);
			st.global.v2.b32 [o], v; selp.u32 r1, 1, 2, q;
			st.global.u32 [o+8], r1; call (v, _), swap, (v, 0); st.global.v2.b32 [o+16], v;`,
			[]uint64{0x5566778811223344, 2, 0x1122334400000000}},
		{"a predicate of a function that calls itself",
			`.func (.reg .pred e) even(.reg .u32 n, .reg .pred last) { .reg .u32 m; .reg .pred q; setp.eq.u32 q,
			n, 0; mov.pred e, last;
				@q ret; sub.u32 m, n, 1; call (e), even, (m, last); not.pred e, e; ret; }`,
			`.reg .pred q; call (q), even, (4, p); selp.u32 r1, 1, 0, q; st.global.u32 [o], r1; call (q), even,
			(r0, p); selp.u32 r1, 1, 0, q;
			st.global.u32 [o+4], r1;`, []uint64{1}},
		{"the address of a parameter of a function",
			`.func (.param .b64 y) sum(.param .align 8 .b8 x[16]) { .reg .b64 a, b, c; mov.b64 a, x;
			ld.param.b64 b, [a]; add.u64 a, a, 8; ld.param.b64 c, [a];
				add.u64 b, b, c; mov.b64 c, y; st.param.b64 [c], b; ret; }`,
			`.param .align 8 .b8 x[16]; .param .b64 y; st.param.b64 [x], d0; st.param.b64 [x+8], 5; call (y),
			sum, (x); ld.param.b64 d1, [y];
			st.global.b64 [o], d1;`, []uint64{in + 5}},
		{"variables without their state space", "",
			`.local .b64 l; .shared .b64 s; st.u64 [l], d0+1; st.b64 [s], d0 + -1; ld.u64 d1, [l]; ld.u64 d2,
			[s]; st.v2.b64 [o], {d1, d2};
			add.u32 r1, r0 + 2, r0+-1; st.u32 [o+16], r1;`, []uint64{in + 1, in - 1, 15}},
		{"modifiers in another order", "",
			`st.global.f32 [o], 0f3F800000; red.add.global.relaxed.gpu.f32 [o], 0f3F800000; ld.global.f32 r0,
			[o]; div.ftz.rn.f32 r0, r0, 0f40800000;
			st.global.f32 [o], r0; st.global.u32 [o+4], 0;`, []uint64{0x3f000000}},
		{"policies about caches", "", `createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 d1, 0.5;
			createpolicy.fractional.L2::evict_first.b64 d2;
			ld.global.L1::evict_last.L2::cache_hint.b64 d3, [i], d1; @p ld.global.nc.L2::cache_hint.v2.b32 {r1,
			r2}, [i], d2;
			st.global.L1::no_allocate.L2::cache_hint.b64 [o], d3, d1; st.global.L2::cache_hint.v2.b32 [o+8], {r1,
			r2}, d2;
			.shared .align 16 .b64 to[2]; cp.async.ca.shared.global.L2::cache_hint.L2::128B [to], [i], 8, d1;
			cp.async.ca.shared.global.L2::cache_hint [to+8], [i], 8, 4, d1; cp.async.wait_all;
			ld.shared.v2.b64 {d1, d2}, [to]; st.global.v2.b64 [o+16], {d1, d2};`,
			[]uint64{in, in, in, in & 0xffffffff}},
		{"words with more than 32 bits", "", `mov.u32 r1, 0x80000000; vadd.s32.u32.u32.sat r2, r1, r1;
			st.u32 [o], r2; vsub.u32.s32.s32 r2, r0, 9;
			st.u32 [o+4], r2; vshr.u32.u32.u32.clamp.add r2, r1, 40, r0; st.u32 [o+8], r2;
			vshr.s32.s32.u32.wrap.min r2, r1, 33, r0; st.u32 [o+12], r2;
			vshl.u32.u32.u32.sat.clamp r2, r0, 30; st.u32 [o+16], r2; vabsdiff.u32.s32.u32.max r2, r1, r0, 3;
			st.u32 [o+20], r2;
			vmin.s32.s32.u32 r2, r1, r1; st.u32 [o+24], r2; vmax.s32.s32.u32.add r2, r1, r1, 1; st.u32 [o+28], r2;`,
			[]uint64{0xfffffffe_7fffffff, 0xc0000000_00000007, 0x80000007_ffffffff, 0x80000001_80000000}},
		{"floats with ten bits behind the point", "", `mov.b32 r0, 0x3f801000; cvt.rna.tf32.f32 r1, r0;
			cvt.rn.tf32.f32 r2, r0;
			cvt.rz.relu.tf32.f32 r3, 0fBF801000; st.v4.b32 [o], {r1, r2, r3, r0}; mov.b32 r0, 0x3f803000;
			cvt.rna.tf32.f32 r1, r0;
			cvt.rn.tf32.f32 r2, r0; st.v2.b32 [o+16], {r1, r2}; mov.b32 r0, 0xffffffff; cvt.rna.tf32.f32 r1, r0;
			mov.b32 r0, 0xff800000; cvt.rna.tf32.f32 r2, r0; st.v2.b32 [o+24], {r1, r2};`,
			[]uint64{0x3f800000_3f802000, 0x3f801000_00000000, 0x3f804000_3f804000, 0xff800000_7fffffff}},
		{"functions of packed floats", "", `mov.b32 r0, 0x44004000; ex2.approx.f16x2 r1, r0; mov.b32 r0, 0x40804000;
			ex2.approx.ftz.bf16x2 r2, r0; mov.b32 r3, 0; tanh.approx.bf16x2 r3, r3; st.v4.b32 [o], {r1, r2, r3, r3};`,
			[]uint64{0x41804080_4c004400, 0}},
		{"fences and advice", "", `fence.proxy.async; fence.proxy.async.shared::cta; fence.proxy.alias;
			fence.mbarrier_init.release.cluster;
			fence.acquire.gpu; fence.release.sys; discard.global.L2 [i], 128;
			applypriority.global.L2::evict_normal [i], 128;
			ld.b64 d0, [i]; st.b64 [o], d0;`, []uint64{in}},
		{"the root of a float of 64 bits", "", `st.global.f64 [o], 0d4010000000000000; ld.global.f64 d0, [o];
			rsqrt.approx.f64 d0, d0; st.global.f64 [o], d0;`,
			[]uint64{0x3fe0000000000000}},
	} {
		words := make([]uint64, len(c.want))
		fault, err := launch(t, textHeader+c.functions+`.entry k(.param .u64 in, .param .u64 out) {
			.reg .b32 r<4>; .reg .b64 d<4>, i, o; .reg .pred p;
			ld.param.u64 i, [in]; ld.param.u64 o, [out]; ld.global.b64 d0, [i]; mov.u32 r0, 7; setp.eq.u32 p, r0, 7;
			`+c.body+" ret; }", 1, 1, memory{1 << 32: vm.BytesOf([]uint64{in}),
			1 << 40: vm.BytesOf(words)}, 1<<32, 1<<40)
		if err != nil || fault != nil || !slices.Equal(words, c.want) {
			t.Errorf("%s: got %x, want %x (%v, %+v)", c.name, words, c.want, err, fault)
		}
	}
}

// TestTransposedMatrix executes movmatrix.
func TestTransposedMatrix(t *testing.T) {
	words := make([]uint64, 16)
	fault, err := launch(t, textHeader+`.entry k(.param .u64 out) { .reg .b32 r<4>; .reg .b64 o, x;
			ld.param.u64 o, [out];
		mov.u32 r0, %tid.x; mul.wide.u32 x, r0, 4; add.u64 o, o, x; shl.b32 r1, r0, 1; mad.lo.u32 r1, r1,
			0x10001, 0x10000;
		movmatrix.sync.aligned.m8n8.trans.b16 r1, r1; st.global.b32 [o], r1; ret;
			}`, 1, 32, memory{1 << 32: vm.BytesOf(words)}, 1<<32)
	for i := range 64 {
		row, column := i/8, i%8
		if got := words[i/4] >> (i % 4 * 16) & 0xffff; got != uint64(8*column+row) {
			t.Errorf("row %d, column %d: got %d (%v, %v)", row, column, got, err, fault)
		}
	}
}

// TestVoteWithoutSync executes the votes and exchanges that PTX has for targets before sm_70.
func TestVoteWithoutSync(t *testing.T) {
	const body = `.entry k(.param .u64 out) { .reg .b32 r<4>; .reg .b64 o, x; .reg .pred p, q; ld.param.u64 o,
			[out]; mov.u32 r0, %tid.x;
		mul.wide.u32 x, r0, 8; add.u64 o, o, x; setp.lt.u32 p, r0, 4; vote.ballot.b32 r1, p; vote.any.pred q, p;
		@q shfl.down.b32 r2|p, r0, 1, 31; st.global.v2.b32 [o], {r1, r2}; ret; }`
	words := make([]uint64, 32)
	fault, err := launch(t, ".version 6.3 .target sm_60 .address_size 64 "+body, 1, 32,
		memory{1 << 32: vm.BytesOf(words)}, 1<<32)
	for i, got := range words {
		if want := uint64(min(i+1, 31))<<32 | 0xf; got != want {
			t.Errorf("thread %d: got %x, want %x (%v, %v)", i, got, want, err, fault)
		}
	}
	if _, err := launch(t, textHeader+body, 1, 32, nil, 1<<32); err == nil {
		t.Error("they are not rejected for a newer target")
	}
}

// TestOperandForms executes forms of instructions that NVIDIA's own compilers do not write, but others do. Each
// leaves its result in d1.
func TestOperandForms(t *testing.T) {
	for _, c := range []struct {
		text string
		want uint64
	}{
		{"mov.u64 d0,s; mov.u64 d1,s[0]; sub.u64 d1,d1,d0;", 0},
		{"mov.u64 d0,s; mov.u64 d1,s[5]; sub.u64 d1,d1,d0;", 5},
		{".shared .align 16 .b8 a[16];" +
			"mov.u64 d0,a[0]; st.shared.u32 [d0+4],7; ld.shared.u32 r0,[a+4]; cvt.u64.u32 d1,r0;", 7},
		{".shared .align 8 .u32 a<3>;" +
			"st.shared.u32 [a0],5; st.shared.u32 [a2],7; st.shared.u32 [a1],1; " +
			"ld.shared.u32 r0,[a2]; cvt.u64.u32 d1,r0;", 7},
		{".reg .v2 .u32 v; mov.v2.u32 v,{3,4}; mov.u32 v.y,5; st.shared.v2.u32 [s+8],v; " +
			"ld.shared.u64 d1,[s+8];", 5<<32 | 3},
		{".reg .v4 .u32 v; mov.u32 r0,6; mov.v4.u32 v,{r0,7,8,9}; " +
			"mov.v4.u32 v,{v.w,v.g,v.x,v.y}; mov.b64 d1,{v.z,v.r};",
			9<<32 | 6},
		{".reg .v2 .b32 v<2>, w;" +
			"mov.b64 v1,0x700000009; { .reg .v2 .b32 w; mov.v2.b32 w,{1,1}; } mov.v2.b32 w,v1; mov.b64 d1,w;",
			7<<32 | 9},
		{".reg .v2 .u64 v; mov.v2.u64 v,{3,4}; st.shared.v2.u64 [s],v; ld.shared.v2.u64 v,[s]; add.u64 d1,v.x,v.y;", 7},
		// The name of a range of registers is free for others.
		{".reg .u64 e<3>; .reg .u64 e; .local .u32 f; .reg .u32 f<2>; mov.u64 e,5; mov.u64 e2,9; mov.u32 f1,1; " +
			"st.local.u32 [f],f1; ld.local.u32 f0,[f]; cvt.u64.u32 e1,f0; add.u64 d1,e,e2; add.u64 d1,d1,e1;", 15},
		{"vsub.u32.u32.u32.add r0,3,5,9; cvt.u64.u32 d1,r0;", 7},
		{"vsub.u32.u32.s32 r0,3,-5; vsub.u32.u32.u32.sat r1,3,5; add.u32 r0,r0,r1; cvt.u64.u32 d1,r0;", 8},
		{"vabsdiff.u32.s32.s32 r0,-3,5; vabsdiff.s32.u32.s32.sat.add r1,-1,-1,2; " +
			"mov.b64 d1,{r0,r1};", 0x80000001<<32 | 8},
		{"vmin.s32.s32.u32 r0,-1,7; vmax.s32.u32.s32.add r1,7,-1,1; mov.b64 d1,{r0,r1};", 8<<32 | 0xffffffff},
		// A variable says where it is.
		{"st.shared.u32 [s],3; atom.add.u32 r0,[s],4; red.add.u32 [s],5; ld.shared.u32 r1,[s]; mov.b64 d1,{r0,r1};",
			12<<32 | 3},
		{".local .u32 a[16]; mov.u64 d0,a[0]; st.local.u32 [d0],9; ld.local.u32 r0,[a]; cvt.u64.u32 d1,r0;", 9},
	} {
		out := []uint64{0xeeee}
		fault, err := launch(t, declared+c.text+"ld.param.u64 d0,[out]; st.global.b64 [d0],d1; ret; }", 1, 1,
			memory{1 << 40: vm.BytesOf(out)}, 0, 1<<40)
		if err != nil || fault != nil || !slices.Equal(out, []uint64{c.want}) {
			t.Errorf("%s: got %#x, want %#x (%v, %v)", c.text, out[0], c.want, err, fault)
		}
	}
}

// TestUnrounded executes mad without a rounding mode, which versions of PTX before 3.2 allow.
func TestUnrounded(t *testing.T) {
	for version, accepted := range map[string]bool{"1.4": true, "3.1": true, "3.2": false, "8.0": false} {
		for _, op := range []string{"mad.f32", "mad.ftz.sat.f32"} {
			out := []uint64{0}
			fault, err := launch(t, ".version "+version+" .target sm_20 .address_size 64 .entry k(.param .u64 out) {"+
				".reg .f32 f; .reg .u64 o; mov.f32 f,0f3E800000; "+op+" f,f,f,f; "+
				"ld.param.u64 o,[out]; st.global.f32 [o],f; ret; }",
				1, 1, memory{1 << 40: vm.BytesOf(out)}, 1<<40)
			if (err == nil) != accepted || fault != nil || accepted && out[0] != 0x3ea00000 {
				t.Errorf("%s of version %s: got %#x (%v, %v)", op, version, out[0], err, fault)
			}
		}
	}
}
