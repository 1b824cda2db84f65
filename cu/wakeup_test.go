//go:build linux

package cu_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/watch"
)

var (
	wakeSamples = flag.Int("wakeup.samples", 10_000, "`samples` of each wake-up of up to 64 waiters; a tenth of it beyond")
	wakeFor     = flag.Duration("wakeup.for", 2*time.Minute, "the `time` that all wake-ups are measured in; where it is short there are fewer samples")
	wakeOnly    = flag.String("wakeup.only", "", "measure only what the `regexp` matches: a part, a slash, and a way to wait")
	wakeWaiters = flag.Int("wakeup.waiters", 0, "measure only with this `number` of waiters, of the numbers that are measured")
)

// wakeEnv names the environment variable that names a file for what [BenchmarkWakeUp]
// measures. A line is a part, a way to wait, the numbers of waiters and of streams, what
// was measured, in which unit, and a number, with tabs between: tools/plot reads it.
const wakeEnv = "PURECU_WAKEUP_TSV"

// What takes longer than this has failed.
const (
	armLimit  = 3 * time.Second  // to put all waits behind held streams
	wakeLimit = 20 * time.Second // to wake all, once the streams go on
)

// wakeBegin is how long each of many goroutines may take to begin its wait, from when it runs.
const wakeBegin = 2 * time.Microsecond

// slowRound is how long a round may take, without what it is made to last: a way that takes
// longer is measured once where it is measured with so many waiters, and not with more.
const slowRound = 4 * time.Second

// A wakeWay is a way for goroutines to wait for the GPU.
type wakeWay struct {
	name  string
	most  int    // how many waiters it is for
	holds bool   // whether each of them holds a thread
	part  string // the only one that it is for, if there is one
	// open makes what so many waits on so many streams need. Nothing is held then.
	open func(r *wakeRig, waits, streams int) (wakeWaits, error)
}

// wakeWaits are waits that can be made one after the other and all over again. If there
// is more to close than the rig does, they are an io.Closer, too. If they have a method
// times() []time.Time, it says when they were over, and not when their goroutines ran.
type wakeWaits interface {
	// arm puts the end of a wait behind what is on a stream, which is one of the rig's.
	arm(wait, stream int) error
	// wait waits until the GPU gets there.
	wait(ctx context.Context, wait int) error
}

// wakeWays are the ways to wait, in the order of the tables.
var wakeWays = []wakeWay{
	{"memory", 64, false, "latency", openWords},
	{"spin", 64, true, "", openEvents(EventDisableTiming, synchronizeEvent, false)},
	{"blocking", 1000, true, "", openEvents(EventDisableTiming|EventBlockingSync, synchronizeEvent, false)},
	{"watcher", 100_000, false, "", openEvents(EventDisableTiming, (*Event).Wait, true)},
	{"host function", 100_000, false, "", openHostFuncs},
	{"timeline", 100_000, false, "", openTimelines},
}

// eventWaits have an event each.
type eventWaits struct {
	r      *wakeRig
	events []*Event
	// method is how they are waited for; watched says that the watcher does.
	method  func(*Event, context.Context) error
	watched bool
}

func openEvents(flags EventFlags, method func(*Event, context.Context) error, watched bool) func(*wakeRig, int, int) (wakeWaits, error) {
	return func(r *wakeRig, waits, _ int) (wakeWaits, error) {
		for len(r.events[flags]) < waits {
			e, err := r.gpu.NewEvent(flags)
			if err != nil {
				return nil, err
			}
			r.events[flags] = append(r.events[flags], e)
		}
		return &eventWaits{r, r.events[flags], method, watched}, nil
	}
}

func synchronizeEvent(e *Event, _ context.Context) error { return e.Synchronize() }

// waiting returns how many are the watcher's.
func (w *eventWaits) waiting() int {
	if !w.watched {
		return len(w.events)
	}
	return watches(core.Of(w.r.gpu).Context.Drv)
}

func (w *eventWaits) arm(i, stream int) error                  { return w.events[i].Record(w.r.streams[stream]) }
func (w *eventWaits) wait(ctx context.Context, wait int) error { return w.method(w.events[wait], ctx) }

// wakeSize is how much is measured.
type wakeSize struct {
	waiters, over        []int // how many there are, over how many streams
	few, many            int   // samples of up to 64 waiters, and of more
	rounds, roundsOfMost int   // at least; of the greatest number of waiters
	pause                time.Duration
	window               time.Duration // in which CPU time is measured
	long                 time.Duration // a long wait
	longSamples          int
	kernels              int // a stream, in a round
	kernel               time.Duration
	sweep, sweepRounds   int
}

