package cu

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// TestExportedFiles has the driver export files that programs which the process starts would get.
func TestExportedFiles(t *testing.T) {
	sim := cusim.New()
	d := &exporting{sim.Software(), -1}
	drv := must(Open(WithSoftware(driver.Provide(d))))(t)
	gpu := must(must(drv.Device(0))(t).PrimaryContext())(t)
	null := must(os.Open(os.DevNull))(t)
	defer null.Close()
	p := must(gpu.NewPhysicalMem(1, PhysicalOptions{}))(t)
	pool := must(gpu.NewMemPool(MemPoolOptions{}))(t)
	for _, export := range []func() (*os.File, error){p.Export, pool.Export} {
		d.fd = must(syscall.Dup(int(null.Fd())))(t)
		f := must(export())(t)
		checkCloseOnExec(t, f)
		noErr(t, f.Close())
	}
	noErr(t, errors.Join(p.Close(), pool.Close(), gpu.Close(), drv.Close()))
	checkFreed(t, sim)
}
