package main

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
	"github.com/purecu/purecu/tests/traceformat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write testdata/trace.json")

// TestTrace runs the pipeline in virtual time, in which its trace is always the same.
func TestTrace(t *testing.T) {
	drv, sim := cutest.Soft(t, cusim.VirtualTime())
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close()
	var got bytes.Buffer
	pause := func(d time.Duration) { sim.Advance(d) }
	if err := run(t.Context(), gpu, &got, pause, func() { sim.Finish() }); err != nil {
		t.Fatal(err)
	}
	if _, err := traceformat.Parse(got.Bytes()); err != nil {
		t.Error(err)
	}
	const golden = "testdata/trace.json"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("trace (-want +got); go test ./examples/trace-pipeline -update writes it:\n%s", diff)
	}
}