// wakeRig is what the parts of the benchmark have in common.
type wakeRig struct {
	wakeSize
	b       *testing.B
	gpu     *Context
	gate    *Gate
	ticket  uint32       // what the gate's word becomes when the newest held streams go on
	armed   atomic.Int64 // how many waits are behind held streams
	streams []*Stream    // as many as any part needs
	events  map[EventFlags][]*Event
	ctxs    []context.Context // one a waiter: they would fight over one
	cancels []context.CancelFunc
	only    *regexp.Regexp
	wakeFor time.Duration // that all may take
	end     time.Time     // when all has to have been measured
	tsv     *os.File
	lines   []wakeLine
	full    map[string][]wakeLoad // what was too much for a way
	slow    map[string]int        // the least number of waiters that a way was slow with
	notes   []string
}

// wakeLoad is so many waits, on so many streams.
type wakeLoad struct{ waits, streams int }

// wakeLine is a line of the file.
type wakeLine struct {
	part, way        string
	waiters, streams int
	quantity         string
	value            float64
}

type wakePart struct {
	name    string
	measure func(*wakeRig)
}

// wakeParts are what is measured, in this order: one waiter comes before many have made the heap large. What takes
// as long as it takes comes last, within a quarter of the time as a rule.
var wakeParts = []wakePart{
	{"reads", (*wakeRig).timelineReads},
	{"sweep", (*wakeRig).sweeps},
	{"latency", func(r *wakeRig) { r.latencies(true) }},
	{"long", (*wakeRig).longWaits},
	{"kernels", (*wakeRig).kernelsInARow},
	{"latency", func(r *wakeRig) { r.latencies(false) }},
	{"in turn", (*wakeRig).inTurn},
	{"waiting", (*wakeRig).waiting},
}

// BenchmarkWakeUp measures how fast and how cheaply goroutines wait for the GPU:
//
//	PURECU_TEST_GPU=1 go test ./cu -run '^$' -bench WakeUp -benchtime 1x -v
//
// Without a GPU it measures very little, on the software driver, whose numbers mean
// nothing. With [wakeEnv] set it writes each number to a file as soon as it is known.
//
// A wake-up is the time from the host's write of the word that held streams wait for
// until the goroutine runs. All streams go on at once, but for the part "in turn", where
// each goes on by itself.
func BenchmarkWakeUp(b *testing.B) {
	gpu := GPUContext(b)
	r := &wakeRig{
		wakeSize: wakeSize{
			waiters: []int{1, 64, 1000, 10_000, 100_000}, over: []int{1, 16, 256},
			few: *wakeSamples, many: *wakeSamples / 10, rounds: 3, roundsOfMost: 2, pause: 2 * time.Millisecond, window: time.Second,
			long: 2 * time.Second, longSamples: 15, kernels: 400, kernel: time.Millisecond, sweep: 1024, sweepRounds: 31,
		},
		b: b, gpu: gpu, events: make(map[EventFlags][]*Event), full: make(map[string][]wakeLoad), slow: make(map[string]int), wakeFor: *wakeFor,
		only: Need(regexp.Compile(*wakeOnly))(b),
	}
	if core.Of(gpu).Context.Drv.Table().Software() {
		r.wakeSize = wakeSize{
			waiters: []int{1, 40}, over: []int{1, 4},
			few: min(*wakeSamples, 20), many: 1, rounds: 1, roundsOfMost: 1, pause: 100 * time.Microsecond, window: 20 * time.Millisecond,
			long: 50 * time.Millisecond, longSamples: 3, kernels: 12, kernel: time.Millisecond, sweep: 100, sweepRounds: 6,
		}
		r.wakeFor = min(*wakeFor, 2*time.Second)
	}
	if n := *wakeWaiters; n != 0 {
		r.waiters = slices.DeleteFunc(r.waiters, func(w int) bool { return w != n })
		if len(r.waiters) == 0 {
			b.Fatalf("no wake-ups of %d waiters are measured", n)
		}
	}
	r.end = time.Now().Add(r.wakeFor)
	if path := os.Getenv(wakeEnv); path != "" {
		r.tsv = Need(os.Create(path))(b)
		defer r.tsv.Close()
	}
	// Everything is created before anything is held.
	for range max(r.sweep, slices.Max(r.over)) {
		r.streams = append(r.streams, Need(gpu.NewStream(StreamNonBlocking))(b))
	}
	r.gate = NewGate(b, gpu)
	defer r.close()

	for range 1 { // what is measured is not the loop
		for _, p := range wakeParts {
			t0 := time.Now()
			p.measure(r)
			r.note("%s: %.1f s", p.name, time.Since(t0).Seconds())
		}
	}
	b.Log(r.report())
	b.Logf("engine %s, GOMAXPROCS %d, %s, CUDA %d", ccall.Engine, runtime.GOMAXPROCS(0), runtime.Version(),
		Need(gpu.Device().Driver().Version())(b))
}

