package nvml

import (
	"errors"
	"os"
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

// TestRemediesOfReads checks that functions that change nothing are not taken for those that do.
func TestRemediesOfReads(t *testing.T) {
	for _, op := range []string{"nvmlSystemGetTopologyGpuSet", "nvmlEventSetCreate", "nvmlEventSetWait_v2",
		"nvmlSystemEventSetCreate"} {
		for _, r := range []raw.Return{ErrNotSupported, ErrNoPermission} {
			if remedy(op, r) != remedy("nvmlDeviceGetEccMode", r) {
				t.Errorf("%s, %v: %s", op, r, remedy(op, r))
			}
		}
	}
}

// TestList checks that a list that is never long enough does not keep a caller for ever.
func TestList(t *testing.T) {
	calls := 0
	all, r := list(func(n *uint32, list []int) raw.Return {
		if calls++; calls > 100 {
			return raw.NVML_ERROR_UNKNOWN
		}
		*n = 1
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	})
	if all != nil || r != raw.NVML_ERROR_INSUFFICIENT_SIZE {
		t.Errorf("%v (%v) after %d calls", all, r, calls)
	}
	length := uint32(1)
	numbers, r := list(func(n *uint32, list []int) raw.Return { // grows before each call
		room := *n
		*n = length
		if length += 7; room < *n && length < 50 {
			return raw.NVML_ERROR_INSUFFICIENT_SIZE
		}
		return raw.NVML_SUCCESS
	})
	if r != raw.NVML_SUCCESS || len(numbers) == 0 {
		t.Errorf("%v (%v)", numbers, r)
	}
}

// TestError checks what errors say and match.
func TestError(t *testing.T) {
	o := &object{name: "device 3"}
	err := o.fail("nvmlDeviceGetPowerUsage", ErrGPULost)
	for _, want := range []string{"nvmlDeviceGetPowerUsage", "device 3", "NVML_ERROR_GPU_IS_LOST", "(15)", "XID 79"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %s", err, want)
		}
	}
	var e *Error
	if !errors.Is(err, ErrGPULost) || errors.Is(err, ErrNotSupported) || !errors.As(err, &e) ||
		e.Op != "nvmlDeviceGetPowerUsage" {
		t.Errorf("%v matches the wrong errors", err)
	}
	if err := o.fail("nvmlDeviceGetFanSpeed", ErrNotSupported); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v does not match errors.ErrUnsupported", err)
	}
	_, err = Open(WithPath("/no such file"))
	if !errors.As(err, &e) || e.Op != "Open" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open of no file: %v", err)
	}
	if (*Error)(nil).Error() == "" || (*Error)(nil).Unwrap() != nil {
		t.Error("a nil *Error is not like no error")
	}
}
