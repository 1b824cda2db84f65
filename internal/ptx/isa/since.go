package isa

import (
	"slices"
	"strings"
	"sync"
)

// versions are what needs a version of PTX, and targets what needs a target, as NVIDIA's compiler (driver 580) says.
// mma.b1 is an instruction mma with the modifier b1, perhaps among others; .relu.s32 is any instruction with both, in
// this order. What is in no version before 2.3 and in no target before sm_20 is not here: no other text has addresses
// of 64 bits.
var versions = map[int32]string{
	30: `%pm4 %pm7 mad.cc madc vabsdiff2 vabsdiff4 vadd2 vadd4 vavrg2 vavrg4 vmax2 vmax4 vmin2 vmin4 vset2
		vset4 vsub2 vsub4 .mask`,
	31: `%globaltimer %globaltimer_hi %globaltimer_lo atom.and.b64 cvta.const red.b64 shf .min.s64 .min.u64
		.nc`,
	40: `%pm0_64 %pm7_64 rsqrt.ftz.f64`,
	41: `%dynamic_smem_size %total_smem_size`,
	42: `add.f16 fma.f16 mul.f16 set.f16 setp.f16 sub.f16 .f16x2`,
	43: `lop3 .cc.s64 .cc.u64`,
	50: `%clock_hi atom.cta atom.sys dp2a dp4a red.cta red.sys .add.f64 .gpu`,
	60: `barrier fence fns match neg.f16 neg.f16x2 shfl.sync vote .acq_rel .acquire .relaxed .release .warp
		.weak`,
	62: `activemask nanosleep .noftz`,
	63: `atom.b16 wmma .noftz.f16`,
	64: `mma`,
	65: `abs.f16 abs.f16x2 ldmatrix mma.s32 set.s16.f16 set.u16.f16 set.u32.f16 .m16n8k8 .m8n8k16 .pack
		.s32.f16x2 .u32.f16x2`,
	70: `cp cvt.f16x2 ex2.f16 ex2.f16x2 max.f16 max.f16x2 mbarrier min.f16 min.f16x2 mma.b1 redux tanh .NaN
		.aligned.f64 .bf16 .bf16x2 .m16n16k8 .m16n8k16 .m16n8k32 .m16n8k64 .relu .tf32`,
	71: `cvt.f32.bf16 mma.sp .and.popc .parity`,
	72: `.abs`,
	73: `alloca stackrestore stacksave`,
	74: `createpolicy discard .L1::evict_first .L1::evict_last .L1::evict_normal .L1::evict_unchanged
		.L1::no_allocate .L2::128B .L2::256B .L2::64B .L2::cache_hint .L2::evict_last .L2::evict_normal`,
	75: `.alias`,
	76: `%reserved_smem_offset_0 %reserved_smem_offset_1 %reserved_smem_offset_begin
		%reserved_smem_offset_cap %reserved_smem_offset_end bmsk szext`,
	77: `cvta.param isspacep.param`,
	78: `%cluster_ctaid %cluster_ctarank %cluster_nctaid %cluster_nctarank %clusterid %is_explicit_cluster
		%nclusterid add.bf16 add.bf16x2 atom.shared::cta bar.cta barrier.cta cvt.bf16.bf16 cvta.shared::cta
		getctarank griddepcontrol isspacep.shared::cta ld.shared::cta mapa movmatrix mul.bf16 mul.bf16x2
		red.shared::cta st.shared::cta stmatrix sub.bf16 sub.bf16x2 .aligned.shared::cta .approx.bf16
		.approx.bf16x2 .bf16.f16 .bf16.f64 .bf16.s16 .bf16.s32 .bf16.s64 .bf16.u16 .bf16.u32 .bf16.u64 .cluster
		.cta.shared::cta .e4m3x2 .e5m2x2 .eq.bf16 .eq.bf16x2 .f16.bf16 .f64.bf16 .m16n8k16.f64 .m16n8k4.f64
		.m16n8k8.f64 .noftz.bf16 .noftz.bf16x2 .rn.tf32 .rni.bf16 .rz.tf32 .shared::cluster .shared::cta.b64
		.try_wait .u16.bf16`,
	80: `%current_graph_exec barrier.acquire barrier.relaxed barrier.release elect fence.async
		mbarrier.acquire mbarrier.release setmaxnreg wgmma .bulk .complete_tx .expect_tx .mbarrier_init .relu.s32
		.s16x2 .tensormap .u16x2`,
	81: `%aggr_smem_size sured.min.b64 sured.min.s64 sured.min.u64 sured.max.b64 sured.max.s64 sured.max.u64
		atom.v2 atom.v4 cvt.satfinite.f16x2.f32 red.mbarrier::complete_tx::bytes red.v2
		red.v4 st.mbarrier::complete_tx::bytes .satfinite.bf16 .satfinite.bf16x2 .satfinite.f16 .satfinite.tf32
		.v8`,
	82: `lop3.and lop3.or .mmio`,
	83: `.b128 .param::entry .param::func .tensormap::generic`,
	84: `mma.e4m3 mma.e5m2 wgmma.s8.u8 wgmma.u8.s8 .sys.b128`,
	85: `mma.sp::ordered_metadata`,
	86: `cp.bulk.shared::cta.global cvt.rn.satfinite.tf32 cvt.rz.satfinite.tf32 mbarrier.arrive.relaxed
		.arrive_drop.relaxed .test_wait.relaxed`,
	87: `.m16n8k16.e4m3 .m16n8k32.f16.e4m3 .m16n8k32.f16.e5m2`,
}