// close lets everything go on, and releases what the benchmark has.
func (r *wakeRig) close() {
	r.release()
	for _, cancel := range r.cancels {
		cancel()
	}
	if err := r.settle(len(r.streams)); err != nil {
		r.b.Error(err)
	}
	for _, events := range r.events {
		for _, e := range events {
			if err := e.Close(); err != nil {
				r.b.Error(err)
			}
		}
	}
	for _, s := range r.streams {
		if err := s.Close(); err != nil {
			r.b.Error(err)
		}
	}
}

// note keeps what is to be said at the end.
func (r *wakeRig) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// put keeps a number, and writes it.
func (r *wakeRig) put(part, way string, waiters, streams int, quantity string, value float64) {
	l := wakeLine{part, way, waiters, streams, quantity, value}
	r.lines = append(r.lines, l)
	if r.tsv != nil {
		if _, err := fmt.Fprintf(r.tsv, "%s\t%s\t%d\t%d\t%s\t%s\n", part, way, waiters, streams, quantity, wakeNumber(value)); err != nil {
			r.b.Error(err)
			r.tsv = nil
		}
	}
}

func wakeNumber(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

// report returns the numbers as a table for each part.
func (r *wakeRig) report() string {
	var out strings.Builder
	fmt.Fprintf(&out, "\nA wake-up is the time from the host's write that lets the streams go on until the goroutine runs, in µs. The write comes a random\n"+
		"100 to 1,000 µs after the last waiter has begun to wait; rounds are %v apart, of one way after the other.\n", r.pause)
	var parts []string
	for _, l := range r.lines {
		if !slices.Contains(parts, l.part) {
			parts = append(parts, l.part)
		}
	}
	for _, part := range parts {
		fmt.Fprintf(&out, "\n%s\n", part)
		var quantities []string
		type row struct {
			way              string
			waiters, streams int
		}
		var rows []row
		values := make(map[row]map[string]float64)
		for _, l := range r.lines {
			if l.part != part {
				continue
			}
			k := row{l.way, l.waiters, l.streams}
			if values[k] == nil {
				values[k] = make(map[string]float64)
				rows = append(rows, k)
			}
			values[k][l.quantity] = l.value
			if !slices.Contains(quantities, l.quantity) {
				quantities = append(quantities, l.quantity)
			}
		}
		slices.SortStableFunc(rows, func(a, b row) int {
			return cmp.Or(cmp.Compare(a.waiters, b.waiters), cmp.Compare(a.streams, b.streams))
		})
		w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(w, "waiters\tstreams\tway\t%s\t\n", strings.Join(quantities, "\t"))
		for _, k := range rows {
			fmt.Fprintf(w, "%d\t%d\t%s\t", k.waiters, k.streams, k.way)
			for _, q := range quantities {
				text := "–"
				if v, ok := values[k][q]; ok {
					text = wakeNumber(v)
				}
				fmt.Fprintf(w, "%s\t", text)
			}
			fmt.Fprintln(w)
		}
		w.Flush()
	}
	fmt.Fprintf(&out, "\n%s\n", strings.Join(r.notes, "\n"))
	return out.String()
}

// series is a way to wait, and what was measured of it.
type series struct {
	wakeWay
	waits  wakeWaits
	us     []float64 // of each waiter
	rounds []float64 // of the last of each round
	cpu    time.Duration
	wall   time.Duration
	n      int
	failed bool
}

// ways returns the ways that are measured of a part with so many waiters, ready for so
// many waits.
func (r *wakeRig) ways(part string, waiters, waits, streams int) []*series {
	var list []*series
	for _, way := range wakeWays {
		if !r.wants(part, way.name) || waiters > way.most || way.part != "" && way.part != part {
			continue
		}
		// More waits on fewer streams are no easier.
		if slices.ContainsFunc(r.full[way.name], func(l wakeLoad) bool { return waits >= l.waits && streams <= l.streams }) {
			continue
		}
		if slow, ok := r.slow[way.name]; ok && waiters > slow {
			continue
		}
		s := &series{wakeWay: way}
		var err error
		if s.waits, err = way.open(r, waits, streams); err != nil {
			r.failed(part, s, waiters, streams, err)
			continue
		}
		list = append(list, s)
	}
	return list
}

func (r *wakeRig) wants(part, way string) bool { return r.only.MatchString(part + "/" + way) }

// failed notes that a way has failed.
func (r *wakeRig) failed(part string, s *series, waiters, streams int, err error) {
	s.failed = true
	r.note("%s, %s, %d waiters, %d streams: FAILED: %v", part, s.name, waiters, streams, err)
}

// each measures the ways in turn, for so many rounds, or until it is late, but once at
// least, and returns those that have not failed. What has failed is not tried again. No
// way can be measured afterwards.
func (r *wakeRig) each(part string, list []*series, waiters, streams, rounds int, late time.Time, measure func(*series) error) []*series {
	for round := range rounds {
		if round > 0 && time.Now().After(late) {
			break
		}
		for k := range list {
			s := list[(k+round)%len(list)]
			if slow, ok := r.slow[s.name]; s.failed || ok && waiters >= slow && round > 0 {
				continue
			}
			if err := measure(s); err != nil {
				r.failed(part, s, waiters, streams, err)
			}
			time.Sleep(r.pause)
		}
	}
	for _, s := range list {
		if c, ok := s.waits.(io.Closer); ok {
			if err := c.Close(); err != nil {
				r.failed(part, s, waiters, streams, err)
			}
		}
	}
	return slices.DeleteFunc(list, func(s *series) bool { return s.failed })
}

// hold lets the first streams go no further until the next release, each with a ticket of
// its own if they are to go on in turn.
func (r *wakeRig) hold(streams int, inTurn bool) error {
	for i, s := range r.streams[:streams] {
		if i == 0 || inTurn {
			r.ticket++
		}
		if res := r.gate.HoldUntil(s, r.ticket); res != 0 {
			return &Error{Op: "cuStreamWaitValue32", Result: res, Handle: uintptr(core.Of(s).Raw)}
		}
	}
	return nil
}

// release lets all streams go on, and returns when.
func (r *wakeRig) release() time.Time { return r.releaseUpTo(r.ticket) }

// releaseUpTo lets the streams go on that were held with a ticket up to this one.
func (r *wakeRig) releaseUpTo(ticket uint32) time.Time {
	t0 := time.Now()
	atomic.StoreUint32(r.gate.Word(), ticket)
	return t0
}

// settle waits until the first streams have done all.
func (r *wakeRig) settle(streams int) error {
	var errs []error
	for _, s := range r.streams[:streams] {
		errs = append(errs, s.Synchronize())
	}
	return errors.Join(errs...)
}

// errFull is that of streams that are held and take no more, but hold their caller up.
var errFull = errors.New("the held streams took no more")

// held holds streams and arms waits on them in turn, each after before, unless that is
// nil. If it fails, all goes on.
func (r *wakeRig) held(s *series, waits, streams int, inTurn bool, before func(stream int) error) error {
	var late atomic.Int64 // how many waits there were then, and one more
	ticket := r.ticket + 1
	if inTurn {
		ticket = r.ticket + uint32(streams)
	}
	r.armed.Store(0)
	timer := time.AfterFunc(armLimit, func() {
		late.Store(r.armed.Load() + 1)
		atomic.StoreUint32(r.gate.Word(), ticket)
	})
	err := r.hold(streams, inTurn)
	for wait := 0; wait < waits && err == nil && late.Load() == 0; wait++ {
		stream := wait % streams
		if before != nil {
			err = before(stream)
		}
		if err == nil {
			err = s.waits.arm(wait, stream)
			r.armed.Add(1)
		}
	}
	timer.Stop()
	if n := int(late.Load()); n != 0 {
		err = errors.Join(err, fmt.Errorf("%w than %d waits in %v", errFull, n-1, armLimit))
		if before == nil {
			r.full[s.name] = append(r.full[s.name], wakeLoad{n, streams})
		}
	}
	if err != nil {
		r.release()
		err = errors.Join(err, r.settle(streams))
	}
	return err
}

// wakeRound is what happens in a round.
type wakeRound struct {
	waiters, streams int
	inTurn           bool   // the streams go on one after the other, not at once
	first            func() // when the first waiter waits, unless it is nil
	all              func() // when all do, unless it is nil
}

// round lets so many goroutines wait for held streams, lets these go on, and returns how
// long it took each to run.
func (r *wakeRig) round(s *series, c wakeRound) ([]float64, error) {
	t := time.Now()
	if err := r.held(s, c.waiters, c.streams, c.inTurn, nil); err != nil {
		return nil, err
	}
	run := &wakeRun{woken: make([]time.Time, c.waiters)}
	begin := 0
	if c.first != nil {
		begin = 1
		run.start(r, 0, 1, func(ctx context.Context, g int) error { return s.waits.wait(ctx, g) })
		c.first()
	}
	run.start(r, begin, c.waiters, func(ctx context.Context, g int) error { return s.waits.wait(ctx, g) })
	if err := r.waitingAll(s.waits, c.waiters); err != nil {
		r.note("%s, %d waiters, %d streams: %v", s.name, c.waiters, c.streams, err)
	}
	begun := time.Since(t)
	if c.all != nil {
		c.all()
	}
	var released []time.Time // each stream, or all
	if !c.inTurn {
		wakePause()
		released = append(released, r.release())
	} else {
		for i := range c.streams {
			wakePause()
			released = append(released, r.releaseUpTo(r.ticket-uint32(c.streams-1-i)))
		}
	}
	err := run.finish(r)
	if d := begun + time.Since(released[0]); d > slowRound {
		if slow, ok := r.slow[s.name]; !ok || c.waiters < slow {
			r.slow[s.name] = c.waiters
		}
		r.note("%s, %d waiters, %d streams: a round took %.1f s", s.name, c.waiters, c.streams, d.Seconds())
	}
	if err != nil {
		return nil, errors.Join(err, r.settle(c.streams))
	}
	woken := run.woken
	if w, ok := s.waits.(interface{ times() []time.Time }); ok {
		woken = w.times()
	}
	us := make([]float64, c.waiters)
	for i, t := range woken {
		us[i] = float64(t.Sub(released[i%len(released)]).Nanoseconds()) / 1e3
	}
	return us, nil
}

// waitingAll returns when goroutines that are about to wait do: they take a while to get there
// if they are many.
func (r *wakeRig) waitingAll(waits wakeWaits, n int) error {
	sleepPrecisely(time.Duration(n) * wakeBegin)
	w, ok := waits.(interface{ waiting() int })
	if !ok || n <= watch.FewPoll { // few poll for themselves
		return nil
	}
	for late := time.Now().Add(wakeLimit); w.waiting() < n; sleepPrecisely(100 * time.Microsecond) {
		if time.Now().After(late) {
			return fmt.Errorf("only %d waited after %v", w.waiting(), wakeLimit)
		}
	}
	return nil
}

// wakePause lets some time pass before streams go on.
func wakePause() { sleepPrecisely(100*time.Microsecond + rand.N(900*time.Microsecond)) }

// sleepPrecisely is time.Sleep, where a fraction of a millisecond may become a whole one if nothing else runs.
func sleepPrecisely(d time.Duration) {
	for ts := syscall.NsecToTimespec(int64(d)); syscall.Nanosleep(&ts, &ts) == syscall.EINTR; {
	}
}

// wakeRun are goroutines that wait.
type wakeRun struct {
	woken []time.Time // when each goroutine first ran after its last wait
	done  sync.WaitGroup
	err   atomic.Pointer[error]
}

// start starts goroutines from one number to another, and returns when all are about to
// wait.
func (run *wakeRun) start(r *wakeRig, from, to int, wait func(ctx context.Context, g int) error) {
	for len(r.ctxs) < to {
		ctx, cancel := context.WithCancel(context.Background())
		r.ctxs, r.cancels = append(r.ctxs, ctx), append(r.cancels, cancel)
	}
	var begun sync.WaitGroup
	begun.Add(to - from)
	for g := from; g < to; g++ {
		ctx := r.ctxs[g]
		run.done.Go(func() {
			begun.Done()
			err := wait(ctx, g)
			run.woken[g] = time.Now()
			if err != nil {
				run.err.CompareAndSwap(nil, &err)
			}
		})
	}
	begun.Wait()
}

// finish waits until all goroutines have ended.
func (run *wakeRun) finish(r *wakeRig) error {
	fired := make(chan struct{})
	watchdog := time.AfterFunc(wakeLimit, func() {
		defer close(fired)
		err := fmt.Errorf("not all had run after %v", wakeLimit)
		run.err.CompareAndSwap(nil, &err)
		for _, cancel := range r.cancels {
			cancel()
		}
	})
	run.done.Wait()
	if !watchdog.Stop() {
		<-fired // nothing can be waited for with these contexts any more
		for i := range r.ctxs {
			r.ctxs[i], r.cancels[i] = context.WithCancel(context.Background())
		}
	}
	if err := run.err.Load(); err != nil {
		return *err
	}
	return nil
}

// until returns the end of what may take this share of the time that is left, or a
// least part of all the time, if less is left.
func (r *wakeRig) until(share float64, least time.Duration) time.Time {
	left := time.Duration(share * float64(time.Until(r.end)))
	return time.Now().Add(max(left, r.wakeFor/least))
}

// latencies measures wake-ups, of one waiter or of several.
func (r *wakeRig) latencies(one bool) {
	for _, waiters := range r.waiters {
		for _, streams := range r.over {
			if streams > waiters || one != (waiters == 1) {
				continue
			}
			list := r.ways("latency", waiters, waiters, streams)
			if len(list) == 0 {
				continue
			}
			rounds := max(r.rounds, (r.many+waiters-1)/waiters)
			late := time.Now().Add(time.Hour) // more rounds than these few would not be worth their time
			switch {
			case one:
				rounds, late = r.few, r.until(0.5, 8)
			case waiters <= 64:
				rounds, late = max(r.rounds, (r.few+waiters-1)/waiters), time.Now().Add(r.wakeFor/12)
			case waiters > 10_000:
				rounds = r.roundsOfMost
			}
			runtime.GC() // what was measured before is not to be paid for now
			list = r.each("latency", list, waiters, streams, rounds, late, func(s *series) error {
				us, err := r.round(s, wakeRound{waiters: waiters, streams: streams})
				if err == nil {
					s.us, s.rounds = append(s.us, us...), append(s.rounds, slices.Max(us))
				}
				return err
			})
			for _, s := range list {
				r.putLatency("latency", s, waiters, streams)
				if waiters >= 10_000 {
					slices.Sort(s.rounds)
					r.put("latency", s.name, waiters, streams, "all running, µs", s.rounds[len(s.rounds)/2])
				}
			}
		}
	}
}

// inTurn measures wake-ups of a stream's waiters while those of others wait on.
func (r *wakeRig) inTurn() {
	const part = "in turn"
	for _, waiters := range r.waiters {
		streams := min(16, slices.Max(r.over))
		if waiters <= streams || waiters > 1000 {
			continue
		}
		list := r.ways(part, waiters, waiters, streams)
		if len(list) == 0 {
			continue
		}
		runtime.GC()
		rounds := max(r.rounds, (r.few+waiters-1)/waiters)
		list = r.each(part, list, waiters, streams, rounds, time.Now().Add(r.wakeFor/12), func(s *series) error {
			us, err := r.round(s, wakeRound{waiters: waiters, streams: streams, inTurn: true})
			s.us = append(s.us, us...)
			return err
		})
		for _, s := range list {
			r.putLatency(part, s, waiters, streams)
		}
	}
}

// putLatency keeps what the samples of a way say.
func (r *wakeRig) putLatency(part string, s *series, waiters, streams int) {
	slices.Sort(s.us)
	for _, p := range []int{50, 90, 99} {
		r.put(part, s.name, waiters, streams, fmt.Sprintf("p%d, µs", p), wakePercentile(s.us, p))
	}
	r.put(part, s.name, waiters, streams, "max, µs", s.us[len(s.us)-1])
	r.put(part, s.name, waiters, streams, "samples", float64(len(s.us)))
}

// wakePercentile returns the smallest of values in ascending order that p percent of them
// do not exceed.
func wakePercentile(v []float64, p int) float64 { return v[max(0, (len(v)*p+99)/100-1)] }

// waiting measures what goroutines cost while they wait: CPU time, and threads. Ways that
// hold threads come last.
func (r *wakeRig) waiting() {
	for _, waiters := range r.waiters {
		streams := min(waiters, 16, slices.Max(r.over))
		list := r.ways("waiting", waiters, waiters, streams)
		slices.SortStableFunc(list, func(a, b *series) int {
			switch {
			case a.holds == b.holds:
				return 0
			case a.holds:
				return 1
			}
			return -1
		})
		r.each("waiting", list, waiters, streams, 1, time.Now(), func(s *series) error {
			retireThreads()
			var before, after int
			_, err := r.round(s, wakeRound{
				waiters: waiters, streams: streams,
				first: func() {
					time.Sleep(r.window / 20)
					before = threads()
				},
				all: func() {
					time.Sleep(r.window / 20)
					s.cpu, s.wall = busy(func() { time.Sleep(r.window) })
					after = threads()
				},
			})
			if err == nil {
				r.put("waiting", s.name, waiters, streams, "CPU, cores", s.cpu.Seconds()/s.wall.Seconds())
				r.put("waiting", s.name, waiters, streams, "threads", float64(after-before))
			}
			return err
		})
	}
	retireThreads()
}

// busy runs f, and returns how much CPU time the process has used meanwhile, and how long
// it took.
func busy(f func()) (cpu, wall time.Duration) {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return 0
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	c0, t0 := used(), time.Now()
	f()
	return used() - c0, time.Since(t0)
}

// threads returns how many threads the process has.
func threads() int {
	list, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0
	}
	return len(list)
}

