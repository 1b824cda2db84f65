package cu_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
)

// TestDriverVariable chooses drivers by PURECU_DRIVER.
func TestDriverVariable(t *testing.T) {
	sim := cusim.New()
	driver.Register("registered by a test", func() driver.Provider { return sim })
	driver.Register("registered without a driver", func() driver.Provider { return nil })
	for _, c := range []struct {
		value string
		opts  []Option
		is    error  // nil if Open succeeds with a software driver
		says  string // a part of the error
	}{
		{value: "registered by a test"},
		{value: "registered without a driver", is: ErrNil},
		{value: "soft", is: drivercall.ErrInvalid, says: "cusim/auto"}, // which this test does not import
		{value: "unknown", is: drivercall.ErrInvalid, says: `"unknown"`},
		{value: "/nonexistent/libcuda.so.1", is: ErrNoDriver, says: "/nonexistent/libcuda.so.1"},
		{
			value: "/nonexistent", is: ErrNoDriver,
			says: `; to run without a GPU, import _ "github.com/purecu/purecu/cusim/auto" in the main package, and set PURECU_DRIVER=soft`,
		},
		{value: `C:\nonexistent\nvcuda.dll`, is: ErrNoDriver, says: `nvcuda.dll`},
		{
			value: "registered by a test", opts: []Option{WithLibrary("/nonexistent/a.so")},
			is: ErrNoDriver, says: "/nonexistent/a.so",
		},
		{value: "unknown", opts: []Option{WithSoftware(sim)}},
		{value: "", opts: []Option{WithSoftware(sim)}},
		{value: "cuda", opts: []Option{WithSoftware(sim)}},
	} {
		t.Setenv("PURECU_DRIVER", c.value)
		drv, err := Open(c.opts...)
		switch {
		case c.is != nil:
			if drv != nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q: %v, %v", c.value, drv, err)
			}
		case err != nil:
			t.Errorf("%q: %v", c.value, err)
		default:
			if !core.Of(drv).Table().Software() {
				t.Errorf("%q: the driver is %v", c.value, drv)
			}
			if err := drv.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, value := range []string{"", "cuda"} {
		t.Setenv("PURECU_DRIVER", value)
		if o, chooses := ChosenByVariable(); chooses {
			t.Errorf("%q chooses %+v", value, o)
		}
	}
}
