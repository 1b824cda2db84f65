package compile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// bodyOf is what two warps execute. It leaves a result in r9.
type bodyOf struct {
	body string
	want uint32
}

// manual are instructions of which the PTX manual says the result. They are not among the recorded ones.
var manual = []bodyOf{
	// Without a rounding mode it is .rn. The results are the lower halves of numbers.
	{"mov.b64 d1,0x3ff0000000000000; mov.b64 d2,0x3ca8000000000000; add.f64 d1,d1,d2; mov.b64 {r9,r8},d1;", 1},
	{"mov.b64 d1,0x3ff0000000000000; mov.b64 d2,0x3c80000000000000; sub.f64 d1,d1,d2; mov.b64 {r9,r8},d1;", 0},
	{"mov.b64 d1,0x3ff0000000000001; mov.b64 d2,0x3ff8000000000000; mul.f64 d1,d1,d2; mov.b64 {r9,r8},d1;", 2},
	// Without .cc the condition code stays as it is.
	{"mov.u32 r1,0xffffffff; add.cc.u32 r1,r1,1; addc.u32 r2,0,0; addc.u32 r9,0,0;", 1},
	{"mov.u32 r1,0; mov.u32 r2,5; sub.cc.u32 r1,r1,1; subc.u32 r3,r2,0; subc.u32 r9,r2,0;", 4},
	// The code of a difference is the carry of an addition.
	{"mov.u32 r1,1; sub.cc.u32 r1,r1,2; addc.u32 r9,r1,2;", 1},
	{"mov.u32 r1,2; sub.cc.u32 r1,r1,1; addc.u32 r9,r1,2;", 4},
	{"mov.u32 r1,-1; add.cc.u32 r1,r1,1; subc.u32 r9,5,r1;", 5},
	{"mov.u32 r1,1; add.cc.u32 r1,r1,1; subc.u32 r9,5,r1;", 2},
	// With .ftz subnormal operands and results are zero. Without it those of ex2 are not.
	{"mov.b32 r1,0x00012345; sin.approx.ftz.f32 r9,r1;", 0},
	{"mov.b32 r1,0xc3020000; ex2.approx.ftz.f32 r9,r1;", 0},
	{"mov.b32 r1,0xc3020000; ex2.approx.f32 r9,r1;", 1 << 19},
	// The lower half of the result is zero.
	{"mov.b64 d1,0x4000000000000000; rsqrt.approx.ftz.f64 d1,d1; mov.b64 {r9,r8},d1;", 0},
	// The lanes that read wait for the lane that writes.
	{`.shared .b32 s[2]; .reg .b32 at; shr.u32 at,r0,5; shl.b32 at,at,2; mov.u32 r2,s; add.u32 at,at,r2;
		st.shared.u32 [at],0; mov.u32 r1,%laneid; setp.eq.u32 p,r1,0; bar.sync 0;
		@p bra write; bar.warp.sync -1; ld.shared.u32 r9,[at]; bra end;
		write: st.shared.u32 [at],7; bar.warp.sync -1; mov.u32 r9,7; end:`, 7},
	// Only the upper halves of the lanes' values differ.
	{"mov.u32 r2,0; mov.u32 r1,%laneid; mov.b64 d1,{r2,r1}; match.all.sync.b64 r9|p,d1,-1;", 0},
	// Exact results of approximations.
	{"ex2.approx.f16x2 r9,r9;", 0x3c003c00},
	{".reg .b16 h; mov.b16 h,0; ex2.approx.ftz.bf16 h,h; mov.b32 r9,{h,h};", 0x3f803f80},
	{"ex2.approx.ftz.bf16x2 r9,r9;", 0x3f803f80},
	{"mov.b32 r1,0xfc00fc00; tanh.approx.f16x2 r9,r1;", 0xbc00bc00},
	{".reg .b16 h; mov.b16 h,0xff80; tanh.approx.bf16 h,h; mov.b32 r9,{h,h};", 0xbf80bf80},
	{"mov.b32 r1,0xff80ff80; tanh.approx.bf16x2 r9,r1;", 0xbf80bf80},
	// A tf32 has 10 bits of the fraction.
	{"mov.b32 r1,0x3f801000; cvt.rna.tf32.f32 r9,r1;", 0x3f802000},
	{"mov.b32 r1,0x3f801000; cvt.rn.tf32.f32 r9,r1;", 0x3f800000},
	{"mov.b32 r1,0x3f801001; cvt.rn.tf32.f32 r9,r1;", 0x3f802000},
	{"mov.b32 r1,0x3f801fff; cvt.rz.tf32.f32 r9,r1;", 0x3f800000},
	{"mov.b32 r1,0xbf800000; cvt.rn.tf32.f32 r9,r1;", 0xbf800000},
	{"mov.b32 r1,0xbf800000; cvt.rn.relu.tf32.f32 r9,r1;", 0},
	// All elements of the matrix are the same.
	{"mov.b32 r1,0x12341234; movmatrix.sync.aligned.m8n8.trans.b16 r9,r1;", 0x12341234},
	// Sums of four products, which are rounded at each step.
	{"mov.b64 d1,0x3ff0000000000001; mov.b64 d2,0x3ff8000000000003; mov.b64 d3,0; " +
		"mma.sync.aligned.m8n8k4.row.col.rn.f64.f64.f64.f64 {d3,_},{d1},{d2},{d3,d3}; mov.b64 {r1,_},d3; mov.b64 d3,0; " +
		"neg.f64 d1,d1; mma.sync.aligned.m8n8k4.row.col.rn.f64.f64.f64.f64 {d3,_},{d1},{d2},{d3,d3}; mov.b64 {r2,_},d3; " +
		"shl.b32 r2,r2,16; xor.b32 r9,r1,r2;", 0x50005},
	{"mov.b64 d1,0x3ff0000000000001; mov.b64 d2,0x3ff8000000000003; mov.b64 d3,0; " +
		"mma.sync.aligned.m8n8k4.row.col.rz.f64.f64.f64.f64 {d3,_},{d1},{d2},{d3,d3}; mov.b64 {r1,_},d3; mov.b64 d3,0; " +
		"neg.f64 d1,d1; mma.sync.aligned.m8n8k4.row.col.rz.f64.f64.f64.f64 {d3,_},{d1},{d2},{d3,d3}; mov.b64 {r2,_},d3; " +
		"shl.b32 r2,r2,16; xor.b32 r9,r1,r2;", 0x40004},
	{"mov.b64 d1,0x3ff0000000000001; mov.b64 d2,0x3ff8000000000003; mov.b64 d3,0; " +
		"mma.sync.aligned.m8n8k4.row.col.rm.f64.f64.f64.f64 {d3,_},{d1},{d2},{d3,d3}; mov.b64 {r1,_},d3; mov.b64 d3,0; " +
		"neg.f64 d1,d1; mma.sync.aligned.m8n8k4.row.col.rm.f64.f64.f64.f64 {d3,_},{d1},{d2},{d3,d3}; mov.b64 {r2,_},d3; " +
		"shl.b32 r2,r2,16; xor.b32 r9,r1,r2;", 0x60004},
	{"mov.b64 d1,0x3ff0000000000001; mov.b64 d2,0x3ff8000000000003; mov.b64 d3,0; " +
		"mma.sync.aligned.m8n8k4.row.col.rp.f64.f64.f64.f64 {d3,_},{d1},{d2},{d3,d3}; mov.b64 {r1,_},d3; mov.b64 d3,0; " +
		"neg.f64 d1,d1; mma.sync.aligned.m8n8k4.row.col.rp.f64.f64.f64.f64 {d3,_},{d1},{d2},{d3,d3}; mov.b64 {r2,_},d3; " +
		"shl.b32 r2,r2,16; xor.b32 r9,r1,r2;", 0x40006},
	// A fragment of small elements is a word of memory.
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,4,at; " +
		"st.shared.u32 [at],r1; mul.wide.u32 d1,r1,4; add.u64 d1,d1,d0; st.global.u32 [d1],r1; bar.sync 0; " +
		"wmma.load.a.sync.aligned.row.m8n8k32.s4 {r2},[d0]; " +
		"sub.u32 r9,r2,r1; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,4,at; " +
		"st.shared.u32 [at],r1; mul.wide.u32 d1,r1,4; add.u64 d1,d1,d0; st.global.u32 [d1],r1; bar.sync 0; " +
		"wmma.load.a.sync.aligned.row.m8n8k32.shared.s4 {r2},[s]; " +
		"sub.u32 r9,r2,r1; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,4,at; " +
		"st.shared.u32 [at],r1; mul.wide.u32 d1,r1,4; add.u64 d1,d1,d0; st.global.u32 [d1],r1; bar.sync 0; " +
		"wmma.load.a.sync.aligned.row.m8n8k32.shared::cta.s4 {r2},[s]; " +
		"sub.u32 r9,r2,r1; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,4,at; " +
		"st.shared.u32 [at],r1; mul.wide.u32 d1,r1,4; add.u64 d1,d1,d0; st.global.u32 [d1],r1; bar.sync 0; " +
		"wmma.load.b.sync.aligned.col.m8n8k32.s4 {r2},[d0]; " +
		"sub.u32 r9,r2,r1; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,4,at; " +
		"st.shared.u32 [at],r1; mul.wide.u32 d1,r1,4; add.u64 d1,d1,d0; st.global.u32 [d1],r1; bar.sync 0; " +
		"wmma.load.b.sync.aligned.col.m8n8k32.shared.s4 {r2},[s]; " +
		"sub.u32 r9,r2,r1; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,4,at; " +
		"st.shared.u32 [at],r1; mul.wide.u32 d1,r1,4; add.u64 d1,d1,d0; st.global.u32 [d1],r1; bar.sync 0; " +
		"wmma.load.b.sync.aligned.col.m8n8k32.shared::cta.s4 {r2},[s]; " +
		"sub.u32 r9,r2,r1; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,4,at; " +
		"st.shared.u32 [at],r1; mul.wide.u32 d1,r1,4; add.u64 d1,d1,d0; st.global.u32 [d1],r1; bar.sync 0; " +
		"wmma.load.a.sync.aligned.row.m8n8k128.b1 {r2},[d0]; " +
		"sub.u32 r9,r2,r1; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,4,at; " +
		"st.shared.u32 [at],r1; mul.wide.u32 d1,r1,4; add.u64 d1,d1,d0; st.global.u32 [d1],r1; bar.sync 0; " +
		"wmma.load.a.sync.aligned.row.m8n8k128.shared.b1 {r2},[s]; " +
		"sub.u32 r9,r2,r1; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,4,at; " +
		"st.shared.u32 [at],r1; mul.wide.u32 d1,r1,4; add.u64 d1,d1,d0; st.global.u32 [d1],r1; bar.sync 0; " +
		"wmma.load.a.sync.aligned.row.m8n8k128.shared::cta.b1 {r2},[s]; " +
		"sub.u32 r9,r2,r1; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,4,at; " +
		"st.shared.u32 [at],r1; mul.wide.u32 d1,r1,4; add.u64 d1,d1,d0; st.global.u32 [d1],r1; bar.sync 0; " +
		"wmma.load.b.sync.aligned.col.m8n8k128.b1 {r2},[d0]; " +
		"sub.u32 r9,r2,r1; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,4,at; " +
		"st.shared.u32 [at],r1; mul.wide.u32 d1,r1,4; add.u64 d1,d1,d0; st.global.u32 [d1],r1; bar.sync 0; " +
		"wmma.load.b.sync.aligned.col.m8n8k128.shared.b1 {r2},[s]; " +
		"sub.u32 r9,r2,r1; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,4,at; " +
		"st.shared.u32 [at],r1; mul.wide.u32 d1,r1,4; add.u64 d1,d1,d0; st.global.u32 [d1],r1; bar.sync 0; " +
		"wmma.load.b.sync.aligned.col.m8n8k128.shared::cta.b1 {r2},[s]; " +
		"sub.u32 r9,r2,r1; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,8,at; " +
		"shl.b32 r2,r1,1; add.u32 r3,r2,1; mul.wide.u32 d1,r1,8; add.u64 d1,d1,d0; st.global.v2.u32 [d1],{r2,r3}; bar.sync 0; " +
		"wmma.load.c.sync.aligned.row.m8n8k32.s32 {r4,r5},[d0]; sub.u32 r4,r4,r2; sub.u32 r9,r5,r3; or.b32 r9,r9,r4; " +
		"bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,8,at; " +
		"shl.b32 r2,r1,1; add.u32 r3,r2,1; mul.wide.u32 d1,r1,8; add.u64 d1,d1,d0; " +
		"wmma.store.d.sync.aligned.row.m8n8k128.s32 [d0],{r2,r3}; bar.sync 0; ld.global.v2.u32 {r4,r5},[d1]; " +
		"sub.u32 r4,r4,r2; sub.u32 r9,r5,r3; or.b32 r9,r9,r4; bar.sync 0;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,8,at; " +
		"shl.b32 r2,r1,1; add.u32 r3,r2,1; st.shared.v2.u32 [at],{r2,r3}; bar.sync 0; " +
		"wmma.load.c.sync.aligned.row.m8n8k32.shared.s32 {r4,r5},[s]; sub.u32 r4,r4,r2; sub.u32 r9,r5,r3; or.b32 r9,r9,r4;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,8,at; " +
		"shl.b32 r2,r1,1; add.u32 r3,r2,1; " +
		"wmma.store.d.sync.aligned.row.m8n8k128.shared.s32 [s],{r2,r3}; bar.sync 0; ld.shared.v2.u32 {r4,r5},[at]; " +
		"sub.u32 r4,r4,r2; sub.u32 r9,r5,r3; or.b32 r9,r9,r4;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,8,at; " +
		"shl.b32 r2,r1,1; add.u32 r3,r2,1; st.shared.v2.u32 [at],{r2,r3}; bar.sync 0; " +
		"wmma.load.c.sync.aligned.row.m8n8k32.shared::cta.s32 {r4,r5},[s]; sub.u32 r4,r4,r2; sub.u32 r9,r5,r3; or.b32 r9,r9,r4;", 0},
	{".shared .align 16 .b32 s[64]; .reg .b32 at; mov.u32 r1,%laneid; mov.u32 at,s; mad.lo.u32 at,r1,8,at; " +
		"shl.b32 r2,r1,1; add.u32 r3,r2,1; " +
		"wmma.store.d.sync.aligned.row.m8n8k128.shared::cta.s32 [s],{r2,r3}; bar.sync 0; ld.shared.v2.u32 {r4,r5},[at]; " +
		"sub.u32 r4,r4,r2; sub.u32 r9,r5,r3; or.b32 r9,r9,r4;", 0},
	// About caches.
	{"discard.global.L2 [d0],128; applypriority.global.L2::evict_normal [d0],128; mov.u32 r9,5;", 5},
	{`.shared .b32 s[64]; .reg .b64 at,policy; .reg .b32 to; createpolicy.fractional.L2::evict_first.b64 policy;
		mul.wide.u32 at,r0,4; add.u64 at,at,d0; st.global.u32 [at],7; mov.u32 to,s; shl.b32 r1,r0,2; add.u32 to,to,r1;
		cp.async.ca.shared.global.L2::cache_hint [to],[at],4,policy; cp.async.wait_all; ld.shared.u32 r9,[to];`, 7},
	// Positions and sizes have a fourth element.
	{"mov.u32 r1,%tid.w; mov.u32 r2,%ntid.w; or.b32 r1,r1,r2; mov.u32 r2,%ctaid.w; or.b32 r1,r1,r2; mov.u32 r9,%nctaid.w; " +
		"or.b32 r9,r9,r1; mov.u32 r1,%clusterid.w; or.b32 r9,r9,r1;", 0},
	// A vector is read before one of its elements is written.
	{".reg .v2 .b32 v; mov.v2.b32 v,{3,5}; mov.v2.b32 v,{v.y,v.x}; shl.b32 r9,v.x,4; or.b32 r9,r9,v.y;", 0x53},
	// The time is that of the launch, or later.
	{"mov.u32 r1,%clock; mov.u32 r1,%clock; mov.u32 r1,%clock; set.gt.u32.u32 r9,r1,0;", 0xffffffff},
	{"mov.u64 d1,%clock64; mov.u64 d1,%clock64; mov.u64 d1,%clock64; set.gt.u32.u64 r9,d1,0;", 0xffffffff},
	{"mov.u64 d1,%globaltimer; set.gt.u32.u64 r9,d1,0;", 0xffffffff},
	{"mov.u32 r1,%globaltimer_lo; set.gt.u32.u32 r9,r1,0;", 0xffffffff},
	{"mov.u32 r1,%globaltimer_hi; set.gt.u32.u32 r9,r1,0;", 0xffffffff},
}

