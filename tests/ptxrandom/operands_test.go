package ptxrandom

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/operands"
	"github.com/purecu/purecu/loader"
)

// TestGPUOperands asks NVIDIA's driver which operands it accepts, if PURECU_TEST_GPU is set. "cusim"
// asks the software driver.
func TestGPUOperands(t *testing.T) {
	path := os.Getenv("PURECU_TEST_GPU")
	if path == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	list, err := operands.Tries("../../internal/ptx/operands")
	if err != nil {
		t.Fatal(err)
	}
	var next, different atomic.Int64
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			m, err := machineOf(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer m.close()
			for {
				i := int(next.Add(1) - 1)
				if i >= len(list) {
					return
				}
				mod, log, r := m.load(list[i].Text())
				if r == ok {
					m.ModuleUnload(m.at, mod)
				}
				if (r == ok) != list[i].Accepted && different.Add(1) <= 20 {
					t.Errorf("%s: operand %d is %s: %v %s", list[i].Op, list[i].Operand, list[i].What, r, log)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d operands, of which %d have another result", len(list), different.Load())
}

// machineOf returns a machine of a library, or of a new software driver for "cusim".
func machineOf(path string) (*machine, error) {
	switch path {
	case "cusim":
		return simulated()
	case "1":
		path = "" // the system's
	}
	lib, err := loader.Open(path)
	if err != nil {
		return nil, err
	}
	return open(driver.New(lib))
}
