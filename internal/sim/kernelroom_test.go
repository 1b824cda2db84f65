package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// TestKernelRoom launches a grid whose blocks wait for each other, and need more memory than the machine has. They take
// it from Go's heap, which would end the process.
func TestKernelRoom(t *testing.T) {
	for _, tt := range []struct {
		name        string
		cooperative bool
		limit       time.Duration
		want        driver.Result
		text        string
	}{
		{"a cooperative grid", true, 0, driver.ResultLaunchFailed, "too little memory for 32 blocks"},
		{"another grid", false, 50 * time.Millisecond, driver.ResultLaunchTimeout, "blocks are executed at the same time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newLab(t, BackedMemory(64<<20), KernelLimit(tt.limit))
			f, res := r.ModuleGetFunction(r.th, r.load(`.version 8.0
				.target sm_90
				.address_size 64
				.visible .entry together(.param .u64 p) { .reg .b64 a; .reg .b32 n; .reg .pred q; .local .align 8 .b8 l[65536];
				ld.param.u64 a, [p]; st.local.u32 [l], 1; atom.global.add.u32 n, [a], 1;
				W: ld.volatile.global.u32 n, [a]; setp.lt.u32 q, n, 8192; @q bra W; ret; }`), "together")
			r.must(res)
			p, res := r.MemAlloc(r.th, 4)
			r.must(res)
			r.must(r.MemsetD32(r.th, p, 0, 1))
			launch := r.LaunchKernel
			if tt.cooperative {
				launch = r.LaunchCooperativeKernel
			}
			r.must(launch(r.th, f, 32, 1, 1, 256, 1, 1, 0, 0, params(uint64(p))))
			r.want("more blocks than memory", tt.want, r.CtxSynchronize(r.th))
			if m := fmt.Sprint(r.Misuses()); !strings.Contains(m, tt.text) {
				t.Error(m)
			}
			r.takeMisuses()
		})
	}
}
