package ccall

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"
)

// gourg builds the Go library in testdata/gourg and returns its path. If PURECU_TEST_CLIB is set,
// it returns libgourg.so in that folder.
func gourg(t *testing.T) string {
	t.Helper()
	if path := filepath.Join(os.Getenv("PURECU_TEST_CLIB"), "libgourg.so"); path != "libgourg.so" {
		if _, err := os.Stat(path); err != nil {
			t.Skip("PURECU_TEST_CLIB has no libgourg.so")
		}
		return path
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command to build the test library with")
	}
	cc, err := compiler()
	if why := skip(""); errors.As(err, &why) {
		t.Skip(why)
	} else if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "libgourg.so")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", path, "./testdata/gourg")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "CC="+cc)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestPreemptSignal loads a library written in Go, which replaces the handler of SIGURG. If Open
// did not restore the handler, this program could no longer preempt goroutines, and a loop without
// calls would block the garbage collector forever.
func TestPreemptSignal(t *testing.T) {
	path := os.Getenv("PURECU_TEST_GOURG")
	what := os.Getenv(childEnv)
	if what == "" {
		path := gourg(t)
		for _, what := range []string{"dlopen", "Open"} {
			if what == "dlopen" && Engine == "static" {
				continue // only Open can open libraries with this engine
			}
			out, err := runChild(t, "TestPreemptSignal", what, "PURECU_TEST_GOURG="+path)
			if err != nil {
				t.Errorf("%s: %v; the child's output:\n%s", what, err, out)
			}
		}
		return
	}

	if Engine == "static" { // it installs its handlers when it is initialised
		if _, err := Open("libc.so.6"); err != nil {
			t.Fatal(err)
		}
	}
	before := urgAction(t)
	if what == "dlopen" {
		// Check that the library replaces the handler if it is loaded without this package.
		if err := dlopen(path); err != nil {
			t.Fatal(err)
		}
		if urgAction(t) == before {
			t.Error("the library has not replaced the handler of SIGURG, so the test is void")
		}
		return
	}

	// The collector must not start while the library is loaded, when it could not preempt the
	// loops. Go's scheduler preempts them all the time.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GOMAXPROCS(8)
	var started atomic.Int32
	var stop atomic.Bool
	var loops sync.WaitGroup
	loop := func() {
		started.Add(1)
		for !stop.Load() {
		}
	}
	for range 4 {
		loops.Go(loop)
	}
	for started.Load() < 4 {
		runtime.Gosched()
	}
	lib, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if after := urgAction(t); after != before {
		t.Errorf("the disposition of SIGURG changed from %#x to %#x", before, after)
	}
	answer, err := lib.Lookup("Answer")
	if err != nil {
		t.Fatal(err)
	}
	if got := int32(call6(answer)); got != 42 {
		t.Errorf("the library's answer is %d, want 42", got)
	}
	if after := urgAction(t); after != before {
		t.Errorf("the disposition of SIGURG changed from %#x to %#x when the library was called", before, after)
	}

	loops.Go(loop)
	for started.Load() < 5 {
		runtime.Gosched()
	}
	for range 10 {
		runtime.GC() // blocks forever if a loop cannot be preempted
	}
	stop.Store(true)
	loops.Wait()

	// The library keeps the handlers of faults, and forwards the faults of other code.
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic from a nil pointer")
			}
		}()
		var p *int
		*p = 1
	}()
}

// urgAction returns the kernel's disposition of SIGURG for this process.
func urgAction(t *testing.T) (action [4]uint64) {
	t.Helper()
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGURG),
		0, uintptr(unsafe.Pointer(&action)), 8, 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	return action
}
