// Package soak has one long test: a process opens, uses, abandons and closes every kind of object
// again and again, on several goroutines. It has much live memory, so that the garbage collector
// runs rarely. The resources of the process and of the driver must not grow.
//
//	go test ./tests/soak -v -soak.for=10m -soak.heap=300
//
// The test runs on the software driver, and, with PURECU_TEST_GPU ("1", or a path of the library),
// on a driver in C, which maps memory and opens files.
package soak

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

var (
	soakFor    = flag.Duration("soak.for", 0, "how long each driver is used; 3s without it, 1s with -short")
	soakSlopes = flag.Duration("soak.slopes", 0, "how long TestSlopes measures what each kind of operation leaves behind")
	soakOnly   = flag.String("soak.only", "", "a regular expression: TestSlopes measures only operations with such names")
	soakHeap   = flag.Int("soak.heap", 32, "how many MB of memory are live meanwhile")
	soakSeed   = flag.Uint64("soak.seed", 0, "what decides what is done; 0 for the time")
	// This flag helps to find the cause of a crash.
	soakWithout = flag.String("soak.without", "^$",
		"a regular expression: the kinds of objects and streams, uses and ends "+
			"with such names are left out")
)

func TestMain(m *testing.M) {
	if os.Getenv(peerEnv) != "" {
		os.Exit(runPeer()) // the other process; see peer_test.go
	}
	goleak.VerifyTestMain(m)
}

const (
	// After warmUp phases the numbers should be constant. Then there are more phases. Each phase
	// ends with a sample.
	warmUp, phases = 4, 9
	workers        = 4
	// mostAbandoned is the number of abandoned objects after which the collector is called, because
	// a driver in C has a limited number of streams.
	mostAbandoned = 2000
	// closingRounds is the number of rounds that a goroutine runs at the end of a phase and that
	// close all their objects.
	closingRounds = 50
)

// soak is the state that all goroutines share.
type soak struct {
	t    *testing.T
	sim  *cusim.Driver // nil with a driver in C
	open func() (*cu.Driver, error)

	// One driver with a context on each device is always open. Otherwise objects that end with a
	// context would not be counted.
	drv  *cu.Driver
	gpus []*cu.Context
	// beside is a created context that is always open, too.
	beside *cu.Context
	// green is a green context that is always open, with a driver in C that has them.
	green  *green.Context
	greens atomic.Int64 // how many rounds wanted a green context
	// slow is set if creating a context takes long, as on a GPU, where contexts are created one
	// after the other. Then few rounds have their own context.
	slow bool
	ipc  cu.IPCEventHandle // of the peer; zero if there is none

	without *regexp.Regexp

	rounds, abandoned, hostFuncs, traced atomic.Int64

	mu sync.Mutex
	// others are the drivers that were opened since the last sample. Only their Close frees their
	// abandoned objects.
	others []*cu.Driver
	counts map[string]int // the numbers of uses and of results
	broken map[string]bool
}

func TestSoak(t *testing.T) {
	t.Run("software", func(t *testing.T) {
		sim := cusim.New(cusim.Devices(2))
		s := &soak{t: t, sim: sim, open: func() (*cu.Driver, error) { return cu.Open(cu.WithSoftware(sim)) }}
		s.run()
		sim.Check(t)
	})
	if os.Getenv(cutest.Environment) == "" {
		return
	}
	t.Run("native", func(t *testing.T) {
		s := &soak{t: t, open: func() (*cu.Driver, error) { return cu.Open(cu.WithLibrary(library())) }}
		s.run()
	})
}

// library returns the path of the driver in C, or "" for the system's.
func library() string {
	if path := os.Getenv(cutest.Environment); path != "1" {
		return path
	}
	return ""
}

// duration returns the duration of the test.
func duration() time.Duration {
	switch {
	case *soakFor > 0:
		return *soakFor
	case testing.Short():
		return time.Second
	}
	return 3 * time.Second
}

func (s *soak) run() {
	seed := *soakSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	s.counts, s.broken = make(map[string]int), make(map[string]bool)
	s.without = regexp.MustCompile(*soakWithout)
	heap := liveHeap(*soakHeap << 20)
	defer runtime.KeepAlive(heap)
	endPeer := s.startPeer()
	s.begin()
	s.t.Logf("-soak.seed=%d, on %v, %d devices", seed, s.drv, len(s.gpus))

	var samples []sample
	for i := range warmUp + phases {
		until := time.Now().Add(duration() / (warmUp + phases))
		var wg sync.WaitGroup
		for g := range workers {
			w := &worker{soak: s, rnd: rand.New(rand.NewPCG(seed, uint64(i*workers+g)))}
			wg.Go(func() {
				for first := true; first || time.Now().Before(until); first = false {
					w.round()
				}
			})
		}
		wg.Wait()
		s.settle()
		closed := s.closeAllInRounds(seed + uint64(i))
		s.settle()
		later := s.sample()
		for name, n := range closed {
			later["without the collector: "+name] = n
		}
		samples = append(samples, later)
		if s.t.Failed() {
			break
		}
	}
	s.t.Logf("\n%s", table(samples))
	if !s.t.Failed() {
		for _, complaint := range judge(samples[warmUp-1:]) {
			s.t.Error(complaint)
		}
	}
	s.end()
	endPeer()
	var did bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Fprintf(&did, "%8d %s\n", s.counts[k], k)
	}
	s.t.Logf("%d rounds, %d objects abandoned, %d host functions called, %d calls traced:\n%s",
		s.rounds.Load(), s.abandoned.Load(), s.hostFuncs.Load(), s.traced.Load(), &did)
}

