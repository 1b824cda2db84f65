package ccall

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childEnv is set in processes that tests start from their own binary. Its value says what the
// process does.
const childEnv = "PURECU_TEST_CHILD"

// errTimeout is the error of runChild if the child hangs.
var errTimeout = errors.New("the child process hangs")

// runChild runs one test in another process, with childEnv set to what, and returns its output. If
// the test binary needs an emulator, PURECU_TEST_EXEC is its command line. One in some hundred emulated processes with
// many threads hangs, so that such a process is tried again.
func runChild(t *testing.T, test, what string, env ...string) (output string, err error) {
	t.Helper()
	output, err = startChild(t, test, what, env...)
	if os.Getenv("PURECU_TEST_EXEC") != "" && errors.Is(err, errTimeout) {
		t.Logf("the emulated process hangs, and is tried again; its output:\n%s", output)
		output, err = startChild(t, test, what, env...)
	}
	return output, err
}

// startChild makes one try of runChild.
func startChild(t *testing.T, test, what string, env ...string) (output string, err error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), exe,
		"-test.run=^"+test+"$", "-test.timeout=0")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // the machine may have others to serve
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// Files that a killed or crashed child leaves are removed with the test's folder.
	cmd.Env = append(append(os.Environ(), childEnv+"="+what, "TMPDIR="+t.TempDir()), env...)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if errors.Is(err, syscall.ENOEXEC) {
		t.Skip("this system cannot run the test binary by itself, and PURECU_TEST_EXEC is not set")
	}
	if ctx.Err() != nil {
		err = errTimeout
	}
	return out.String(), err
}
