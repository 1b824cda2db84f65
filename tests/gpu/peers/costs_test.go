// Package peers tests the script that measures other CUDA libraries, with stubs of the libraries:
// that it measures what it claims, and that it reports what is missing. The times themselves mean
// nothing here.
package peers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is the result of a run of the script.
type result struct {
	status int
	notes  string
	// rounds has the number of rounds of each operation, in order.
	rounds []string
}

const rounds = 3

// torchStubs are the folders with the stub of torch.
var torchStubs = []string{"lib", "torchstub"}

// runScript runs costs.py for a peer. The stubs are in folders of testdata. FAULT and STUCK in env
// make the stubs fail.
func runScript(t *testing.T, peer string, stubs []string, env ...string) result {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: ", err)
	}
	var path []string
	for _, s := range stubs {
		path = append(path, filepath.Join("testdata", s))
	}
	var out, notes bytes.Buffer
	// With -S, Python ignores the packages of this machine.
	cmd := exec.CommandContext(t.Context(), python, "-S", "-B", "costs.py", peer, "--rounds", strconv.Itoa(rounds), "--ms", "0.01")
	cmd.Env = append(os.Environ(), append(env, "PYTHONPATH="+strings.Join(path, string(os.PathListSeparator)))...)
	cmd.Stdout, cmd.Stderr = &out, &notes
	r := result{}
	if err := cmd.Run(); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			t.Fatal(err)
		}
		r.status = exit.ExitCode()
	}
	r.notes = notes.String()

	counts := map[string]int{}
	for line := range strings.Lines(out.String()) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			t.Fatalf("%q has %d fields, not 4", line, len(f))
		}
		counts[f[1]]++
		if ns, err := strconv.ParseFloat(f[3], 64); f[0] != peer || f[2] != strconv.Itoa(counts[f[1]]) || err != nil || ns <= 0 {
			t.Errorf("%q is not a measurement of %s in round %d", line, peer, counts[f[1]])
		}
		if n := fmt.Sprint(f[1], ": ", counts[f[1]]); counts[f[1]] == 1 {
			r.rounds = append(r.rounds, n)
		} else {
			r.rounds[len(r.rounds)-1] = n
		}
	}
	return r
}

// all returns three rounds of each operation, except for those in but.
func all(operations []string, but ...string) []string {
	var list []string
	for _, op := range operations {
		if !slices.Contains(but, op) {
			list = append(list, fmt.Sprint(op, ": ", rounds))
		}
	}
	return list
}

