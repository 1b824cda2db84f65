package cu

import (
	"errors"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestGPUDriverLog makes calls fail, and shows what the driver writes to its log about them.
func TestGPUDriverLog(t *testing.T) {
	gpu := gpuContext(t)
	drv := gpu.Device().Driver()
	if !drv.core.has("cuLogsDumpToMemory") {
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
		at, res := drv.core.table().LogsCurrent(driver.At{}, 0)
		if res != driver.ResultSuccess {
			t.Fatal(res)
		}
		err := fails()
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		buffer := make([]byte, logSize)
		_, n, res := drv.core.table().LogsDumpToMemory(driver.At{}, at, buffer, 0)
		raw := string(buffer[:min(n, logSize)])
		t.Logf("%s: %v\nthe log, %v:\n%s", name, err, res, raw)
		if res != driver.ResultSuccess {
			t.Errorf("%s: reading the log: %v", name, res)
		}
		for _, entry := range parseLog(raw) {
			if entry.op == e.Op && entry.text != "" && !strings.Contains(e.Detail, entry.text) {
				t.Errorf("%s: the error lacks %q", name, entry.text)
			}
		}
		if raw != "" && len(parseLog(raw)) == 0 {
			t.Errorf("%s: the log has another form", name)
		}
	}
}
