package compile

import (
	"testing"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// BenchmarkBlocks executes blocks that do nearly nothing, most of whose time is what a block costs before and after its
// instructions.
func BenchmarkBlocks(b *testing.B) {
	m, err := Parse(".version 8.0 .target sm_80 .address_size 64\n" + `.entry k(.param .u64 out, .param .u32 n) { .reg .u32 r<8>; .reg .u64 d<8>; .reg .f32 f<4>; .reg .pred p;
		ld.param.u64 d0,[out]; ld.param.u32 r0,[n]; mov.u32 r1,%ctaid.x; mov.u32 r2,%ntid.x; mov.u32 r3,%tid.x; mad.lo.u32 r4,r1,r2,r3;
		setp.ge.u32 p,r4,r0; @p bra E; mul.wide.u32 d1,r4,4; add.u64 d0,d0,d1; st.global.u32 [d0],r4; E: ret; }`)
	if err != nil {
		b.Fatal(err)
	}
	k, err := m.Kernel("k")
	if err != nil {
		b.Fatal(err)
	}
	mem := memory{1 << 32: vm.BytesOf(make([]uint64, 512))}
	l := launchOf(k, 2112, 256, mem, []uint64{1 << 32, 1000})
	l.Workers, l.Resident = 1, 2048/256*132
	for b.Loop() {
		if _, fault := l.Execute(new(vm.Stop)); fault != nil {
			b.Fatal(fault)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2112, "ns/block")
}
