package fuzz

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/loader"
)

// This file makes random calls on a software driver and NVIDIA's, in processes of their own.

var fuzzLoud = flag.Bool("fuzz.loud", false, "write the calls of TestCalls to the standard error output "+
	"before they are made, for drivers that crash")

// besideGPU returns callers of a software driver and of NVIDIA's.
func besideGPU(t *testing.T) [2]*caller {
	path := os.Getenv("PURECU_TEST_GPU")
	if path == "1" {
		path = "" // the system's
	}
	lib, err := loader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return [2]*caller{softCaller("virtual", true), {Table: driver.New(lib), name: "gpu"}}
}

const (
	// callsEnv names the file for the results of a process that callsOnGPU starts from its own binary.
	callsEnv = "PURECU_FUZZ_CALLS"
	// callsBatch is how many sequences a process makes at most.
	callsBatch = 1000
	// begunSuffix ends the name of the file with the seed of the sequence that has begun.
	begunSuffix = ".begun"
)

// callsOfBatch makes the sequences of a batch on two drivers, and writes the results to a file. Another
// file has the seed of the sequence that has begun, because a driver may crash.
func callsOfBatch(t *testing.T, path string, pair [2]*caller) {
	begun, err := os.Create(path + begunSuffix)
	if err != nil {
		t.Fatal(err)
	}
	defer begun.Close()
	begin := func(seed uint64) {
		if _, err := begun.WriteAt(fmt.Appendf(nil, "%20d", seed), 0); err != nil {
			t.Error(err)
		}
	}
	b, err := json.Marshal(runCalls(t, *fuzzTopic, pair, *fuzzFrom, count(), begin))
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// callsOnGPU makes n sequences in several processes. One that has no context any more because its work has failed, or
// that has found a difference, ends, and another one goes on. If the time is over, the results go on from the first
// sequence that was not made, although later ones may have been.
func callsOnGPU(t *testing.T, from uint64, n int) callResults {
	results := callResults{Counts: make(tally)}
	dir := t.TempDir()
	begun, next, end := time.Now(), from, from+uint64(n)
	over := func() bool { return *fuzzFor > 0 && time.Since(begun) >= *fuzzFor }
	left := end // the first sequence of a batch that was not made
	var mu sync.Mutex
	take := func() (first, last uint64, more bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == end || len(results.kinds()) >= *fuzzMost || over() {
			return 0, 0, false
		}
		first = next
		part := (end - next) / uint64(2**fuzzProcesses) // the last ones are small, so that all end at the same time
		next = min(next+min(max(part, 100), callsBatch), end)
		return first, next, true
	}
	var wg sync.WaitGroup
	for range *fuzzProcesses {
		wg.Go(func() {
			for {
				first, last, more := take()
				if !more {
					return
				}
				for first < last && !over() {
					var more []string
					if *fuzzFor > 0 {
						more = append(more, fmt.Sprint("-fuzz.for=", max(*fuzzFor-time.Since(begun), time.Millisecond)))
					}
					part, err := callsInProcess(t, dir, *fuzzTopic, first, int(last-first), more...)
					mu.Lock()
					results.add(part)
					mu.Unlock()
					if err != nil {
						t.Errorf("seeds %d to %d: %v", first, last-1, err)
						first = last
						break
					}
					first = part.Next
				}
				if first < last {
					mu.Lock()
					left = min(left, first)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	results.Next = min(next, left)
	slices.SortFunc(results.Failures, func(a, b callFailure) int { return cmp.Compare(a.Seed, b.Seed) })
	return results
}

// callsInProcess makes sequences in a process of its own. If the process ends before the results are
// written, the sequence that had begun counts as a failure, and other processes go on after it.
func callsInProcess(t *testing.T, dir, topic string, from uint64, n int, more ...string) (r callResults, err error) {
	path := filepath.Join(dir, fmt.Sprint(from))
	out, err := callsProcess(t, path, topic, from, n, more...)
	if err == nil {
		b, err := os.ReadFile(path)
		if err != nil {
			return r, err
		}
		return r, json.Unmarshal(b, &r)
	}
	b, noFile := os.ReadFile(path + begunSuffix)
	seed, no := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if noFile != nil || no != nil || t.Context().Err() != nil {
		return r, fmt.Errorf("%w:\n%s", err, out)
	}
	text := fmt.Sprintf("the process ends: %v\n%s", err, out)
	if again, err := callsProcess(t, path+"-again", topic, seed, 1, "-fuzz.loud"); err != nil {
		text = fmt.Sprintf("the process ends: %v\n%s", err, again)
	} else {
		text += "\nThis sequence alone does not end it."
	}
	return callResults{Done: int(seed-from) + 1, Next: seed + 1,
		Failures: []callFailure{{seed, "end of the process: " + err.Error(), text}}}, nil
}

// callsProcess runs a process of callsOfBatch.
func callsProcess(t *testing.T, path, topic string, from uint64, n int, more ...string) (out []byte, err error) {
	// The outermost test is the one that the process runs.
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(t.Context(), os.Args[0], append(more, "-test.run=^"+name+"$",
		fmt.Sprint("-fuzz.from=", from), fmt.Sprint("-fuzz.n=", n), "-fuzz.topic="+topic,
		"-fuzz.avoid="+fuzzAvoid.String())...)
	cmd.Env = append(os.Environ(), callsEnv+"="+path, "CUDA_DEVICE_MAX_CONNECTIONS=16") // as for TestPoisoned
	return cmd.CombinedOutput()
}

// TestEndOfProcess checks that a process that ends counts as a failure of the sequence that it has
// begun.
func TestEndOfProcess(t *testing.T) {
	if path := os.Getenv(callsEnv); path != "" {
		sim := cusim.New(cusim.VirtualTime())
		callsOfBatch(t, path, [2]*caller{softCaller("good", true),
			{Table: driver.NewSoftware(crashing{sim.Software()}), name: "crashing", soft: sim, virtual: true}})
		return
	}
	r, err := callsInProcess(t, t.TempDir(), "contexts", 1, 200)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) != 1 {
		t.Fatalf("%d failures, want one", len(r.Failures))
	}
	f := r.Failures[0]
	t.Logf("seed %d: %s", f.Seed, f.Text)
	if f.Kind != "end of the process: exit status 3" || !strings.HasSuffix(f.Text, " cuCtxResetPersistingL2Cache(") ||
		r.Next != f.Seed+1 || r.Done != int(f.Seed) {
		t.Errorf("a process that ends gives %+v", r)
	}
}

// crashing ends the process in a function.
type crashing struct{ driver.Software }

func (crashing) CtxResetPersistingL2Cache(*driver.Thread) driver.Result {
	os.Exit(3)
	return ok
}
