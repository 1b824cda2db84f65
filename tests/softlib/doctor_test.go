package softlib

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctor checks that cuprobe says once that this library is simulated, and does not report a
// missing GPU.
func TestDoctor(t *testing.T) {
	lib := library(t)
	program := filepath.Join(t.TempDir(), "cuprobe")
	build := exec.Command("go", "build", "-o", program, "./cmd/cuprobe")
	build.Dir = moduleRoot
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tt := range []struct {
		name, env string
		args      []string
		status    int
		says      string
	}{
		{"by its path", "", []string{"-driver", lib, "doctor"}, 0, "\nverdict      the driver is simulated: 1 device of it passed every check, which says nothing about a GPU\n"},
		{"found", "LD_LIBRARY_PATH=" + filepath.Dir(lib), []string{"doctor"}, 0, "\nverdict      the driver is simulated: 1 device"},
		{"without a device", "CUSIM_DEVICES=0", []string{"-driver", lib, "doctor"}, 4, "the software driver has no device: ask for some with"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, tt.args...)
			cmd.Env = append(os.Environ(), tt.env)
			out, err := cmd.Output()
			status := 0
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				status = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			text := string(out)
			if status != tt.status || strings.Count(text, tt.says) != 1 {
				t.Errorf("exit status %d, and it says\n%s", status, text)
			}
			for _, not := range []string{"no NVIDIA GPU", "CUDA works", "nvidia-smi"} {
				if strings.Contains(text, not) {
					t.Errorf("it says %q:\n%s", not, text)
				}
			}
		})
	}
}