// retireThreads ends the threads that Go keeps for later, else those that a measurement
// needs are there from the one before. A thread ends with a goroutine that is locked to it.
func retireThreads() {
	n := threads()
	var locked, done sync.WaitGroup
	end := make(chan struct{})
	locked.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread()
			locked.Done()
			<-end
		})
	}
	locked.Wait()
	close(end)
	done.Wait()
	for before := -1; before != n; { // until no more end
		before = n
		time.Sleep(5 * time.Millisecond)
		n = threads()
	}
}

// longWaits measures wake-ups of a waiter that has waited for long, and the CPU time
// meanwhile.
func (r *wakeRig) longWaits() {
	var list []*series
	for _, s := range r.ways("long", 1, 1, 1) {
		if s.name != "spin" { // all it does is known
			list = append(list, s)
		}
	}
	late := r.until(0.5, 4)
	list = r.each("long", list, 1, 1, r.longSamples, late.Add(-r.long*time.Duration(len(list))), func(s *series) error {
		us, err := r.round(s, wakeRound{waiters: 1, streams: 1, all: func() {
			cpu, wall := busy(func() { time.Sleep(r.long) })
			s.cpu, s.wall = s.cpu+cpu, s.wall+wall
		}})
		s.us = append(s.us, us...)
		return err
	})
	for _, s := range list {
		r.putLatency("long", s, 1, 1)
		r.put("long", s.name, 1, 1, "CPU, %", 100*s.cpu.Seconds()/s.wall.Seconds())
	}
}

