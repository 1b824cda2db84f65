package cu_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUDriverLog makes calls fail, and shows what the driver writes to its log about them.
func TestGPUDriverLog(t *testing.T) {
	gpu := GPUContext(t)
	drv := gpu.Device().Driver()
	if !core.Of(drv).Has("cuLogsDumpToMemory") {
		t.Skip("the driver keeps no log: it is older than CUDA 12.9")
	}
	for name, fails := range map[string]func() error{
		"too much memory": func() error { _, err := gpu.Alloc(1 << 50); return err },
		"PTX with an error": func() error {
			_,
				err := gpu.LoadModule([]byte(".version 6.0\n.target sm_50\nnonsense\n"))
			return err
		},
		"an empty PCI slot": func() error { _, err := drv.DeviceByPCIBusID("ffff:ff:1f.0"); return err },
	} {
		at, res := core.Of(drv).Table().LogsCurrent(driver.At{}, 0)
		if res != driver.ResultSuccess {
			t.Fatal(res)
		}
		err := fails()
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		buffer := make([]byte, drivercall.LogSize)
		_, n, res := core.Of(drv).Table().LogsDumpToMemory(driver.At{}, at, buffer, 0)
		raw := string(buffer[:min(n, drivercall.LogSize)])
		t.Logf("%s: %v\nthe log, %v:\n%s", name, err, res, raw)
		if res != driver.ResultSuccess {
			t.Errorf("%s: reading the log: %v", name, res)
		}
		for _, entry := range drivercall.ParseLog(raw) {
			if entry.Op == e.Op && entry.Text != "" && !strings.Contains(e.Detail, entry.Text) {
				t.Errorf("%s: the error lacks %q", name, entry.Text)
			}
		}
		if raw != "" && len(drivercall.ParseLog(raw)) == 0 {
			t.Errorf("%s: the log has another form", name)
		}
	}
}
