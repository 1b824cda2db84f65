package compile

import (
	"slices"
	"testing"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// declared has the registers of the tests in this file.
const declared = textHeader + `.const .align 4 .b32 c; .visible .entry k(.param .u64 in, .param .u64 out) {
	.reg .b16 h<4>; .reg .b32 r<4>; .reg .b64 d<4>; .reg .pred p, q; .shared .align 16 .b8 s[64]; .local .align 16 .b8 l[64]; `

// TestRejected compiles instructions that the compiler of NVIDIA's driver 580 rejects, each beside one
// that it accepts. Random programs have found most of them.
func TestRejected(t *testing.T) {
	for _, c := range []struct{ rejected, accepted string }{
		{"elect.sync r0,-1;", "elect.sync r0|p,-1;"},
		{"mov.f16 h0,h1;", "mov.b16 h0,h1;"},
		{"mov.bf16 h0,h1;", "mov.b16 h0,h1;"},
		{"selp.f16 h0,h1,h2,p;", "selp.b16 h0,h1,h2,p;"},
		{"mma.sync.m8n8k4.row.col.f64.f64.f64.f64 {d0,d1},{d2},{d3},{d0,d1};",
			"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {d0,d1},{d2},{d3},{d0,d1};"},
		{"mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f32 {r0,r1},{r2,r3},{r0},{r0,r1,r2,r3};",
			"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {r0,r1,r2,r3},{r2,r3},{r0},{r0,r1,r2,r3};"},
		{"ldmatrix.sync.m8n8.x1.shared.b16 {r0},[s];", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0},[s];"},
		{"vadd2.u32.u32.u32 r0,r1,7,r2;", "vadd2.u32.u32.u32 r0,r1,r3,r2;"},
		{"add.u16x2 r0,r1,7;", "add.u16x2 r0,r1,r2;"},
		{"atom.global.add.s64 d0,[d1],d2;", "atom.global.add.u64 d0,[d1],d2;"},
		{"red.acquire.gpu.global.add.noftz.f16 [d1],h0;", "red.release.gpu.global.add.noftz.f16 [d1],h0;"},
		{"set.eq.f32.f16 r0,h0,h1;", "set.eq.u32.f16 r0,h0,h1;"},
		{"set.eq.f16.bf16 h2,h0,h1;", "set.eq.bf16.f16 h2,h0,h1;"},
		{"set.lt.ftz.u32.f64 r0,d0,d1;", "set.lt.ftz.u32.f32 r0,r1,r2;"},
		{"setp.lt.ftz.bf16 p,h0,h1;", "setp.lt.ftz.f16 p,h0,h1;"},
		{"setp.lt.f16 p|q,h0,h1;", "setp.lt.f32 p|q,r0,r1;"},
		{"cvt.sat.u64.u32 d0,r0;", "cvt.sat.u64.s32 d0,r0;"},
		{"cvt.sat.s16.u8 r0,r1;", "cvt.sat.s8.u8 r0,r1;"},
		{"cvt.rn.bf16.f32 r0,r1;", "cvt.rn.bf16.f32 h0,r1;"},
		{"ld.volatile.local.u32 r0,[l];", "ld.volatile.shared.u32 r0,[s];"},
		{"ld.shared.L1::evict_last.u32 r0,[s];", "ld.global.L1::evict_last.u32 r0,[d0];"},
		{"ld.global.cg.L1::evict_last.u32 r0,[d0];", "ld.global.cg.u32 r0,[d0];"},
		{"ld.local.L2::64B.u32 r0,[l];", "ld.global.L2::64B.u32 r0,[d0];"},
		{"ld.global.nc.lu.u32 r0,[d0];", "ld.global.nc.cg.u32 r0,[d0];"},
		{"st.global.L2::64B.u32 [d0],r0;", "st.global.L1::evict_last.u32 [d0],r0;"},
		{"st.shared.v2.b16 [s],{h0,r0};", "st.shared.v2.b16 [s],{h0,h1};"},
		{"mbarrier.arrive.release.shared.b64 d0,[s];", "mbarrier.arrive.release.cta.shared.b64 d0,[s];"},
		{"mbarrier.arrive.cta.shared.b64 d0,[s];", "mbarrier.arrive.shared.b64 d0,[s];"},
		{"mbarrier.arrive.noComplete.release.cluster.shared.b64 d0,[s],1;",
			"mbarrier.arrive.noComplete.release.cta.shared.b64 d0,[s],1;"},
		{"bfe.u32 r0,r1,256,3;", "bfe.u32 r0,r1,255,3;"},
		{"bfi.b64 d0,d1,d2,3,0xffffffff;", "bfi.b64 d0,d1,d2,3,9;"},
		{"bar.sync 16;", "bar.sync 15;"},
		{"bar.sync 1,40;", "bar.sync 1,64;"},
		{"mbarrier.arrive.noComplete.relaxed.cta.shared.b64 d0,[s],1;",
			"mbarrier.arrive.noComplete.release.cta.shared.b64 d0,[s],1;"},
		{"add.u32 r0,%tid.x,1;", "mov.u32 r0,%tid.x;"},
		{"mov.u64 d0,%tid.x;", "cvt.u64.u32 d0,%tid.x;"},
		{"mov.f32 r0,%tid.x;", "mov.b32 r0,%tid.x;"},
		{"cvt.rn.f32.u32 r0,%tid.x;", "cvt.u16.u32 h0,%tid.x;"},
		{"cvt.f32.bf16 r0,r1;", "cvt.f32.f16 r0,r1;"},
		{"cvt.f32.bf16 d0,h0;", "cvt.f32.bf16 r0,h0;"},
		{"cvt.rn.bf16.s16 h0,r1;", "cvt.rn.bf16.s16 h0,h1;"},
		{"cvt.rzi.s8.bf16 h0,h1;", "cvt.rzi.s16.bf16 h0,h1;"},
		{"ld.weak.global.nc.L2::cache_hint.u32 r0,[d0],d1;", "ld.global.nc.L2::cache_hint.u32 r0,[d0],d1;"},
		{"ld.nc.L2::cache_hint.u32 r0,[d0],d1;", "ld.L2::cache_hint.u32 r0,[d0],d1;"},
		{"membar.proxy.async;", "membar.proxy.alias;"},
		{"mov.s32 {h0,h1},r0;", "mov.b32 {h0,h1},r0;"},
		{"mov.f32 r0,{h0,h1};", "mov.b32 r0,{h0,h1};"},
		{"mov.f32 r0,%clock;", "mov.u32 r0,%clock;"},
		{"mov.f64 d0,%globaltimer;", "mov.u64 d0,%globaltimer;"},
		{"mov.f64 d0,s;", "mov.b64 d0,s;"},
		{"vmad.s32.s32.s32 r0,r1,0f3F800000,r2;", "vmad.s32.s32.s32 r0,r1,r2,r2;"},
		{"vset.s32.s32.lt r0,0f3F800000,r2;", "vset.s32.s32.lt r0,r1,r2;"},
		{"movmatrix.sync.aligned.m8n8.trans.b16 r0,-1;", "movmatrix.sync.aligned.m8n8.trans.b16 r0,r1;"},
		{"cvt.rn.f16x2.e4m3x2 r0,1;", "cvt.rn.f16x2.e4m3x2 r0,h0;"},
		{"fma.rn.f16 h0,h1,h2,1;", "fma.rn.f16 h0,h1,h2,h3;"},
		{"add.u32 r0,r1,0f3F800000;", "mov.b32 r0,0f3F800000;"},
		{"selp.u32 r0,1,0,3.5;", "selp.u32 r0,1,0,1;"},
		{"cvt.rn.satfinite.bf16.f32 h0,d1;", "cvt.rn.satfinite.bf16.f32 h0,r1;"},
		{"cvt.rn.bf16.f16 h0,r1;", "cvt.rn.bf16.f16 h0,h1;"},
		{"cvt.rn.f16.bf16 d0,h1;", "cvt.rn.f16.bf16 h0,h1;"},
		{"shr.b64 d0,d1,0f3F800000;", "shr.b64 d0,d1,1;"},
		{"bmsk.clamp.b32 r0,r1,0f3F800000;", "bmsk.clamp.b32 r0,r1,3;"},
		{"bmsk.wrap.b32 r0,0f3F800000,r1;", "bmsk.wrap.b32 r0,r2,r1;"},
		{".reg .v4 .f16 v; mov.v4.u16 v,{h0,h1,h2,h3};", ".reg .v4 .u16 v; mov.v4.u16 v,{h0,h1,h2,h3};"},
		{"lop3.b32 r0,r1,r2,r3,0f3F800000;", "lop3.b32 r0,r1,0f3F800000,r3,1;"},
		{"ld.global.L2::cache_hint.u32 r0,[d0],0d3FF0000000000000;", "ld.global.L2::cache_hint.u32 r0,[d0],1;"},
		{"setp.le.xor.bf16 p,h0,h1,1;", "setp.le.xor.f16 p,h0,h1,1;"},
		{"setp.leu.xor.bf16x2 p|q,r0,r1,!1;", "setp.leu.xor.f16x2 p|q,r0,r1,!1;"},
		{"stackrestore.u64 1;", "stackrestore.u64 d0;"},
		{"discard.L2 [d0],8;", "discard.L2 [d0],128;"},
		{"setmaxnreg.dec.sync.aligned.u32 16;", "setmaxnreg.dec.sync.aligned.u32 24;"},
		{"setmaxnreg.inc.sync.aligned.u32 264;", "setmaxnreg.inc.sync.aligned.u32 256;"},
		{"setmaxnreg.inc.sync.aligned.u32 28;", "setmaxnreg.inc.sync.aligned.u32 32;"},
		{"setmaxnreg.inc.sync.aligned.u32 40.0;", "setmaxnreg.inc.sync.aligned.u32 0x28;"},
		{"ld.u64 d0,[in];", "ld.param.u64 d0,[in];"},
		{"ld.volatile.u64 d0,[in];", "ld.param::entry.u64 d0,[in];"},
		{".param .b32 a; st.b32 [a],r0;", ".param .b32 a; st.param.b32 [a],r0;"},
		{".param .b32 a; ld.b32 r0,[a];", ".param .b32 a; ld.param::func.b32 r0,[a];"},
		{"ld.u32 r0,[c];", "ld.const.u32 r0,[c];"},
		{"ld.relaxed.gpu.u32 r0,[c];", "ld.u32 r0,[s];"},
		{"atom.add.u32 r0,[in],1;", "atom.add.u32 r0,[s],1;"},
		{"red.add.u32 [c],1;", "red.add.u32 [s],1;"},
		{".reg .bf16 x;", ".reg .f16 x;"},
		{".reg .bf16x2 x;", ".reg .f16x2 x;"},
		{".reg .tf32 x;", ".reg .f32 x;"},
		{"fence.proxy.tensormap::generic.acquire.gpu [d0],64;", "fence.proxy.tensormap::generic.acquire.gpu [d0],128;"},
		{"wgmma.wait_group.sync.aligned -1;", "wgmma.wait_group.sync.aligned 8;"},
		{"cp.async.bulk.prefetch.tensor.1d.L2.global [d0,r0];",
			"cp.async.bulk.prefetch.tensor.1d.L2.global [d0,{r0}];"},
		{".reg .v4 .b32 v; cp.async.bulk.prefetch.tensor.2d.L2.global [d0,v];",
			".reg .v2 .b32 v; cp.async.bulk.prefetch.tensor.2d.L2.global [d0,v];"},
		{".reg .b128 w<2>; mov.b128 w0,!w1;", ".reg .b128 w<2>; mov.b128 w0,w1;"},
	} {
		for text, want := range map[string]bool{c.rejected: false, c.accepted: true} {
			m, err := Parse(declared + text + " ret; }")
			if err == nil {
				_, err = m.Kernel("k")
			}
			if (err == nil) != want {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// TestFoundByRandomPrograms executes instructions for which random programs have shown that a GPU has
// other results: with .ftz a number counts as subnormal before it is rounded, and a conversion to 16
// bits does not replace subnormal operands.
func TestFoundByRandomPrograms(t *testing.T) {
	for _, c := range []struct {
		text       string
		a, b, want uint64
	}{
		{"mul.rn.ftz.f32 r0,r1,r2;", 0x00800000, 0x3f7fffff, 0},
		{"mul.rn.ftz.f32 r0,r1,r2;", 0xbf7fffff, 0x00800000, 0x80000000},
		{"mul.rp.ftz.f32 r0,r1,r2;", 0xbf7fffff, 0x80800000, 0},
		{"mul.rn.f32 r0,r1,r2;", 0x00800000, 0x3f7fffff, 0x00800000},
		{"rcp.rp.ftz.f32 r0,r1;", 0x7e800001, 0, 0},
		{"fma.rn.ftz.sat.f32 r0,r1,r2,0f00000000;", 0x3f7fffff, 0x00800000, 0},
		{"mul.rn.ftz.f16x2 r0,r1,r2;", 0xbf10bbff, 0x42008400, 0xc54c0000},
		{"mul.rn.f16x2 r0,r1,r2;", 0xbf10bbff, 0x42008400, 0xc54c0400},
		{"cvt.rp.ftz.f16.f32 h0,r1; mov.b32 r0,{h0,h0}; and.b32 r0,r0,0xffff;", 1, 0, 1},
		{"cvt.rm.ftz.f16.f32 h0,r1; mov.b32 r0,{h0,h0}; and.b32 r0,r0,0xffff;", 0x80003b9d, 0, 0x8001},
		{"div.approx.ftz.f32 r0,r1,r2;", 0x01ffffff, 0xc1000000, 0x80000000},
	} {
		in, out := []uint64{c.a, c.b}, []uint64{0}
		fault, err := launch(t, declared+`ld.param.u64 d0,[in]; ld.global.b32 r1,[d0]; ld.global.b32 r2,[d0+8];
			`+c.text+" ld.param.u64 d1,[out]; st.global.b32 [d1],r0; ret; }", 1, 1,
			memory{1 << 32: vm.BytesOf(in), 1 << 40: vm.BytesOf(out)}, 1<<32, 1<<40)
		if err != nil || fault != nil || !slices.Equal(out, []uint64{c.want}) {
			t.Errorf("%s of %x and %x: got %x, want %x (%v, %v)", c.text, c.a, c.b, out[0], c.want, err, fault)
		}
	}
}