// manualBefore70 is manual, for targets before sm_70: votes and exchanges do not name the lanes.
var manualBefore70 = []bodyOf{
	{"mov.u32 r1,%laneid; and.b32 r2,r1,1; setp.eq.u32 p,r2,0; vote.ballot.b32 r9,p;", 0x55555555},
	{"mov.u32 r1,%laneid; and.b32 r2,r1,1; setp.eq.u32 p,r2,1; vote.ballot.b32 r9,p;", 0xaaaaaaaa},
	{"mov.u32 r1,%laneid; setp.eq.u32 p,r1,3; vote.any.pred q,p; selp.u32 r9,5,6,q;", 5},
	{"vote.any.pred q,p; selp.u32 r9,5,6,q;", 6},
	{"mov.u32 r1,%laneid; setp.ne.u32 p,r1,3; vote.all.pred q,p; selp.u32 r9,5,6,q;", 6},
	{"setp.eq.u32 p,r0,r0; vote.all.pred q,p; selp.u32 r9,5,6,q;", 5},
	{"mov.u32 r1,%laneid; setp.eq.u32 p,r1,3; vote.uni.pred q,p; selp.u32 r9,5,6,q;", 6},
	{"vote.uni.pred q,p; selp.u32 r9,5,6,q;", 5},
	{"mov.u32 r1,%laneid; shfl.idx.b32 r9,r1,5,31;", 5},
	{"mov.u32 r1,%laneid; shfl.bfly.b32 r2,r1,6,31; xor.b32 r9,r2,r1;", 6},
	{"mov.u32 r1,%laneid; shfl.up.b32 r2|p,r1,1,0; vote.ballot.b32 r9,p;", 0xfffffffe},
	// The first lane and the last one have no other, and get their own value.
	{"mov.u32 r1,%laneid; shfl.up.b32 r2|p,r1,1,0; sub.u32 r2,r1,r2; selp.u32 r3,0,1,p; add.u32 r9,r2,r3;", 1},
	{"mov.u32 r1,%laneid; shfl.down.b32 r2|p,r1,1,31; sub.u32 r2,r2,r1; selp.u32 r3,0,1,p; add.u32 r9,r2,r3;", 1},
}

