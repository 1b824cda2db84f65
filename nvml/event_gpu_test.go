package nvml_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
)

// The machine's NVML waits for events as this package expects it.
func TestGPUEvents(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	lib, err := nvml.Open(nvml.WithTimeout(10 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	dev, err := lib.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := dev.SupportedEvents()
	t.Logf("%v reports %v, %v", dev, kinds, err)
	if kinds&nvml.EventXIDCritical == 0 {
		t.Skip("the device reports no XIDs")
	}
	set, err := lib.NewEventSet()
	if err != nil {
		t.Fatal(err)
	}
	quiet := func(what string, wait func(context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := wait(ctx)
		if d := time.Since(began); err != nil && d > 350*time.Millisecond {
			t.Errorf("%s: a wait for 250 ms lasts %v", what, d)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	waits := func(ctx context.Context) error {
		ev, err := set.Wait(ctx)
		if err == nil {
			t.Log(ev)
		}
		return err
	}
	quiet("an empty set", waits)
	const unknown = 1 << 50
	if err := set.Add(dev, nvml.EventXIDCritical|unknown); err == nil || !strings.Contains(err.Error(), "does not report 0x4000000000000") {
		t.Errorf("an unknown kind was added: %v", err)
	}
	if err := set.Add(dev, kinds); err != nil {
		t.Fatal(err)
	}
	quiet("all kinds", waits)

	system, err := lib.NewSystemEventSet(nvml.SystemEventDriverBind | nvml.SystemEventDriverUnbind)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		t.Log(err)
	case err != nil:
		t.Error(err)
	default:
		quiet("the machine", func(ctx context.Context) error {
			ev, err := system.Wait(ctx)
			if err == nil {
				t.Log(ev)
			}
			return err
		})
		if err := system.Close(); err != nil {
			t.Error(err)
		}
	}
	began := time.Now()
	if err := set.Close(); err != nil {
		t.Error(err)
	}
	if err := lib.Close(); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("the end lasts %v", d)
	}
}
