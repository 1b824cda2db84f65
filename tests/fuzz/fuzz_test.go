package fuzz

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/loader"
)

var (
	fuzzShrink    = flag.Bool("fuzz.shrink", true, "make programs shorter that fail; a driver in C may hang in what becomes of them")
	fuzzSeed      = flag.Uint64("fuzz.seed", 0, "the one `seed` to run, and to print the program of")
	fuzzFrom      = flag.Uint64("fuzz.from", 1, "the first `seed`")
	fuzzFor       = flag.Duration("fuzz.for", 0, "how `long` to go on at most: then the seed to resume from is logged")
	fuzzMost      = flag.Int("fuzz.most", 5, "how `many` failures to explain before the end")
	fuzzPoisoned  = flag.Int("fuzz.poisoned", 100, "how `many` seeds TestPoisoned runs on a GPU")
	fuzzProcesses = flag.Int("fuzz.processes", 4, "how `many` processes TestPoisoned and TestCalls run on a GPU")
	fuzzN         = flag.Int("fuzz.n", 0, "how `many` seeds to run: 0 means 20,000, or 2,000 with -short or under the race detector")
)

// count returns how many seeds to run.
func count() int {
	switch {
	case *fuzzN > 0:
		return *fuzzN
	case testing.Short() || raceEnabled:
		return 2_000
	}
	return 20_000
}

// pair is two drivers that must give the same answers.
type pair [2]target

// These are the times for work that no gate holds: normally, and while a failing program is made
// shorter.
const (
	patient   = 5 * time.Second
	impatient = 2 * time.Millisecond
)

// check runs a program on both drivers.
func (pr pair) check(p program, patience time.Duration) error {
	var traces [2][]answer
	for i, tg := range pr {
		trace, err := tg.run(p, patience)
		if err != nil {
			return fmt.Errorf("%s: %w", tg.name, err)
		}
		traces[i] = trace
	}
	for i, a := range traces[0] {
		if b := traces[1][i]; a.res != b.res || a.value != b.value {
			return fmt.Errorf("step %d, %v: %s answers %v, %d, and %s %v, %d",
				i, p.steps[i], pr[0].name, a.res, a.value, pr[1].name, b.res, b.value)
		}
	}
	return nil
}

// software returns two software drivers: one with real time and one with virtual time.
func software() pair {
	return pair{simulated("virtual", true, nil), simulated("real", false, nil)}
}

// shrinking is the time in which a failing program is made shorter.
const shrinking = 3 * time.Second

// hang is the time after which a program counts as hanging.
const hang = 20 * time.Second

// watch ends the process if a program hangs, because a call that does not return cannot be stopped.
// stop ends the watch.
func watch(t *testing.T, seed uint64, p program) (stop func() bool) {
	t.Helper()
	return time.AfterFunc(hang, func() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		fmt.Fprintf(os.Stderr, "%s: seed %d hangs, with %d contexts:\n%v\n%s\n", t.Name(), seed, p.contexts, p, stacks)
		os.Exit(2)
	}).Stop
}

// explain returns a shorter program that still fails, and its error.
func explain(t *testing.T, seed uint64, p program, err error, check func(program, time.Duration) error) string {
	t.Helper()
	fails := func(p program, patience time.Duration) error {
		defer watch(t, seed, p)()
		return check(p, patience)
	}
	if !*fuzzShrink {
		return fmt.Sprintf("seed %d: %v\nwith %d contexts:\n%v", seed, err, p.contexts, p)
	}
	end := time.Now().Add(shrinking)
	p = shrink(p, func(p program) bool { return time.Now().Before(end) && fails(p, impatient) != nil })
	if again := fails(p, impatient); again != nil {
		err = again
	}
	return fmt.Sprintf("seed %d: %v\nwith %d contexts:\n%v", seed, err, p.contexts, p)
}

