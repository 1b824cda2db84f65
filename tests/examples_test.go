package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
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
	library  bool                           // it needs another library, and has tests of its own
	check    func(t *testing.T, dir string) // checks the files that it wrote to the folder for temporary files
}

// examples holds every program in examples, by its folder.
var examples = map[string]example{
	"graph": {
		prints: `^enqueued in \S+, all done in \S+, \{Calls:\d+ Spans:1000 .* Err:<nil>\}\n` +
			`1000 replays by one interval: \S+\n\d+ bytes for ui.perfetto.dev in \S+graph-trace.json\n$`,
		undriven: 1,
		check:    checkGraphTrace,
	},
	"compile":        {library: true},
	"health":         {library: true},
	"hello-event":    {prints: `^the stop event is (pending|complete)\nthe GPU was busy for \d\S*\n$`, undriven: 1},
	"nodecheck":      {prints: `^ok\n$`, undriven: 10},
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
			if e.library {
				continue
			}
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

// TestNodecheck checks the exit status of nodecheck, and what it says, for each software driver that it offers.
func TestNodecheck(t *testing.T) {
	bin := buildExamples(t)
	for _, tt := range []struct {
		sim    string
		status int
		says   string
	}{
		{"ok", 0, `^ok\n$`},
		{"hang", 0, `^ok\n$`}, // slow, but within the limit
		{"hang -limit 500ms", 14, `^nodecheck: .* cuDevicePrimaryCtxRetain: .* deadline exceeded; the driver has not`},
		{"misspelt", 1, `^nodecheck: there is no -sim misspelt: see -help\n$`},
		{"nodevice", 11, `^nodecheck: cu: cuInit: no CUDA device; `},
		{"old", 12, `^nodecheck: cu: Open: .* CUDA 11\.8, .* 12\.4: `},
		{"poisoned", 13, `^nodecheck: device 0 \(.*\): .* context is poisoned .* \(700\): .*\n$`},
		{"busy", 14, `^nodecheck: device 0 \(.*\): .* \(46\): .*\n$`},
		{"lost", 14, `^nodecheck: device 0 \(.*\): .* \(46\): .*\n$`},
		{"stub", 15, `^nodecheck: cu: cuInit: .* \(34\): `},
		{"mismatch", 15, `^nodecheck: cu: cuInit: .* \(803\): `},
		{"unknown", 15, `^nodecheck: cu: cuInit: .* \(999\): `},
		{"oom", 15, `^nodecheck: device 0 \(.*\): .* \(2\): out of memory; .*\n$`},
	} {
		t.Run(tt.sim, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "nodecheck"), strings.Fields("-sim "+tt.sim)...)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != tt.status || !regexp.MustCompile(tt.says).Match(out) {
				t.Errorf("exit status %d: %q; want %d, %s", got, out, tt.status, tt.says)
			}
		})
	}
}

// buildExamples builds all examples, once, without cgo. It returns the folder of the programs.
func buildExamples(t *testing.T) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(moduleRoot, "examples", "*", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, main := range dirs {
		if isFile(filepath.Join(filepath.Dir(main), "go.mod")) {
			continue // it is a module of its own, with tests of its own
		}
		if name := filepath.Base(filepath.Dir(main)); examples[name].prints == "" && !examples[name].library {
			t.Errorf("the table examples lacks %s", name)
		}
	}
	bin, err := builtExamples()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

var builtExamples = sync.OnceValues(func() (string, error) {
	bin, err := scratch()
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "./examples/...")
	build.Dir = moduleRoot
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", build, err, out)
	}
	return bin, nil
})

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
