package cu_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// TestExportedFiles has the driver export files that programs which the process starts would get.
func TestExportedFiles(t *testing.T) {
	sim := cusim.New()
	d := &exporting{sim.Software(), -1}
	drv := need(Open(WithSoftware(driver.Provide(d))))(t)
	gpu := need(need(drv.Device(0))(t).PrimaryContext())(t)
	null := need(os.Open(os.DevNull))(t)
	defer null.Close()
	p := need(memory.NewPhysical(gpu, 1, memory.PhysicalOptions{}))(t)
	pool := need(memory.NewPool(gpu, memory.PoolOptions{}))(t)
	for _, export := range []func() (*os.File, error){p.Export, pool.Export} {
		d.fd = need(syscall.Dup(int(null.Fd())))(t)
		f := need(export())(t)
		checkCloseOnExec(t, f)
		noErr(t, f.Close())
	}
	noErr(t, errors.Join(p.Close(), pool.Close(), gpu.Close(), drv.Close()))
	checkFreed(t, sim)
}
