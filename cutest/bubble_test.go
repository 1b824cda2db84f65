package cutest_test

import (
	"testing"
	"testing/synctest"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cutest"
)

// TestBubble executes a kernel in a bubble of synctest, in which no goroutine may be left.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newScene(t, cutest.Driver(t), -1)
		mod := get[*cu.Module](p)(p.gpu.LoadModule([]byte(".version 6.0\n.target sm_50\n.address_size 64\n" +
			".visible .entry sevens(.param .u64 p) { .reg .b64 a; ld.param.u64 a, [p]; st.global.u32 [a], 7; ret; }")))
		p.do(get[*cu.Function](p)(mod.Function("sevens")).Launch(p.a, grid, cu.Ptr(p.m)))
		got := make([]uint32, 1)
		p.do(p.a.Synchronize())
		p.do(cu.CopyTo(p.m, got))
		if got[0] != 7 {
			t.Errorf("the memory is %d", got[0])
		}
		p.do(mod.Close())
	})
}
