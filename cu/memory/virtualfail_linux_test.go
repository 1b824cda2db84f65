package memory_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// TestExportedFiles has the driver export files that programs which the process starts would get.
func TestExportedFiles(t *testing.T) {
	sim := cusim.New()
	d := &exporting{sim.Software(), -1}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(d)))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	null := Need(os.Open(os.DevNull))(t)
	defer null.Close()
	p := Need(memory.NewPhysical(gpu, 1, memory.PhysicalOptions{}))(t)
	pool := Need(memory.NewPool(gpu, memory.PoolOptions{}))(t)
	for _, export := range []func() (*os.File, error){p.Export, pool.Export} {
		d.fd = Need(syscall.Dup(int(null.Fd())))(t)
		f := Need(export())(t)
		CheckCloseOnExec(t, f)
		NoErr(t, f.Close())
	}
	NoErr(t, errors.Join(p.Close(), pool.Close(), gpu.Close(), drv.Close()))
	CheckFreed(t, sim)
}
