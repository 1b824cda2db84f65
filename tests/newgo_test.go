package tests

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// TestNewerGo builds for a version of Go whose runtime functions are not known: without the static
// engine, calls of C take the portable engine, and with it the compiler says what is needed. The tag of
// that version is the only difference, as the version does not exist yet.
func TestNewerGo(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the other engines are for Linux")
	}
	build := func(tags string) (string, error) {
		cmd := exec.Command("go", "build", "-tags", tags, "./internal/ccall")
		cmd.Dir, cmd.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := build("go1.28"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	const want = "undefined: cu_static_needs_CGO_ENABLED_0_and_amd64_or_arm64_and_Go_before_1_28"
	if out, err := build("go1.28,cu_static"); err == nil || !strings.Contains(out, want) {
		t.Errorf("with cu_static: %v\n%s", err, out)
	}
	if out, err := build("go1.28,cu_portable"); err != nil {
		t.Errorf("with cu_portable: %v\n%s", err, out)
	}
}