// closeAllInRounds runs rounds that close all their objects, without the garbage collector. It
// returns a sample, without one mapping for each opened driver, which exists until the collector
// has found the driver's timelines.
func (s *soak) closeAllInRounds(seed uint64) sample {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var wg sync.WaitGroup
	for g := range workers {
		w := &worker{soak: s, closes: true, rnd: rand.New(rand.NewPCG(seed, uint64(g)))}
		wg.Go(func() {
			for range closingRounds {
				w.round()
			}
		})
	}
	wg.Wait()
	all, n := s.sample(), sample{}
	for name := range uncollected {
		if v, counted := all[name]; counted {
			n[name] = v
		}
	}
	n["process: mappings"] -= len(s.others)
	return n
}

// begin opens the objects that are always open.
func (s *soak) begin() {
	s.t.Helper()
	s.drv = must(s.open())(s.t)
	for _, dev := range must(s.drv.Devices())(s.t) {
		s.gpus = append(s.gpus, must(dev.PrimaryContext())(s.t))
	}
	begun := time.Now()
	s.beside = must(s.gpus[0].Device().NewContext(0))(s.t)
	s.slow = time.Since(begun) > 50*time.Millisecond
	if s.sim == nil {
		var err error
		if s.green, err = newGreen(s.gpus[0], 0); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			s.t.Fatal(err)
		}
	}
	for _, gpu := range append(s.gpus, s.beside) {
		for i := range 2 * 32 { // creates the pool streams of the rounds
			if err := must(gpu.PoolStream(-i % 2))(s.t).Close(); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// end closes the objects that begin opened.
func (s *soak) end() {
	if s.green != nil {
		if err := s.green.Close(); err != nil {
			s.t.Error(err)
		}
	}
	for _, gpu := range append(s.gpus, s.beside) {
		if err := gpu.Close(); err != nil {
			s.t.Error(err)
		}
	}
	s.settle()
}

// openAnother opens a driver for a round.
func (s *soak) openAnother() (*cu.Driver, error) {
	drv, err := s.open()
	if err == nil {
		s.mu.Lock()
		s.others = append(s.others, drv)
		s.mu.Unlock()
	}
	return drv, err
}

// settle waits until all closed and abandoned objects are gone.
func (s *soak) settle() {
	before := sample{}
	for i := range 200 {
		debug.FreeOSMemory() // also runs the collector
		over := true
		for _, drv := range append(s.others, s.drv) {
			if err := drv.Close(); err != nil {
				s.t.Error(err)
			}
			st := drv.Stats()
			over = over && st.Waits == 0 && st.WakeUps == 0 && st.DeferredObjects == 0 && st.AbandonedContexts == 0 &&
				st.Timelines == 0
		}
		if i > 2 && over {
			s.others = nil
		}
		time.Sleep(time.Duration(min(5+i, 50)) * time.Millisecond)
		now := s.sample()
		if i > 4 && over && same(before, now) {
			return
		}
		before = now
	}
	s.others = nil
}

// count counts an event of the test.
func (s *soak) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// fail reports an unexpected error, once for each kind.
func (s *soak) fail(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts["UNEXPECTED: "+what]++
	if !s.broken[what] {
		s.broken[what] = true
		s.t.Errorf("%s: %v", what, err)
	}
}

// node is a part of the live heap with pointers.
type node struct {
	next, other *node
	_           [48]byte
}

// liveHeap returns size bytes, half of them without pointers.
func liveHeap(size int) any {
	const chunk = 1 << 20
	var plain [][]byte
	var nodes *node
	for range size / 2 / chunk {
		b := make([]byte, chunk)
		for i := 0; i < chunk; i += 4096 {
			b[i] = 1
		}
		plain = append(plain, b)
		list := make([]node, chunk/64)
		for i := range list {
			list[i].next, list[i].other = nodes, &list[len(list)-1-i]
			nodes = &list[i]
		}
	}
	return []any{plain, nodes}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// table returns the samples as a table, the newest last.
func table(samples []sample) string {
	names := make(map[string]bool)
	for _, s := range samples {
		for n := range s {
			names[n] = true
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	order := slices.Sorted(maps.Keys(names))
	for _, n := range order {
		fmt.Fprintf(w, "%s", n)
		for i, s := range samples {
			if i == warmUp {
				fmt.Fprint(w, "\t|")
			}
			fmt.Fprintf(w, "\t%d", s[n])
		}
		fmt.Fprintln(w, "\t")
	}
	w.Flush()
	return b.String()
}
