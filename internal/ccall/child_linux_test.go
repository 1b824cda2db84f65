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

// childEnv is set, to what the child is to do, in the processes that tests
// start of their own binary.
const childEnv = "PURECU_TEST_CHILD"

// errTimeout is what runChild returns if the child hangs.
var errTimeout = errors.New("the child process hangs")

// runChild runs one test in a process of its own, with childEnv set to what,
// and returns its output. An emulator that runs the test binary has to be
// named, with its arguments, in PURECU_TEST_EXEC.
func runChild(t *testing.T, test, what string, env ...string) (output string, err error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), exe,
		"-test.run=^"+test+"$", "-test.timeout=0")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// What a child leaves behind that is killed, or crashes, goes with the test's.
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
