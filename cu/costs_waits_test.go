//go:build linux

package cu_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// BenchmarkWaitsAgainstC prints how many waits goroutines register and how many the watcher completes,
// how many records goroutines make and wait for beside threads in C, and how late goroutines run
// beside threads in C that spin.
func BenchmarkWaitsAgainstC(b *testing.B) {
	r := newCostRig(b)
	w := &wakeRig{
		b: b, gpu: r.gpu, gate: NewGate(b, r.gpu), events: make(map[EventFlags][]*Event),
		full: make(map[string][]wakeLoad), slow: make(map[string]int),
		wakeSize: wakeSize{pause: 2 * time.Millisecond},
	}
	for range 16 {
		w.streams = append(w.streams, Need(r.gpu.NewStream(StreamNonBlocking))(b))
	}
	defer w.close()
	for range 1 { // what is measured is not the loop
		b.Log(r.waitRates(w) + r.roundTrips() + r.wakeUps(w))
	}
	for _, n := range w.notes {
		b.Log(n)
	}
	r.logMachine()
}

// waitLoad is what goroutines wait for: events of a stream for each of them.
type waitLoad struct {
	name    string
	streams []*Stream
	events  [][]*Event
	hold    func() error // lets no record complete
	release func()
}

// waitGoroutines is how many goroutines register waits.
const waitGoroutines = 8

// waitRates measures waits on a driver that costs nothing, and on the one that is measured.
func (r *costRig) waitRates(w *wakeRig) string {
	each := min(2000, 10**costCalls)
	soft := new(quickEvents)
	quick := Need(Open(WithSoftware(driver.Provide(soft))))(r.b)
	gpu := Need(Need(quick.Device(0))(r.b).PrimaryContext())(r.b)
	defer gpu.Close()
	loads := []*waitLoad{
		{
			name:    "none, whose calls cost nothing",
			hold:    func() error { soft.pending.Store(true); return nil },
			release: func() { soft.pending.Store(false) },
		},
		{
			name:    "of the device",
			streams: w.streams[:waitGoroutines],
			hold:    func() error { return w.hold(waitGoroutines, false) },
			release: func() { w.release() },
		},
	}
	for range waitGoroutines {
		loads[0].streams = append(loads[0].streams, Need(gpu.NewStream(StreamNonBlocking))(r.b))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n| driver | goroutines | waits "+
		"| registered/s (95 %%) | completed/s (95 %%) | both/s (95 %%) |\n"+
		"|---|--:|--:|--:|--:|--:|\n")
	for i, l := range loads {
		for range waitGoroutines {
			l.events = append(l.events, make([]*Event, each))
			for k := range each {
				in := []*Context{gpu, r.gpu}[i]
				l.events[len(l.events)-1][k] = Need(in.NewEvent(EventDisableTiming))(r.b)
			}
		}
		out.WriteString(r.waitRow(l))
		for _, events := range l.events {
			closeAll(r.b, events)
		}
	}
	closeAll(r.b, loads[0].streams)
	return out.String()
}

// waitRow measures a load, and returns a line of the table.
func (r *costRig) waitRow(l *waitLoad) string {
	var register, complete, both []float64
	one := make([]float64, *costRounds)
	for round := -1; round < *costRounds; round++ {
		x, y := r.waitRound(l)
		if round >= 0 { // the first is to warm up
			register, complete, both = append(register, x), append(complete, y), append(both, x+y)
			one[round] = 1e9
		}
	}
	rate := func(ns []float64) string { return pairs(one, ns, over).text("%.0f") }
	return fmt.Sprintf("| %s | %d | %d | %s | %s | %s |\n", l.name, len(l.events), len(l.events)*len(l.events[0]),
		rate(register), rate(complete), rate(both))
}

