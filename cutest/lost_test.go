package cutest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

// TestDeviceLost closes everything after the loss of a device while work is pending, for each way
// in which cusim can lose one. The test passes.
func TestDeviceLost(t *testing.T) {
	for name, lose := range map[string]func(sim *cusim.Driver){
		"LoseDevice": func(sim *cusim.Driver) { sim.LoseDevice() },
		"Poison 214": func(sim *cusim.Driver) { sim.Poison(int(cu.ResultECCUncorrectable)) },
		"46":         func(sim *cusim.Driver) { sim.Inject(cusim.Fault{Every: true, Code: int(cu.ResultDeviceUnavailable)}) },
		"214":        func(sim *cusim.Driver) { sim.Inject(cusim.Fault{Every: true, Code: int(cu.ResultECCUncorrectable)}) },
		"999":        func(sim *cusim.Driver) { sim.Inject(cusim.Fault{Every: true, Code: int(cu.ResultUnknown)}) },
		"700":        func(sim *cusim.Driver) { sim.Inject(cusim.Fault{Every: true, Code: int(cu.ResultIllegalAddress)}) },
	} {
		for _, opts := range [][]cusim.Option{nil, {cusim.VirtualTime()}} {
			t.Run(name, func(t *testing.T) {
				var failed error
				said := run(t, func(t testing.TB) {
					drv, sim := cutest.Soft(t, opts...)
					gpu := must(must(drv.Device(0)).PrimaryContext())
					own := must(must(drv.Device(0)).NewContext(0))
					s := must(gpu.NewStream(cu.StreamNonBlocking))
					mem, host := must(gpu.Alloc(8)), must(gpu.AllocHost(8, 0))
					e := must(gpu.NewEvent(0))
					tl := must(gpu.NewTimeline(0))
					spin(gpu, s, 50*time.Millisecond)
					check(s.Copy(mem, host))
					check(e.Record(s))
					lose(sim)
					failed = errors.Join(e.Record(s), s.Synchronize(), gpu.Synchronize())
					for _, c := range []interface{ Close() error }{mem, host, e, tl, s, gpu, own} {
						c.Close()
					}
				})
				if said != "" || !cu.NeedsRestart(failed) {
					t.Errorf("it said %q, after %v", said, failed)
				}
			})
		}
	}
}