// kernelsInARow measures the CPU time of waiters for the ends of short kernels that follow
// each other: each waits for every fourth of its stream.
func (r *wakeRig) kernelsInARow() {
	const part, perStream = "kernels", 4
	streams := min(16, slices.Max(r.over))
	waiters := perStream * streams
	list := r.ways(part, waiters, r.kernels*streams, streams)
	if len(list) == 0 {
		return
	}
	mod := Need(r.gpu.LoadModule([]byte(SpinPTX)))(r.b)
	defer mod.Close()
	spin := Need(mod.Function("spin"))(r.b)
	one, ns := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, U64(uint64(r.kernel))
	launch := func(stream int) error { return spin.Launch(r.streams[stream], one, ns) }
	// Code may be loaded when it is first launched.
	if err := errors.Join(launch(0), r.settle(1)); err != nil {
		r.note("%s: FAILED: %v", part, err)
		return
	}
	list = r.each(part, list, waiters, streams, r.rounds, time.Now().Add(r.wakeFor/12), func(s *series) error {
		err := r.held(s, r.kernels*streams, streams, false, launch)
		if err != nil {
			return err
		}
		run := &wakeRun{woken: make([]time.Time, waiters)}
		run.start(r, 0, waiters, func(ctx context.Context, g int) error {
			stream := g % streams
			for k := g / streams; k < r.kernels; k += perStream {
				if err := s.waits.wait(ctx, k*streams+stream); err != nil {
					return err
				}
			}
			return nil
		})
		cpu, wall := busy(func() {
			r.release()
			err = run.finish(r)
		})
		s.cpu, s.wall, s.n = s.cpu+cpu, s.wall+wall, s.n+r.kernels*streams
		if err != nil {
			err = errors.Join(err, r.settle(streams))
		}
		return err
	})
	for _, s := range list {
		r.put(part, s.name, waiters, streams, "CPU, cores", s.cpu.Seconds()/s.wall.Seconds())
		r.put(part, s.name, waiters, streams, "waits per s", float64(s.n)/s.wall.Seconds())
	}
}

