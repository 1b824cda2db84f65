package auto_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/cu"
	_ "github.com/purecu/purecu/cusim/auto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSoft opens the driver twice. Both calls get the same software driver, and so the same primary context.
func TestSoft(t *testing.T) {
	t.Setenv("PURECU_DRIVER", "soft")
	var handles [2]uintptr
	for i := range handles {
		drv, err := cu.Open()
		if err != nil {
			t.Fatal(err)
		}
		dev, err := drv.Device(0)
		if err != nil {
			t.Fatal(err)
		}
		gpu, err := dev.PrimaryContext()
		if err != nil {
			t.Fatal(err)
		}
		handles[i] = gpu.Handle()
		defer func() {
			if err := errors.Join(gpu.Close(), drv.Close()); err != nil {
				t.Error(err)
			}
		}()
	}
	if handles[0] == 0 || handles[0] != handles[1] {
		t.Errorf("the primary contexts are %#x", handles)
	}
}

// A program with the import runs without a GPU if the environment says so.
func Example() {
	os.Setenv("PURECU_DRIVER", "soft") // usually in the shell
	defer os.Unsetenv("PURECU_DRIVER")
	drv, err := cu.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer drv.Close()
	dev, err := drv.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(dev)
	// Output: device 0 (Simulated H200)
}