func TestScript(t *testing.T) {
	torch := []string{
		"query a pending event", "query a completed event", "query a busy stream", "query an idle stream",
		"record, untimed", "record, timed", "record on the default stream", "wait for an event", "wait for a stream",
		"elapsed time", "create, first record, destroy", "an event for a moment, recorded", "copy 4 KiB from pinned memory",
		"launch a kernel with 4 arguments", "set 4 KiB", "launch a graph of 10 kernels", "empty loop",
	}
	core := []string{
		"query a pending event", "query a completed event",
		"record, untimed", "record, timed", "record on the default stream", "wait for an event", "wait for a stream",
		"elapsed time", "create, destroy", "create, first record, destroy", "an event for a moment", "an event for a moment, recorded", "launch an empty kernel",
		"copy 4 KiB from pinned memory", "launch a kernel with 4 arguments", "set 4 KiB",
		"launch a graph of 10 kernels", "empty loop",
	}
	for _, tt := range []struct {
		name  string
		peer  string
		stubs []string
		env   []string
		want  result // notes is a pattern for all notes
	}{
		{"torch", "torch", torchStubs, nil, result{0, `torch 2\.99, Python 3\S+\n`, all(torch)}},
		{"cuda.core", "cuda.core", []string{"lib", "newcore"}, nil, result{0, `cuda\.core 9\.9, Python 3\S+\n`, all(core)}},
		{"cuda.core of before 0.5", "cuda.core", []string{"lib", "oldcore"}, nil, result{
			0,
			`cuda\.core 0\.3\.2, .*\n` +
				`cuda\.core: launch an empty kernel: left out, as this version is different: AttributeError: .*ObjectCode.*\n` +
				`cuda\.core: copy 4 KiB from pinned memory: left out, as this version is different: AttributeError: .*LegacyPinned.*\n` +
				`cuda\.core: launch a kernel with 4 arguments: left out, as this version is different: AttributeError: .*ObjectCode.*\n` +
				`cuda\.core: launch a graph of 10 kernels: left out, as this version is different: AttributeError: .*ObjectCode.*\n`,
			all(core, "launch an empty kernel", "copy 4 KiB from pinned memory", "launch a kernel with 4 arguments",
				"launch a graph of 10 kernels"),
		}},
		{"no torch", "torch", nil, nil, result{3, `torch is not installed\n`, nil}},
		{"no cuda.core", "cuda.core", nil, nil, result{3, `cuda\.core is not installed\n`, nil}},
		{"no GPU", "torch", torchStubs, []string{"FAULT=no GPU"}, result{1, `torch: torch sees no GPU\n`, nil}},
		{"a name is missing", "torch", torchStubs, []string{"FAULT=no elapsed_time"}, result{
			0, `torch 2.*\ntorch: elapsed time: left out, as this version is different: AttributeError: .*elapsed_time.*\n`,
			all(torch, "elapsed time"),
		}},
		{"a call fails", "torch", torchStubs, []string{"FAULT=wait_stream"}, result{
			1, `torch 2.*\ntorch: wait for a stream: failed: RuntimeError: CUDA error: injected\n`,
			all(torch, "wait for a stream"),
		}},
		{"a preparation fails", "torch", torchStubs, []string{"FAULT=copy_"}, result{
			1, `torch 2.*\ntorch: copy 4 KiB from pinned memory: failed: RuntimeError: CUDA error: injected\n`,
			all(torch, "copy 4 KiB from pinned memory"),
		}},
		{"no pinned memory", "torch", torchStubs, []string{"FAULT=no memory"}, result{
			1, `torch 2.*\ntorch: cuMemHostAlloc: CUresult 2\n`, nil,
		}},
		{"nothing is pending", "torch", torchStubs, []string{"FAULT=gate ignored"}, result{
			1, `torch 2.*\n(torch: query a (pending event|busy stream): failed: Failure: what is measured is not pending, .*\n){2}`,
			all(torch, "query a pending event", "query a busy stream"),
		}},
		{"wrong usage", "cupy", nil, nil, result{2, `(?s).*invalid choice: 'cupy'.*`, nil}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := runScript(t, tt.peer, tt.stubs, tt.env...)
			if got.status != tt.want.status {
				t.Errorf("exit status %d, want %d", got.status, tt.want.status)
			}
			if !regexp.MustCompile(`^` + tt.want.notes + `$`).MatchString(got.notes) {
				t.Errorf("notes\n%s\nare not %s", got.notes, tt.want.notes)
			}
			if d := cmp.Diff(tt.want.rounds, got.rounds); d != "" {
				t.Errorf("rounds (-want +got):\n%s", d)
			}
		})
	}
}

// TestScriptSharedQueues runs the script when streams share the queue of the held stream. The
// script tries other streams, and gives up after a time, so that it does not hang.
func TestScriptSharedQueues(t *testing.T) {
	got := runScript(t, "torch", torchStubs, "STUCK=1")
	if got.status != 0 || len(got.rounds) != 17 {
		t.Errorf("one stream is stuck: exit status %d, %d operations\n%s", got.status, len(got.rounds), got.notes)
	}
	got = runScript(t, "torch", torchStubs, "STUCK=100")
	if want := "a held stream holds up every other"; got.status != 1 || len(got.rounds) != 0 || !strings.Contains(got.notes, want) {
		t.Errorf("all streams are stuck: exit status %d, %d operations, notes\n%s", got.status, len(got.rounds), got.notes)
	}
}