// sweep runs n programs on workers goroutines, with at most so many contexts, and reports the first
// few that fail.
func sweep(t *testing.T, workers, n, contexts int, check func(program, time.Duration) error) *coverage {
	t.Helper()
	from := *fuzzFrom
	if *fuzzSeed != 0 {
		from, n = *fuzzSeed, 1
		t.Logf("seed %d, with %d contexts:\n%v", from, generate(from, contexts, nil).contexts, generate(from, contexts, nil))
	}
	var next, failures atomic.Int64
	end := time.Now().Add(*fuzzFor)
	var mu sync.Mutex
	var wg sync.WaitGroup
	total := new(coverage)
	for range workers {
		wg.Go(func() {
			var cov coverage
			for failures.Load() < int64(*fuzzMost) {
				if *fuzzFor > 0 && time.Now().After(end) {
					break
				}
				i := next.Add(1) - 1
				if i >= int64(n) {
					break
				}
				seed := from + uint64(i)
				p := generate(seed, contexts, &cov)
				stop := watch(t, seed, p)
				err := check(p, patient)
				stop()
				if err != nil && failures.Add(1) <= int64(*fuzzMost) {
					t.Error(explain(t, seed, p, err, check))
				}
				if done := int(i) + 1 - workers; done > 0 && done%100_000 == 0 { // other goroutines may still be running theirs
					t.Logf("%d done; to go on from here: -fuzz.from=%d -fuzz.n=%d", done, from+uint64(done), n-done)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.merge(&cov)
		})
	}
	wg.Wait()
	done := min(next.Load(), int64(n))
	t.Logf("%d sequences, %d differences; to go on from here: -fuzz.from=%d", done, failures.Load(), from+uint64(done))
	return total
}

// TestSequences runs programs on two software drivers, one with real time and one with virtual
// time. If PURECU_TEST_GPU is set, it runs them on a software driver and NVIDIA's.
func TestSequences(t *testing.T) {
	t.Run("software", func(t *testing.T) {
		cov := sweep(t, runtime.GOMAXPROCS(0), count(), contextSlots, software().check)
		t.Logf("%d steps\n%v", cov.steps, cov)
	})
	if path := os.Getenv("PURECU_TEST_GPU"); path != "" {
		t.Run("gpu", func(t *testing.T) { onGPU(t, path) })
	}
}

// beside returns a software driver and the driver in a library. stop frees what the library's
// machines share.
func beside(t *testing.T, path string) (pr pair, stop func()) {
	t.Helper()
	if path == "1" {
		path = "" // the system's
	}
	lib, err := loader.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	table := driver.New(lib)
	if r := table.Init(driver.At{}, 0); r != ok {
		t.Fatalf("cuInit: %v", r)
	}
	// All programs share the primary context.
	if _, r := table.DevicePrimaryCtxRetain(driver.At{}, 0); r != ok {
		t.Fatalf("cuDevicePrimaryCtxRetain: %v", r)
	}
	gpu, stopThreads := native(table)
	return pair{simulated("virtual", true, nil), gpu}, func() {
		stopThreads()
		table.DevicePrimaryCtxRelease(driver.At{}, 0)
	}
}

// onGPU runs programs on NVIDIA's driver: all of them in one process with one primary context, and
// then some of them with a created context, too.
func onGPU(t *testing.T, path string) {
	pr, stop := beside(t, path)
	defer stop()
	t.Run("primary", func(t *testing.T) { sweep(t, 1, count(), 1, pr.check) })
	t.Run("created", func(t *testing.T) { sweep(t, 1, count()/100, contextSlots, pr.check) })
}

// TestPoisoned runs programs with a sticky error in the middle. They run on software drivers and on
// NVIDIA's, where each program has a process of its own, because nothing clears the error.
func TestPoisoned(t *testing.T) {
	if os.Getenv(poisonedEnv) != "" { // this is one of those processes
		poisonedOnGPU(t, *fuzzSeed)
		return
	}
	n, from := *fuzzPoisoned, *fuzzFrom
	t.Run("software", func(t *testing.T) {
		count := uint64(max(n, 1_000))
		if *fuzzSeed != 0 {
			from, count = *fuzzSeed, 1
			t.Logf("seed %d:\n%v", from, generateKind(from, contextSlots, true, nil))
		}
		for seed := from; seed < from+count; seed++ {
			p := generateKind(seed, contextSlots, true, nil)
			stop := watch(t, seed, p)
			err := software().check(p, patient)
			stop()
			if err != nil {
				t.Fatal(explain(t, seed, p, err, software().check))
			}
		}
	})
	if os.Getenv("PURECU_TEST_GPU") == "" {
		return
	}
	t.Run("gpu", func(t *testing.T) {
		var wg sync.WaitGroup
		var next, failures atomic.Int64
		end := time.Now().Add(*fuzzFor)
		for range *fuzzProcesses { // more than 4 are no faster: the kernel's part of the driver takes them in turns
			wg.Go(func() {
				for failures.Load() < int64(*fuzzMost) && (*fuzzFor == 0 || time.Now().Before(end)) {
					i := next.Add(1) - 1
					if i >= int64(n) {
						break
					}
					seed := from + uint64(i)
					cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=TestPoisoned", fmt.Sprint("-fuzz.seed=", seed))
					cmd.Env = append(os.Environ(), poisonedEnv+"=1", "CUDA_DEVICE_MAX_CONNECTIONS=16") // 32 connections take three times as long
					if out, err := cmd.CombinedOutput(); err != nil && failures.Add(1) <= int64(*fuzzMost) {
						t.Errorf("seed %d: %v:\n%s", seed, err, out)
					}
				}
			})
		}
		wg.Wait()
		done := min(next.Load(), int64(n))
		t.Logf("%d sequences, %d differences; to go on from here: -fuzz.from=%d", done, failures.Load(), from+uint64(done))
	})
}

// poisonedEnv is set in the processes that TestPoisoned starts from its own binary.
const poisonedEnv = "PURECU_FUZZ_POISONED"

// poisonedOnGPU runs the program of a seed on NVIDIA's driver, and on a software driver.
func poisonedOnGPU(t *testing.T, seed uint64) {
	pr, _ := beside(t, os.Getenv("PURECU_TEST_GPU")) // its threads stay: a driver in C may crash when one ends now
	// If the process dies, the log has its last step.
	lib := &pr[1]
	open := lib.open
	lib.open = func() (*machine, error) {
		mc, err := open()
		if err == nil {
			mc.log = os.Stderr
		}
		return mc, err
	}
	p := generateKind(seed, contextSlots, true, nil)
	defer watch(t, seed, p)()
	if err := pr.check(p, patient); err != nil {
		fmt.Fprintf(os.Stderr, "seed %d: %v\nwith %d contexts:\n%v", seed, err, p.contexts, p)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestShared runs programs one after the other on one software driver. After each program the
// driver must be in its initial state.
func TestShared(t *testing.T) {
	tg := shared()
	for seed := range uint64(1_000) {
		p := generate(seed+1, 1, nil) // programs share primary contexts
		stop := watch(t, seed+1, p)
		_, err := tg.run(p, patient)
		stop()
		if err != nil {
			t.Fatalf("seed %d, after all before it: %v\n%v", seed+1, err, p)
		}
	}
}

// TestCoverage checks that each function is called often enough, with operands in every state.
func TestCoverage(t *testing.T) {
	const programs = 4_000
	cov := new(coverage)
	for seed := range uint64(programs) {
		generate(seed+1, contextSlots, cov)
	}
	t.Logf("%d steps\n%v", cov.steps, cov)
	for o, op := range operations() {
		if share := float64(cov.calls[o]) / float64(cov.steps); share < 0.01 && o < int(memAlloc) {
			t.Errorf("%s makes %.2f %% of the calls, which is less than 1", op.name, 100*share)
		}
		for i, n := range cov.modes[o] {
			if n == 0 && op.weight > 0 {
				t.Errorf("%s is never called by a thread in mode %d", op.name, i)
			}
		}
	}
	for _, o := range []op{eventDestroy, eventRecord, eventRecordWithFlags, eventQuery, eventSynchronize, eventElapsed, eventElapsedV2,
		streamWaitEvent, ctxRecordEvent, ctxWaitEvent} {
		for i, n := range cov.events[o] {
			if n == 0 {
				t.Errorf("%s never finds an event that is %s", operations()[o].name, eventStateName(i))
			}
		}
	}
	for o := streamDestroy; o <= captureInfo; o++ {
		for i, n := range cov.streams[o] {
			if n == 0 && !(o == streamWaitValue && i >= int(capturing)) { // a capture cannot have gates
				t.Errorf("%s never finds a stream that is %s", operations()[o].name, streamStateName(i))
			}
		}
	}
}

func eventStateName(i int) string {
	return [...]string{"empty", "pending", "complete", "captured", "invalid"}[i]
}

func streamStateName(i int) string {
	return [...]string{"idle", "busy", "capturing", "invalidated"}[i]
}

// String returns a table of the states in which steps found their operands.
func (c *coverage) String() string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "function\t%\t")
	for i := range int(eventStates) {
		fmt.Fprintf(w, "%s\t", eventStateName(i))
	}
	for i := range int(streamStates) {
		fmt.Fprintf(w, "%s\t", streamStateName(i))
	}
	fmt.Fprintln(w, "global\tthread\trelaxed\t")
	for o, op := range operations() {
		fmt.Fprintf(w, "%s\t%.2f\t", op.name, 100*float64(c.calls[o])/float64(max(c.steps, 1)))
		for _, n := range c.events[o] {
			fmt.Fprintf(w, "%d\t", n)
		}
		for _, n := range c.streams[o] {
			fmt.Fprintf(w, "%d\t", n)
		}
		for _, n := range c.modes[o] {
			fmt.Fprintf(w, "%d\t", n)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return b.String()
}

// TestReplay checks that a seed always gives the same program.
func TestReplay(t *testing.T) {
	for seed := range uint64(100) {
		if a, b := generate(seed, contextSlots, nil), generate(seed, contextSlots, nil); a.contexts != b.contexts || a.String() != b.String() {
			t.Fatalf("seed %d has two programs:\n%v\nand\n%v", seed, a, b)
		}
	}
}

// TestShrink checks that a program loses the steps that it does not need to fail.
func TestShrink(t *testing.T) {
	needs := func(p program) error {
		records, queries := 0, 0
		for _, s := range p.steps {
			switch {
			case s.op == eventRecord:
				records++
			case s.op == eventQuery && records > 0:
				queries++
			}
		}
		if queries > 1 {
			return errors.New("it fails")
		}
		return nil
	}
	shrunk := 0
	for seed := range uint64(50) {
		p := generate(seed, contextSlots, nil)
		if needs(p) == nil {
			continue
		}
		shrunk++
		if p = shrink(p, func(p program) bool { return needs(p) != nil }); len(p.steps) != 3 || needs(p) == nil {
			t.Errorf("seed %d has shrunk to %d steps, and not to 3:\n%v", seed, len(p.steps), p)
		}
	}
	if shrunk == 0 {
		t.Error("no program was shrunk")
	}
}