// sweeps measures how long it takes to ask for an event of each of many streams: with the
// library's call for arrays, and with a loop in C.
func (r *wakeRig) sweeps() {
	const part = "sweep"
	if !r.wants(part, "array") {
		return
	}
	waits, err := openEvents(EventDisableTiming, (*Event).Wait, true)(r, r.sweep, r.sweep)
	if err == nil {
		err = r.held(&series{waits: waits}, r.sweep, r.sweep, false, nil)
	}
	if err != nil {
		r.note("%s: FAILED: %v", part, err)
		return
	}
	defer func() {
		r.release()
		if err := r.settle(r.sweep); err != nil {
			r.b.Error(err)
		}
	}()
	tab := core.Of(r.gpu).Context.Drv.Table()
	events, results := make([]driver.Event, r.sweep), make([]driver.Result, r.sweep)
	for i := range events {
		events[i] = EventOf(r.events[EventDisableTiming][i]).Slot.Load().Raw
	}
	inGo := func() float64 {
		t0 := time.Now()
		for i := 0; i < len(events); i += drivercall.BatchSize {
			end := min(i+drivercall.BatchSize, len(events))
			tab.EventQueryAll(driver.At{Relaxed: true}, events[i:end], results[i:end])
		}
		return float64(time.Since(t0).Nanoseconds()) / 1e3
	}
	var inC func() float64
	if _, err := exec.LookPath("cc"); !tab.Software() && (err == nil || os.Getenv("PURECU_TEST_CLIB") != "") {
		c := newBaseline(r.b, r.gpu.Device().Driver())
		handles := make([]uintptr, len(events))
		for i, e := range events {
			handles[i] = uintptr(e)
		}
		query := c.proc("cuEventQuery")
		inC = func() float64 {
			return c.ns("array", query, &handles[0], len(handles), 1) * float64(len(handles)) / 1e3
		}
	} else {
		r.note("%s: there is no loop in C here", part)
	}
	var g, cs, ratio []float64
	for round := -1; round < r.sweepRounds; round++ {
		var x, y float64
		measure := []func(){func() { x = inGo() }, func() {
			if inC != nil {
				y = inC()
			}
		}}
		for k := range measure {
			measure[(k+round+2)%2]()
		}
		if round >= 0 { // the first is to warm up
			g, cs, ratio = append(g, x), append(cs, y), append(ratio, x/y)
		}
	}
	for i, res := range results {
		if res != driver.ResultNotReady {
			r.note("%s: event %d is not pending: %v", part, i, res)
			break
		}
	}
	for _, s := range [][]float64{g, cs, ratio} {
		slices.Sort(s)
	}
	mid, k := r.sweepRounds/2, max(0, leftOut(r.sweepRounds))
	r.put(part, "array", r.sweep, r.sweep, "median, µs", g[mid])
	if inC == nil {
		return
	}
	r.put(part, "C", r.sweep, r.sweep, "median, µs", cs[mid])
	r.put(part, "array", r.sweep, r.sweep, "ratio to C", ratio[mid])
	r.put(part, "array", r.sweep, r.sweep, "ratio, from", ratio[k])
	r.put(part, "array", r.sweep, r.sweep, "ratio, to", ratio[len(ratio)-1-k])
}

// TestWakePercentile holds percentiles to be values that were measured.
func TestWakePercentile(t *testing.T) {
	var v []float64
	for i := range 200 {
		v = append(v, float64(i+1))
	}
	for p, want := range map[int]float64{50: 100, 90: 180, 99: 198, 100: 200} {
		if got := wakePercentile(v, p); got != want {
			t.Errorf("percentile %d of 1 to 200 is %v, want %v", p, got, want)
		}
	}
	if got := wakePercentile(v[:1], 50); got != 1 {
		t.Errorf("the median of 1 is %v", got)
	}
}
