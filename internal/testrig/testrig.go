// Package testrig has what tests of package cu and of the packages in its folder share: a software driver with the
// usual things, the driver of a GPU where there is one, kernels, and short ways to check. Only tests import it.
//
// It gets to states as package internal/subject does, and by nothing that only the tests of one package see.
package testrig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
)

// MiB is the number of bytes of a mebibyte.
const MiB = 1 << 20

// Need returns v, or ends the test.
func Need[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Need2 is Need for a function that returns a rest, too.
func Need2[T, R any](v T, _ R, err error) func(testing.TB) T { return Need(v, err) }

// NoErr ends the test if there is an error.
func NoErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ErrorOf returns the error of a call, whose value is not looked at.
func ErrorOf[T any](_ T, err error) error { return err }

// CloseIt closes an object, which must succeed.
func CloseIt(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("%T: %v", c, err)
	}
}

// Eventually collects garbage until the condition holds. It gives up when
// that can no longer be a matter of time.
func Eventually(condition func() bool) bool {
	for i := 0; !condition(); i++ {
		if i == 500 {
			return false
		}
		runtime.GC()
		time.Sleep(time.Duration(min(i, 10)) * time.Millisecond)
	}
	return true
}

// OpenNeverWait is [Open], and ends the process where a call of the Driver that must not wait for the GPU calls a
// function that may.
func OpenNeverWait(opts ...cu.Option) (*cu.Driver, error) {
	drv, err := cu.Open(opts...)
	if err == nil {
		core.Of(drv).Table().OnWait(func(function string) {
			debug.SetTraceback("all")
			panic(function + " may wait for the GPU, and is called where nothing may wait: in the background, " +
				"or by a call that is documented to return at once")
		})
	}
	return drv, err
}

// Ended returns a context that has ended with a cause of its own.
func Ended() (context.Context, error) {
	cause := errors.New("no patience")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx, cause
}

// Fewer returns n, or a tenth of it with -short, and under the race detector, where each operation takes far longer: it
// needs not many of them to see two that no lock orders. The whole of n is for mistakes that need luck.
func Fewer(n int) int {
	if testing.Short() || core.RaceEnabled {
		return n / 10
	}
	return n
}

// OpenFiles returns how many files the process has open, and 0 where the system does not say.
func OpenFiles() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}

// CheckCloseOnExec checks that a file is closed when the process starts a program.
func CheckCloseOnExec(t *testing.T, f *os.File) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd()))
	NoErr(t, err)
	_, flags, _ := strings.Cut(string(info), "flags:")
	flags, _, _ = strings.Cut(flags, "\n")
	const closeOnExec = 0o2000000
	if n, err := strconv.ParseUint(strings.TrimSpace(flags), 8, 64); err != nil || n&closeOnExec == 0 {
		t.Errorf("%s has the flags %s: a program that is started gets it", f.Name(), flags)
	}
}