// manualExamples returns what the manual says as examples.
func manualExamples() []*example {
	return append(bodies(manual, false), bodies(manualBefore70, true)...)
}

// bodies returns bodies as examples, perhaps for a target before sm_70.
func bodies(all []bodyOf, before70 bool) (list []*example) {
	for _, m := range all {
		text := warpText(m.body)
		if before70 {
			text = strings.Replace(text, textHeader, ".version 6.3 .target sm_60 .address_size 64\n", 1)
		}
		list = append(list, &example{name: m.body, text: text, grid: 1, block: 64,
			params: []uint64{1 << 32}, prepare: func() (memory, func(*vm.Fault) string) {
				data := make([]uint64, 32)
				return memory{1 << 32: vm.BytesOf(data)}, func(fault *vm.Fault) string {
					if fault != nil {
						return fmt.Sprintf("%+v", fault)
					}
					for i := range 64 {
						if got := uint32(data[i/2] >> (i % 2 * 32)); got != m.want {
							return fmt.Sprintf("thread %d has %#x, want %#x", i, got, m.want)
						}
					}
					return ""
				}
			}})
	}
	return list
}

// videoExamples returns the instructions about words with a second operation, with special values. The results are
// computed as the manual describes it, or, where recordedVideo shows others, as an H200 computes them.
func videoExamples() (list []*example) {
	special := []uint64{0, 1, 2, 31, 32, 33, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff}
	inputs := cross(map[string][]uint64{"i": special}, []string{"i", "i", "i"})
	extend := func(v uint64, typ string) int64 {
		if typ == "s32" {
			return int64(int32(v))
		}
		return int64(uint32(v))
	}
	operation := func(name string, x, y int64) int64 {
		switch name {
		case "vadd":
			return x + y
		case "vsub":
			return x - y
		case "vabsdiff":
			return max(x-y, y-x)
		case "vmin":
			return min(x, y)
		case "vmax":
			return max(x, y)
		case "vshl.clamp":
			return x << min(y, 32)
		case "vshl.wrap":
			return x << (y % 32)
		case "vshr.clamp":
			return x >> min(y, 32)
		default: // vshr.wrap
			return x >> (y % 32)
		}
	}
	for _, name := range strings.Fields("vadd vsub vabsdiff vmin vmax vshl.clamp vshl.wrap vshr.clamp vshr.wrap") {
		name, mode, shift := strings.Cut(name, ".")
		for i := range 64 {
			types := []string{"u32", "s32"}
			d, a, b, sat := types[i&1], types[i>>1&1], types[i>>2&1], i>>3&1 == 1
			second := []string{"", "add", "min", "max"}[i>>4]
			op := strings.Join([]string{name, d, a, b}, ".")
			if shift && b == "s32" {
				continue
			}
			for _, modifier := range []struct {
				is   bool
				text string
			}{{sat, ".sat"}, {shift, "." + mode}, {second != "", "." + second}} {
				if modifier.is {
					op += modifier.text
				}
			}
			ins, full := op+" D,A,B", name
			if second != "" {
				ins += ",C"
			}
			if shift {
				full += "." + mode
			}
			result := func(in []uint64) uint64 {
				x := operation(full, extend(in[0], a), extend(in[1], b))
				if sat && name == "vshl" { // 34 bits
					if x &= 1<<34 - 1; x >= 1<<33 {
						x -= 1 << 34
					}
				}
				switch {
				case sat && d == "s32":
					x = min(max(x, math.MinInt32), math.MaxInt32)
				case sat && name == "vshl":
					x = min(max(x, 0), math.MaxUint32)
				case sat:
					x = max(x, 0)
				}
				if name == "vadd" || name == "vsub" || name == "vshl" && sat {
					x = extend(uint64(x), "s32")
				}
				c := extend(in[2], d)
				switch less := x < c; {
				case second == "":
				case second == "add":
					x += c
				case d == "u32" && x < 0: // it is larger than any number of 32 bits
					if second == "min" {
						x = c
					}
				case less != (second == "min"):
					x = c
				}
				return uint64(uint32(x))
			}
			list = append(list, computed(ins, "i", inputs, result))
		}
	}
	return list
}

