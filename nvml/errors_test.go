package nvml

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/purecu/purecu/nvml/raw"
)

// TestRemedies checks that every result of NVML has a remedy.
func TestRemedies(t *testing.T) {
	known := 0
	for r := raw.NVML_SUCCESS + 1; r <= raw.NVML_ERROR_UNKNOWN; r++ {
		if r.Name() == "" {
			continue
		}
		known++
		if remedy("nvmlDeviceGetName", r) == "" {
			t.Errorf("%v has no remedy", r)
		}
	}
	if known < 30 {
		t.Errorf("there are only %d results", known)
	}
	for _, r := range []raw.Return{ErrNotSupported, ErrNoPermission} {
		if remedy("nvmlDeviceGetEccMode", r) == remedy("nvmlDeviceSetEccMode", r) {
			t.Errorf("%v has the same remedy for a value and for a change", r)
		}
	}
}

// TestError checks what errors say and match.
func TestError(t *testing.T) {
	o := &object{name: "device 3"}
	err := o.fail("nvmlDeviceGetPowerUsage", ErrGPULost)
	for _, want := range []string{"nvmlDeviceGetPowerUsage", "device 3", "NVML_ERROR_GPU_IS_LOST", strconv.Itoa(int(ErrGPULost)), "XID 79"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %s", err, want)
		}
	}
	var e *Error
	if !errors.Is(err, ErrGPULost) || errors.Is(err, ErrNotSupported) || !errors.As(err, &e) || e.Op != "nvmlDeviceGetPowerUsage" {
		t.Errorf("%v matches the wrong errors", err)
	}
	if err := o.fail("nvmlDeviceGetFanSpeed", ErrNotSupported); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v does not match errors.ErrUnsupported", err)
	}
	if _, err := Open(WithPath("/no such file")); !errors.As(err, &e) || e.Op != "Open" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open of no file: %v", err)
	}
	if (*Error)(nil).Error() == "" || (*Error)(nil).Unwrap() != nil {
		t.Error("a nil *Error is not like no error")
	}
}