// waitRound lets goroutines register a wait for each event while none completes, and then lets all
// complete. It returns the nanoseconds of a wait.
func (r *costRig) waitRound(l *waitLoad) (register, complete float64) {
	r.ok(l.hold())
	each := len(l.events[0])
	done := make([][]<-chan struct{}, len(l.events))
	for i, events := range l.events {
		done[i] = make([]<-chan struct{}, each)
		for _, e := range events {
			r.ok(e.Record(l.streams[i]))
		}
	}
	register = abreast(len(l.events), 1, each, func(i int) {
		for k, e := range l.events[i] {
			t, err := e.Ticket()
			if err != nil {
				r.b.Error(err)
			}
			done[i][k] = t.Done()
		}
	}, nil)
	t0 := time.Now()
	l.release()
	abreast(len(l.events), 1, each, func(i int) {
		for _, c := range done[i] {
			if c != nil {
				<-c
			}
		}
	}, nil)
	return register, float64(time.Since(t0)) / float64(len(l.events)*each)
}

// roundTrips measures records that are waited for one by one.
func (r *costRig) roundTrips() string {
	const calls = 500
	t, tab := r.newThreads(waitGoroutines), core.Of(r.drv).Table()
	ctxs := make([]context.Context, waitGoroutines) // one a goroutine: they would fight over one
	for i := range ctxs {
		var cancel context.CancelFunc
		ctxs[i], cancel = context.WithCancel(r.b.Context())
		defer cancel()
	}
	var out strings.Builder
	out.WriteString("\n" + throughputHeader)
	for _, threads := range []int{1, waitGoroutines} {
		inC := threadCalls{f: "cuEventRecord", then: "cuEventSynchronize", handles: t.rawEvents, streams: t.rawStreams}
		c := cost{"cuEventRecord + cuEventSynchronize; Event.Record + Event.Wait", min(some, *costCalls), []way{
			r.inThreads(inC, threads, calls),
			t.way(wayTable, threads, calls, func(i int) error {
				e := driver.Event(t.rawEvents[i])
				res := tab.EventRecord(driver.At{}, e, driver.Stream(t.rawStreams[i]))
				return resultError(max(res, tab.EventSynchronize(driver.At{}, e)))
			}),
			t.way(wayCu, threads, calls, func(i int) error {
				return errors.Join(t.events[i].Record(t.streams[i]), t.events[i].Wait(ctxs[i]))
			}),
		}, nil}
		if r.c == nil {
			c.ways = c.ways[1:]
		}
		out.WriteString(throughput{c, threads}.row())
	}
	return out.String()
}

// threadWaits are waits by threads in C.
type threadWaits struct {
	*eventWaits
	c     *baseline
	f     procName
	began atomic.Pointer[int32] // how many threads wait in the round
	seen  []time.Time
}

// openThreads returns a way to wait in C, with cuEventSynchronize or with cuEventQuery in a loop. The
// threads exist before the streams go on.
func openThreads(c *baseline, f procName) func(*wakeRig, int, int) (wakeWaits, error) {
	return func(r *wakeRig, waits, streams int) (wakeWaits, error) {
		w, err := openEvents(EventDisableTiming, synchronizeEvent, false)(r, waits, streams)
		if err != nil {
			return nil, err
		}
		return &threadWaits{eventWaits: w.(*eventWaits), c: c, f: f, seen: make([]time.Time, waits)}, nil
	}
}

func (w *threadWaits) arm(i, stream int) error {
	if i == 0 {
		w.began.Store(new(int32))
	}
	return w.eventWaits.arm(i, stream)
}

// wait of the first wait waits for all.
func (w *threadWaits) wait(_ context.Context, i int) error {
	if i != 0 {
		return nil
	}
	n := len(w.seen)
	handles, seen := make([]uintptr, n), make([]uint64, n)
	for i, e := range w.events[:n] {
		handles[i] = uintptr(rawOf(e))
	}
	at := w.c.clock()
	w.c.call("wait_all", w.c.proc(string(w.f)), &handles[0], n, w.began.Load(), &seen[0])
	for i, ns := range seen {
		w.seen[i] = at(ns)
	}
	return nil
}

// clock returns a function that converts times of C's clock. It reads both clocks until the reads are
// as close together as they get: a single pair of reads was up to 60 µs apart on a busy machine.
func (c *baseline) clock() func(ns uint64) time.Time {
	var at time.Time
	var ns uint64
	closest := time.Hour
	for range 50 {
		before := time.Now()
		n := uint64(c.call("now"))
		if d := time.Since(before); d < closest {
			at, ns, closest = before.Add(d/2), n, d
		}
	}
	return func(other uint64) time.Time { return at.Add(time.Duration(other - ns)) }
}

