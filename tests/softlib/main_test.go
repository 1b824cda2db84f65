// Package softlib tests the software driver as a C library, which cusim/libcuda builds: from C,
// from Python, and as a library that package loader finds.
//
// The tests build the library, unless PURECU_TEST_SOFTLIB is the path of one.
package softlib

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		runChild(what) // ends the process
	}
	dir, err := scratch()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// scratch returns a directory that is removed when the test binary ends.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "softlib") })

// skip is an error that says why tests cannot run here.
type skip string

func (s skip) Error() string { return string(s) }

// built returns the path of libcuda.so.1.
var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("PURECU_TEST_SOFTLIB"); path != "" {
		return path, nil
	}
	if _, err := compiler(); err != nil {
		return "", err
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", skip("there is no go command to build the library with")
	}
	dir, err := scratch()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "run", "./cusim/libcuda/build", "-o", dir)
	cmd.Dir = moduleRoot
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return filepath.Join(dir, "libcuda.so.1"), nil
})

const moduleRoot = "../.."

// library returns the path of libcuda.so.1. It skips the test if the library cannot be built.
func library(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" || !slices.Contains([]string{"amd64", "arm64"}, runtime.GOARCH) {
		t.Skip("the library is for Linux on amd64 and arm64")
	}
	path, err := built()
	if why := skip(""); errors.As(err, &why) {
		t.Skip(why)
	} else if err != nil {
		t.Fatal(err)
	}
	return path
}

// compiler returns the path of the C compiler.
func compiler() (string, error) {
	for _, name := range []string{os.Getenv("CC"), "cc", "gcc"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", skip("there is no C compiler")
}

// limit is how long a program may take before it is killed.
const limit = 2 * time.Minute

// run runs a program with additional environment variables, and returns its standard error. The
// exit status must be 0.
func run(t *testing.T, env []string, argv ...string) (stderr string) {
	t.Helper()
	_, stderr = output(t, env, argv...)
	return stderr
}

// output is like run, and also returns the standard output.
func output(t *testing.T, env []string, argv ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// Ignore the caller's variables for the driver.
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CUSIM_") && !strings.HasPrefix(v, "CUDA_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it hung, and was killed after %v", limit)
		}
		t.Fatalf("%v: %v\n%s%s", argv, err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}
