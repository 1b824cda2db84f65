package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/cutest"
	"github.com/purecu/purecu/tests/traceformat"
)

// An example is a program in examples.
type example struct {
	prints   string                         // what it prints, as a regular expression
	undriven int                            // its exit status without a driver; 0 if it needs none
	unfaked  bool                           // the fake driver in C lacks its kernel
	check    func(t *testing.T, dir string) // checks the files that it wrote to the folder for temporary files
}

// examples holds every program in examples, by its folder.
var examples = map[string]example{
	"graph": {
		prints: `^enqueued in \S+ all done in \S+ \{Calls:\d+ Spans:1000 .* Err:<nil>\}\n` +
			`1000 replays by one interval: \S+\n\d+ bytes for ui.perfetto.dev in \S+graph-trace.json\n$`,
		undriven: 1,
		check:    checkGraphTrace,
	},
	"hello-event":    {prints: `^the stop event is (pending|complete)\nthe GPU was busy for \d\S*\n$`, undriven: 1},
	"trace-pipeline": {prints: `^open trace.json in ui.perfetto.dev\n$`},
	"two-processes":  {prints: `^the parent's work is done\n$`, undriven: 1},
	"two-streams":    {prints: `^both kernels are done, after \d+m?s\n$`, undriven: 1},
	"vecadd":         {prints: `^ok 3\.145725e\+06\nasync ok true 7\n$`, undriven: 1, unfaked: true},
}

// TestExamples runs all examples on the software driver that PURECU_DRIVER chooses, and, if
// PURECU_TEST_GPU is set, on the machine's GPU.
func TestExamples(t *testing.T) {
	bin := buildExamples(t)
	drivers := map[string][]string{"soft": {"PURECU_DRIVER=soft", "CUDA_DRIVER_LIBRARY=/nonexistent"}}
	if path := os.Getenv(cutest.Environment); path == "1" {
		drivers["gpu"] = []string{"PURECU_DRIVER="}
	} else if path != "" {
		drivers["gpu"] = []string{"PURECU_DRIVER=" + path}
	}
	for driver, environ := range drivers {
		for name, e := range examples {
			t.Run(driver+"/"+name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, filepath.Join(bin, name))
				cmd.Dir, cmd.WaitDelay = t.TempDir(), time.Second
				cmd.Env = append(append(os.Environ(), "TMPDIR="+cmd.Dir), environ...)
				out, err := cmd.CombinedOutput()
				if err != nil || !regexp.MustCompile(e.prints).Match(out) {
					t.Errorf("%v: %q; want %s", err, out, e.prints)
				} else if e.check != nil {
					e.check(t, cmd.Dir)
				}
			})
		}
	}
}

// buildExamples builds all examples without cgo, and returns the folder of the programs.
func buildExamples(t *testing.T) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(moduleRoot, "examples", "*", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, main := range dirs {
		if name := filepath.Base(filepath.Dir(main)); examples[name].prints == "" {
			t.Errorf("the table examples lacks %s", name)
		}
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "./examples/...")
	build.Dir = moduleRoot
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	return bin
}

// checkGraphTrace checks that the trace has an interval of the GPU for each launch of the graph.
func checkGraphTrace(t *testing.T, dir string) {
	data, err := os.ReadFile(filepath.Join(dir, "graph-trace.json"))
	if err != nil {
		t.Fatal(err)
	}
	trace, err := traceformat.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	calls, replays := 0, map[string]bool{}
	for _, e := range trace.Events {
		switch {
		case e.Ph != "X":
		case e.Cat == "host":
			calls++
		case strings.HasPrefix(e.Name, "replay "):
			replays[e.Name] = true
		default:
			t.Errorf("the trace has %+v", e)
		}
	}
	if calls < 1000 || len(replays) != 1000 {
		t.Errorf("the trace has %d calls and the replays %d; want 1000 of each at least", calls, len(replays))
	}
}
