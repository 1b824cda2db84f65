package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestExamplesWithoutGPU runs all examples on the software driver that PURECU_DRIVER chooses.
func TestExamplesWithoutGPU(t *testing.T) {
	dirs, err := filepath.Glob("../examples/*/main.go")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("there are no examples: %v", err)
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "../examples/...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, main := range dirs {
		name := filepath.Base(filepath.Dir(main))
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(bin, name))
			cmd.Dir, cmd.WaitDelay = t.TempDir(), time.Second
			cmd.Env = append(os.Environ(), "PURECU_DRIVER=soft", "CUDA_DRIVER_LIBRARY=/nonexistent")
			out, err := cmd.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) == "" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
