//go:build !explore

package handle

import (
	"os/exec"
	"strings"
	"testing"
)

// TestInlined checks that the compiler can inline the functions that every call on a handle uses.
// For this the functions have to be short, and the atomic operations have to be inlined into them.
func TestInlined(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go toolchain found")
	}
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, f := range []string{
		"(*Refs).Acquire", "(*Refs).Enter", "(*Refs).Release", "(*Refs).Retain", "(*Refs).Sole", "(*Refs).Closed",
		"(*Refs).AcquireGated", "(*Refs).ReleaseGated",
		"(*Records).TryBegin", "(*Records).TryEnd", "(*Records).Acquire", "(*Records).Release",
		"(*Records).Complete", "(*Records).Unrecorded",
		"(*Records).Gen", "(*Records).Remember", "(*Records).HasWaits", "(*Records).Bits", "(*Users).Hold",
	} {
		if !strings.Contains(string(out), "can inline "+f+"\n") {
			t.Errorf("%s is not inlined", f)
		}
	}
	if !strings.Contains(string(out), "inlining call to atomic.(*Uint64).Add") {
		t.Error("atomic operations are calls: the package has to import sync/atomic itself")
	}
}