// hintExamples returns loads and stores with a policy about caches.
func hintExamples() (list []*example) {
	const policy = ".reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy; "
	inputs := []uint64{0x8000000000000001, 0, 0, 0, 0x7fedcba987654321, 0, 0, 0, 0x8080818180808181, 0, 0, 0}
	for _, typ := range strings.Fields("b8 u8 s8 b16 u16 s16 b32 u32 s32 f32 b64 u64 s64 f64") {
		size := 8 * syntax.TypeSize(typ)
		register := "i64"
		if typ == "f32" {
			register = "i32"
		}
		result := func(in []uint64) uint64 {
			if v := in[0] << (64 - size); typ[0] == 's' {
				return uint64(int64(v) >> (64 - size))
			} else {
				return v >> (64 - size)
			}
		}
		for _, order := range []string{"", ".relaxed.gpu"} {
			ins := "ld" + order + ".global.L2::cache_hint." + typ + " D,[i],policy"
			list = append(list, computed(policy+ins, register, inputs, result))
		}
		ins := "st.global.L2::cache_hint." + typ + " [o],A,policy; ld.global." + typ + " D,[o]"
		list = append(list, computed(policy+ins, register, inputs, result))
	}
	return list
}

// computed returns an instruction with inputs as an example, whose result is computed.
func computed(ins, kind string, inputs []uint64, result func(in []uint64) uint64) *example {
	n := len(inputs) / 4
	return &example{name: ins, text: kernelFor(ins, []string{kind, kind, kind}, kind),
		grid: uint32(n+127) / 128, block: 128,
		params: []uint64{1 << 32, 1 << 40, uint64(n)}, prepare: func() (memory, func(*vm.Fault) string) {
			results := make([]uint64, n)
			return memory{1 << 32: vm.BytesOf(inputs), 1 << 40: vm.BytesOf(results)}, func(fault *vm.Fault) string {
				if fault != nil {
					return fmt.Sprintf("%+v", fault)
				}
				for i, got := range results {
					if want := result(inputs[4*i:]); got != want {
						return fmt.Sprintf("of %#x it is %#x, want %#x", inputs[4*i:4*i+3], got, want)
					}
				}
				return ""
			}
		}}
}

// TestManual executes instructions of which the manual says the result.
func TestManual(t *testing.T) {
	for _, e := range slices.Concat(manualExamples(), videoExamples(), hintExamples()) {
		e.check(t)
	}
}
