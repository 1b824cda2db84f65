package compile

import (
	"slices"
	"testing"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// TestForms executes forms of instructions that NVIDIA's own compilers do not write, but others do. Each
// leaves its result in d1.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		text string
		want uint64
	}{
		{"mov.u64 d0,s; mov.u64 d1,s[0]; sub.u64 d1,d1,d0;", 0},
		{"mov.u64 d0,s; mov.u64 d1,s[5]; sub.u64 d1,d1,d0;", 5},
		{".shared .align 16 .b8 a[16]; mov.u64 d0,a[0]; st.shared.u32 [d0+4],7; ld.shared.u32 r0,[a+4]; cvt.u64.u32 d1,r0;", 7},
		{".shared .align 8 .u32 a<3>; st.shared.u32 [a0],5; st.shared.u32 [a2],7; st.shared.u32 [a1],1; ld.shared.u32 r0,[a2]; cvt.u64.u32 d1,r0;", 7},
		{".reg .v2 .u32 v; mov.v2.u32 v,{3,4}; mov.u32 v.y,5; st.shared.v2.u32 [s+8],v; ld.shared.u64 d1,[s+8];", 5<<32 | 3},
		{".reg .v4 .u32 v; mov.u32 r0,6; mov.v4.u32 v,{r0,7,8,9}; mov.v4.u32 v,{v.w,v.g,v.x,v.y}; mov.b64 d1,{v.z,v.r};",
			9<<32 | 6},
		{".reg .v2 .b32 v<2>, w; mov.b64 v1,0x700000009; { .reg .v2 .b32 w; mov.v2.b32 w,{1,1}; } mov.v2.b32 w,v1; mov.b64 d1,w;",
			7<<32 | 9},
		{".reg .v2 .u64 v; mov.v2.u64 v,{3,4}; st.shared.v2.u64 [s],v; ld.shared.v2.u64 v,[s]; add.u64 d1,v.x,v.y;", 7},
		{"vsub.u32.u32.u32.add r0,3,5,9; cvt.u64.u32 d1,r0;", 7},
		{"vsub.u32.u32.s32 r0,3,-5; vsub.u32.u32.u32.sat r1,3,5; add.u32 r0,r0,r1; cvt.u64.u32 d1,r0;", 8},
		{"vabsdiff.u32.s32.s32 r0,-3,5; vabsdiff.s32.u32.s32.sat.add r1,-1,-1,2; mov.b64 d1,{r0,r1};", 0x80000001<<32 | 8},
		{"vmin.s32.s32.u32 r0,-1,7; vmax.s32.u32.s32.add r1,7,-1,1; mov.b64 d1,{r0,r1};", 8<<32 | 0xffffffff},
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
				".reg .f32 f; .reg .u64 o; mov.f32 f,0f3E800000; "+op+" f,f,f,f; ld.param.u64 o,[out]; st.global.f32 [o],f; ret; }",
				1, 1, memory{1 << 40: vm.BytesOf(out)}, 1<<40)
			if (err == nil) != accepted || fault != nil || accepted && out[0] != 0x3ea00000 {
				t.Errorf("%s of version %s: got %#x (%v, %v)", op, version, out[0], err, fault)
			}
		}
	}
}
