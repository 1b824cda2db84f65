package ccall

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// scratch returns a directory that is removed when the test binary ends.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "ccall") })

// epilogue is printed after all tests and benchmarks.
var epilogue string

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		fmt.Print(epilogue)
		if dir, err := scratch(); err == nil {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

func TestClassString(t *testing.T) {
	for class, want := range map[Class]string{
		Setup: "setup", Hot: "hot", Blocking: "blocking", Blocking + 1: "unknown",
	} {
		if got := class.String(); got != want {
			t.Errorf("Class(%d).String() = %q, want %q", class, got, want)
		}
	}
}

func TestOpenMissing(t *testing.T) {
	// An absolute name, so that nothing is searched.
	name := filepath.Join(t.TempDir(), "libmissing.so.1")
	l, err := Open(name)
	if err == nil {
		t.Fatalf("Open(%q) = %v, want an error", name, l)
	}
	if l != (Library{}) {
		t.Errorf("Open(%q) = %v with an error, want the zero Library", name, l)
	}
	if !strings.Contains(err.Error(), "libmissing.so.1") {
		t.Errorf("Open(%q): %v; want the name in it", name, err)
	}
}

// pad is how much of the stack one level of grow uses, at least.
const pad = 256

// grow uses n*pad bytes of the goroutine's stack for a moment.
//
//go:noinline
func grow(n int) byte {
	var b [pad]byte
	b[n%pad] = byte(n)
	if n > 0 {
		b[0] += grow(n - 1)
	}
	return b[0] + b[n%pad]
}

// together runs f in n goroutines and waits for them. An error of any of them fails the test.
func together(t *testing.T, n int, f func(g int) error) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, n)
	for g := range n {
		wg.Go(func() { errs[g] = f(g) })
	}
	wg.Wait()
	failed := 0
	for g, err := range errs {
		if err == nil {
			continue
		}
		if failed++; failed <= 3 {
			t.Errorf("goroutine %d: %v", g, err)
		}
	}
	if failed > 3 {
		t.Error(fmt.Sprint(failed-3, " more goroutines failed"))
	}
}

// rounds returns n, or a tenth of it with -short or an emulator.
func rounds(n int) int {
	if testing.Short() || raceEnabled || os.Getenv("PURECU_TEST_EXEC") != "" {
		return n/10 + 1
	}
	return n
}
