package cu_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/ccall"
	. "github.com/purecu/purecu/internal/testrig"
)

// baseline is the C side, and the driver functions that it calls.
type baseline struct {
	t    testing.TB
	lib  ccall.Library
	proc func(name string) uintptr
}

// newBaseline loads tests/gpu/baseline.c: built beforehand in the folder that
// PURECU_TEST_CLIB names, else by the machine's C compiler.
func newBaseline(t testing.TB, drv *Driver) *baseline {
	t.Helper()
	path := filepath.Join(os.Getenv("PURECU_TEST_CLIB"), "libbaseline.so")
	if os.Getenv("PURECU_TEST_CLIB") == "" {
		path = filepath.Join(t.TempDir(), "libbaseline.so")
		out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", path, "../tests/gpu/baseline.c").CombinedOutput()
		if err != nil {
			t.Skipf("no C baseline: %v\n%s", err, out)
		}
	}
	lib, err := ccall.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return &baseline{t, lib, func(name string) uintptr {
		return Need(drv.Proc(name))(t).Addr()
	}}
}

// ns calls one of the C functions and returns its answer in nanoseconds.
func (b *baseline) ns(name string, args ...any) float64 {
	b.t.Helper()
	return float64(b.call(name, args...)) / 1000
}

// call calls one of the C functions and returns its answer, which is 0 if it has failed.
func (b *baseline) call(name string, args ...any) uintptr {
	b.t.Helper()
	fn := Need(b.lib.Lookup("baseline_" + name))(b.t)
	r, err := ccall.Invoke(fn, ccall.Blocking, args...)
	if err != nil || r == 0 {
		b.t.Fatalf("%s: %v, %v", name, r, err)
	}
	return r
}

// The operations that tests/gpu/peers/costs.py measures for other libraries, and
// calls the same.
const (
	opQueryPending  = "query a pending event"
	opQueryComplete = "query a completed event"
	opRecord        = "record, untimed"
	opRecordTimed   = "record, timed"
	opRecordLegacy  = "record on the default stream"
	opWaitEvent     = "wait for an event"
	opWaitStream    = "wait for a stream"
	opElapsed       = "elapsed time"
	opCreate        = "create, destroy"
	opCreateRecord  = "create, first record, destroy"
	opMoment        = "an event for a moment"
	opMomentRecord  = "an event for a moment, recorded"
	opStreamBusy    = "query a busy stream"
	opStreamIdle    = "query an idle stream"
	opLaunch        = "launch an empty kernel"
	opCopy          = "copy 4 KiB from pinned memory"
	opLaunchArgs    = "launch a kernel with 4 arguments"
	opMemset        = "set 4 KiB"
	opGraph         = "launch a graph of 10 kernels"
)

// TestPeersMeasureTheSame holds the operations here to those of the script that
// measures other libraries.
func TestPeersMeasureTheSame(t *testing.T) {
	text, err := os.ReadFile("../tests/gpu/peers/costs.py")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?s)\nOPERATIONS = \((.*?)\n\)`).FindSubmatch(text)
	if block == nil {
		t.Fatal("costs.py has no OPERATIONS")
	}
	var got []string
	for _, m := range regexp.MustCompile(`"(.*?)"`).FindAllSubmatch(block[1], -1) {
		got = append(got, string(m[1]))
	}
	want := []string{
		opQueryPending, opQueryComplete, opStreamBusy, opStreamIdle, opRecord, opRecordTimed, opRecordLegacy,
		opWaitEvent, opWaitStream, opElapsed, opCreate, opCreateRecord, opMoment, opMomentRecord, opLaunch, opCopy,
		opLaunchArgs, opMemset, opGraph,
		"empty loop", // which costs nothing in C and Go
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("operations of costs.py (-here +there):\n%s", d)
	}
}