var targets = map[int32]string{
	30: `%globaltimer %globaltimer_hi %globaltimer_lo activemask barrier fns shfl vabsdiff2 vabsdiff4 vadd2
		vadd4 vavrg2 vavrg4 vmax2 vmax4 vmin2 vmin4 vote vset2 vset4 vsub2 vsub4 .warp`,
	32: `atom.and.b64 red.b64 shf .min.s64 .min.u64 .nc`,
	50: `%current_graph_exec %pm0_64 %pm7_64 lop3 sured.min.b64 sured.min.s64 sured.min.u64 sured.max.b64 sured.max.s64
		sured.max.u64`,
	52: `alloca stackrestore stacksave`,
	53: `abs.f16 add.f16 fma.f16 mul.f16 neg.f16 set.f16 setp.f16 sub.f16 .f16x2`,
	60: `atom.cta atom.sys red.cta red.sys .add.f64 .alias .gpu .noftz`,
	61: `dp2a dp4a`,
	70: `atom.b16 bmsk cvta.param cvta.param::entry fence isspacep.param isspacep.param::entry lop3.and
		lop3.or match mma nanosleep szext wmma .L1::evict_first .L1::evict_last .L1::evict_normal
		.L1::evict_unchanged .L1::no_allocate .acq_rel .acquire .b128 .noftz.f16 .relaxed .release .satfinite .weak`,
	72: `wmma.s32 wmma.s8 wmma.u8 .pack`,
	75: `ex2.f16 ex2.f16x2 tanh .L2::128B .L2::64B .m16n8k8 .m8n8 .m8n8k128 .m8n8k16 .m8n8k32 .s2 .s4 .u2
		.u4`,
	80: `%reserved_smem_offset_0 %reserved_smem_offset_1 %reserved_smem_offset_begin
		%reserved_smem_offset_cap %reserved_smem_offset_end cp createpolicy cvt.f16x2 discard max.f16 max.f16x2
		mbarrier min.f16 min.f16x2 redux .L2::256B .L2::cache_hint .L2::evict_last .L2::evict_normal .NaN
		.aligned.f64 .and.popc .bf16 .bf16x2 .m16n16k8 .m16n8k128 .m16n8k16 .m16n8k256 .m16n8k32 .m16n8k64 .relu
		.tf32`,
	86: `.abs`,
	89: `.e4m3 .e4m3x2 .e5m2 .e5m2x2`,
	90: `%aggr_smem_size %cluster_ctaid %cluster_ctarank %cluster_nctaid %cluster_nctarank %clusterid
		%is_explicit_cluster %nclusterid add.bf16 add.bf16x2 atom.b128 atom.v2 atom.v4 cvt.bf16.bf16 elect fence.async
		getctarank griddepcontrol mapa mbarrier.relaxed mul.bf16 mul.bf16x2 red.v2 red.v4 setmaxnreg stmatrix wgmma
		sub.bf16 sub.bf16x2 .approx.bf16 .approx.bf16x2 .bf16.f16 .bf16.f64 .bf16.s16 .bf16.s32 .bf16.s64
		.bf16.u16 .bf16.u32 .bf16.u64 .bulk .cluster .complete_tx .eq.bf16 .eq.bf16x2 .expect_tx .f16.bf16
		.f64.bf16 .m16n8k16.f64 .m16n8k4.f64 .m16n8k8.f64 .mbarrier::complete_tx::bytes .noftz.bf16
		.noftz.bf16x2 .relu.s32 .rn.tf32 .rni.bf16 .rz.tf32 .s16x2 .shared::cluster .try_wait .u16.bf16 .u16x2
		.tensormap .tensormap::generic .v8`,
	100: `cvt.rn.satfinite.tf32 cvt.rz.satfinite.tf32`,
}

// need is an entry of versions or targets.
type need struct {
	modifiers       []string
	version, target int32
}

// needs are the entries by what they begin with: the name of an instruction, or a dot and a modifier.
var needs = sync.OnceValue(func() map[string][]need {
	m := make(map[string][]need)
	add := func(list string, n need) {
		for entry := range strings.FieldsSeq(list) {
			words := strings.Split(entry, ".")
			key := words[0]
			if n.modifiers = words[1:]; key == "" {
				key, n.modifiers = "."+words[1], words[2:]
			}
			m[key] = append(m[key], n)
		}
	}
	for version, list := range versions {
		add(list, need{version: version})
	}
	for target, list := range targets {
		add(list, need{target: target})
	}
	return m
})

// Since returns the first version of PTX and the first target that have an instruction, such as "mma.sync", or a
// special register. They are 0 if all versions and targets have it.
func Since(op string) (version, target int32) {
	words := strings.Split(op, ".")
	for i, key := range words {
		rest := words[1:]
		if i > 0 {
			key, rest = "."+key, words[i+1:]
		}
		for _, n := range needs()[key] {
			if inOrder(n.modifiers, rest) {
				version, target = max(version, n.version), max(target, n.target)
			}
		}
	}
	return version, target
}

// inOrder reports whether all words are in a list, in their order.
func inOrder(words, list []string) bool {
	for _, w := range words {
		i := slices.Index(list, w)
		if i < 0 {
			return false
		}
		list = list[i+1:]
	}
	return true
}