// waiting returns how many threads wait.
func (w *threadWaits) waiting() int       { return int(atomic.LoadInt32(w.began.Load())) }
func (w *threadWaits) times() []time.Time { return w.seen }

// wakeUps measures how long after the host's write 64 waiters run, in C and in Go.
func (r *costRig) wakeUps(w *wakeRig) string {
	const waiters, streams, samples, part = 64, 16, 10_000, "64 waiters"
	var list []*series
	add := func(way wakeWay) {
		s := &series{wakeWay: way}
		s.waits = Need(way.open(w, waiters, streams))(r.b)
		list = append(list, s)
	}
	if r.c != nil {
		add(wakeWay{name: "threads in C, cuEventSynchronize", open: openThreads(r.c, "cuEventSynchronize")})
		add(wakeWay{name: "threads in C, cuEventQuery in a loop", open: openThreads(r.c, "cuEventQuery")})
	}
	for _, way := range wakeWays {
		if slices.Contains([]string{"memory", "spin", "watcher", "timeline"}, way.name) {
			add(way)
		}
	}
	first := list[0] // in C, if there is C
	rounds := min(samples/waiters, *costRounds*10, *costCalls)
	list = w.each(part, list, waiters, streams, rounds, time.Now().Add(time.Minute), func(s *series) error {
		us, err := w.round(s, wakeRound{waiters: waiters, streams: streams})
		s.us = append(s.us, us...)
		return err
	})
	var out strings.Builder
	out.WriteString("\n| 64 waiters, 16 streams | p50, µs | p99, µs | p50 / C (95 %) | p99 / C (95 %) | samples |\n" +
		"|---|--:|--:|--:|--:|--:|\n")
	for _, s := range list {
		p50, p99 := "–", "–"
		if r.c != nil && !first.failed && len(s.us) == len(first.us) {
			p50 = percentileRatio(s.us, first.us, waiters, 50).text("%.2f")
			p99 = percentileRatio(s.us, first.us, waiters, 99).text("%.2f")
		}
		us := slices.Sorted(slices.Values(s.us))
		fmt.Fprintf(&out, "| %s | %.1f | %.1f | %s | %s | %d |\n",
			s.name, wakePercentile(us, 50), wakePercentile(us, 99), p50, p99, len(us))
	}
	return out.String()
}

// percentileRatio returns the ratio of a percentile of x to that of y. Both have each values of every
// round. The interval is that of 95 % of samples of as many rounds, drawn with replacement.
func percentileRatio(x, y []float64, each, p int) paired {
	rounds := len(x) / each
	ratio := func(round func(i int) int) float64 {
		var a, b []float64
		for i := range rounds {
			at := round(i) * each
			a, b = append(a, x[at:at+each]...), append(b, y[at:at+each]...)
		}
		slices.Sort(a)
		slices.Sort(b)
		return wakePercentile(a, p) / wakePercentile(b, p)
	}
	const draws = 200
	random := rand.New(rand.NewPCG(1, 2))
	drawn := make([]float64, draws)
	for i := range drawn {
		drawn[i] = ratio(func(int) int { return random.IntN(rounds) })
	}
	slices.Sort(drawn)
	return paired{ratio(func(i int) int { return i }), drawn[draws*25/1000], drawn[draws*975/1000]}
}

// TestPercentileRatio asserts that rounds are compared as a whole.
func TestPercentileRatio(t *testing.T) {
	var x, y []float64
	for round := range 100 {
		for i := range 4 {
			v := float64(1 + (round*7+i*3)%50)
			x, y = append(x, 3*v), append(y, v)
		}
	}
	got := percentileRatio(x, y, 4, 50)
	if got.median != 3 || got.from > 3 || got.to < 3 || got.to-got.from > 3 {
		t.Errorf("the ratio is %v, want 3 within a narrow interval", got)
	}
	for i := range x {
		x[i] = 5
		y[i] = 2
	}
	if got, want := percentileRatio(x, y, 4, 99), (paired{2.5, 2.5, 2.5}); got != want {
		t.Errorf("the ratio is %v, want %v", got, want)
	}
}
