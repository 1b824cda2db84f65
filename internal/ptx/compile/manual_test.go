package compile

import (
	"fmt"
	"testing"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// manual are instructions of which the PTX manual says the result. They are not among the recorded ones. A
// body is executed by two warps, and leaves its result in r9.
var manual = []struct {
	body string
	want uint32
}{
	// Without a rounding mode it is .rn. The results are the lower halves of numbers.
	{"mov.b64 d1,0x3ff0000000000000; mov.b64 d2,0x3ca8000000000000; add.f64 d1,d1,d2; mov.b64 {r9,r8},d1;", 1},
	{"mov.b64 d1,0x3ff0000000000000; mov.b64 d2,0x3c80000000000000; sub.f64 d1,d1,d2; mov.b64 {r9,r8},d1;", 0},
	{"mov.b64 d1,0x3ff0000000000001; mov.b64 d2,0x3ff8000000000000; mul.f64 d1,d1,d2; mov.b64 {r9,r8},d1;", 2},
	// Without .cc the condition code stays as it is.
	{"mov.u32 r1,0xffffffff; add.cc.u32 r1,r1,1; addc.u32 r2,0,0; addc.u32 r9,0,0;", 1},
	{"mov.u32 r1,0; mov.u32 r2,5; sub.cc.u32 r1,r1,1; subc.u32 r3,r2,0; subc.u32 r9,r2,0;", 4},
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
	// The time is that of the launch, or later.
	{"mov.u32 r1,%clock; mov.u32 r1,%clock; mov.u32 r1,%clock; set.gt.u32.u32 r9,r1,0;", 0xffffffff},
	{"mov.u64 d1,%clock64; mov.u64 d1,%clock64; mov.u64 d1,%clock64; set.gt.u32.u64 r9,d1,0;", 0xffffffff},
	{"mov.u64 d1,%globaltimer; set.gt.u32.u64 r9,d1,0;", 0xffffffff},
	{"mov.u32 r1,%globaltimer_lo; set.gt.u32.u32 r9,r1,0;", 0xffffffff},
	{"mov.u32 r1,%globaltimer_hi; set.gt.u32.u32 r9,r1,0;", 0xffffffff},
}

// manualExamples returns what the manual says as examples.
func manualExamples() (list []*example) {
	for _, m := range manual {
		list = append(list, &example{name: m.body, text: warpText(m.body), grid: 1, block: 64,
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

// TestManual executes instructions of which the manual says the result.
func TestManual(t *testing.T) {
	for _, e := range manualExamples() {
		e.check(t)
	}
}
