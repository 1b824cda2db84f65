package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestKernelRoom launches a cooperative grid whose blocks need more memory than the machine has. They take it from Go's
// heap, which would end the process.
func TestKernelRoom(t *testing.T) {
	r := newLab(t, BackedMemory(64<<20))
	m, res := r.ModuleLoadData(r.th, []byte(`.version 8.0
		.target sm_90
		.address_size 64
		.visible .entry together(.param .u64 p) { .reg .b64 a; .reg .b32 n; .reg .pred q; .local .align 8 .b8 l[65536];
		ld.param.u64 a, [p]; st.local.u32 [l], 1; atom.global.add.u32 n, [a], 1;
		W: ld.volatile.global.u32 n, [a]; setp.lt.u32 q, n, 8192; @q bra W; ret; }`))
	r.must(res)
	f, res := r.ModuleGetFunction(r.th, m, "together")
	r.must(res)
	p, res := r.MemAlloc(r.th, 4)
	r.must(res)
	r.must(r.MemsetD32(r.th, p, 0, 1))
	r.must(r.LaunchCooperativeKernel(r.th, f, 32, 1, 1, 256, 1, 1, 0, 0, params(uint64(p))))
	r.want("more blocks than memory", driver.ResultLaunchFailed, r.CtxSynchronize(r.th))
	if m := fmt.Sprint(r.Misuses()); !strings.Contains(m, "too little memory for 32 blocks") {
		t.Error(m)
	}
	r.takeMisuses()
}

// TestUnaskedRoom takes memory for the blocks of several launches when the machine has none left. They share what needs
// no question.
func TestUnaskedRoom(t *testing.T) {
	all := &budget{most: 1}
	list := make([]kernelRoom, 2*mostUnasked/unaskedStep)
	for round := range 2 {
		began := 0
		for i := range list {
			list[i].budget = all
			if first, second := list[i].Take(1000), list[i].Take(1000); first && second {
				began++
			}
		}
		if want := mostUnasked / unaskedStep; began != want || list[0].Take(mostUnasked+1) {
			t.Errorf("round %d: %d launches have begun, want %d", round, began, want)
		}
		for i := range list {
			list[i].give()
		}
	}
	if all.used != 0 || all.unasked.Load() != 0 {
		t.Errorf("%d and %d bytes are left", all.used, all.unasked.Load())
	}
}
