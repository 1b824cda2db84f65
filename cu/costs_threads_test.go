package cu_test

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// BenchmarkThreadsAgainstC prints how many calls goroutines make, each on a stream of its own, beside
// as many threads in C, measured in turn. All launch one function with the same memory, or each
// records an event of its own.
func BenchmarkThreadsAgainstC(b *testing.B) {
	r := newCostRig(b)
	var out strings.Builder
	out.WriteString("\n" + throughputHeader)
	for range 1 { // what is measured is not the loop
		for _, m := range r.throughputs() {
			out.WriteString(m.row())
		}
	}
	b.Log(out.String())
	r.logMachine()
}

// throughputHeader is the head of the table whose lines are the rows of throughputs.
const throughputHeader = "| call | threads | C, calls/s | Table, calls/s | cu, calls/s " +
	"| Table / C (95 %) | cu / C (95 %) |\n" +
	"|---|--:|--:|--:|--:|--:|--:|\n"

// throughput is what threads do together.
type throughput struct {
	cost
	threads int
}

// row measures the ways, and returns a line of the table.
func (t throughput) row() string {
	const rounds = 9
	ns := t.measure(min(*costRounds, rounds))
	inC, bare, cu := t.first(wayC, ns), t.first(wayTable, ns), t.first(wayCu, ns)
	perSecond := func(ns []float64) string {
		if ns == nil {
			return "–"
		}
		return fmt.Sprintf("%.0f", 1e9/median(ns))
	}
	ratio := func(ns []float64) string {
		if ns == nil || inC == nil {
			return "–"
		}
		return pairs(inC, ns, over).text("%.3f") // of the calls per second
	}
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %s |\n",
		t.name, t.threads, perSecond(inC), perSecond(bare), perSecond(cu), ratio(bare), ratio(cu))
}

// threadCalls are calls that threads make in C: f with a handle and a stream, and then then, if it is
// set, with the handle. With params f is cuLaunchKernel, and the handles are the function.
type threadCalls struct {
	f, then          procName
	handles, streams []uintptr
	params           uintptr
}

// inThreads returns the way of so many threads in C, which make so many calls before their streams
// are synchronized, untimed. The time is that of all threads together, per call.
func (r *costRig) inThreads(c threadCalls, threads, calls int) way {
	return way{wayC, "C", "", func(n int) float64 {
		var then, sync, streams any = 0, 0, 0
		if c.then != "" {
			then = r.c.proc(string(c.then))
		}
		if c.streams != nil {
			sync, streams = r.c.proc("cuStreamSynchronize"), &c.streams[0]
		}
		parts, calls := partsOf(n, calls)
		return r.c.ns("threads", r.c.proc(string(c.f)), then, sync, &c.handles[0], streams, c.params,
			threads, parts, calls)
	}}
}

// partsOf returns in how many parts a thread makes n calls, and how many calls a part has.
func partsOf(n, calls int) (parts, each int) { return max(1, n/calls), min(n, calls) }

// costThreads has what the most threads need.
type costThreads struct {
	r                         *costRig
	streams                   []*Stream
	events                    []*Event
	rawStreams, rawEvents, fn []uintptr
	kernel                    *Function
}

func (r *costRig) newThreads(n int) *costThreads {
	t := &costThreads{r: r, kernel: r.kernel(4)}
	for range n {
		s, e := r.newStream(), r.newEvent(EventDisableTiming)
		r.ok(e.Record(s))
		t.streams, t.rawStreams = append(t.streams, s), append(t.rawStreams, uintptr(core.Of(s).Raw))
		t.events, t.rawEvents = append(t.events, e), append(t.rawEvents, uintptr(rawOf(e)))
		t.fn = append(t.fn, uintptr(RawFunction(t.kernel)))
	}
	return t
}

// way returns the way of goroutines that call f.
func (t *costThreads) way(kind wayKind, threads, calls int, f func(i int) error) way {
	return way{kind, "", "", func(n int) float64 {
		parts, calls := partsOf(n, calls)
		return abreast(threads, parts, calls, func(i int) {
			for range calls {
				if err := f(i); err != nil {
					t.r.b.Error(err)
					return
				}
			}
		}, func(i int) {
			if err := t.streams[i].Synchronize(); err != nil {
				t.r.b.Error(err)
			}
		})
	}}
}

// throughputs returns what is measured. Neither side needs a current context on these streams.
func (r *costRig) throughputs() (list []throughput) {
	t := r.newThreads(16)
	for _, threads := range []int{1, 2, 4, 8, 16} {
		for _, c := range []cost{t.launches(threads), t.records(threads)} {
			if r.c == nil {
				c.ways = c.ways[1:]
			}
			c.n = min(c.n, *costCalls)
			if regexp.MustCompile(*costOnly).MatchString(c.name) {
				list = append(list, throughput{c, threads})
			}
		}
	}
	return list
}

func (t *costThreads) launches(threads int) cost {
	const calls = 500 // a stream takes about a thousand
	args, values := t.r.costArgs(4)
	params, tab, raw := kernelParams(args...), core.Of(t.r.drv).Table(), RawFunction(t.kernel)
	c := threadCalls{f: "cuLaunchKernel", handles: t.fn, streams: t.rawStreams, params: t.r.cParams(values)}
	return cost{"cuLaunchKernel, 4 arguments", many, []way{
		t.r.inThreads(c, threads, calls),
		t.way(wayTable, threads, calls, func(i int) error {
			s := driver.Stream(t.rawStreams[i])
			return resultError(tab.LaunchKernel(driver.At{}, raw, 1, 1, 1, 1, 1, 1, 0, s, params))
		}),
		t.way(wayCu, threads, calls, func(i int) error { return t.kernel.Launch(t.streams[i], OneThread, args...) }),
	}, nil}
}

func (t *costThreads) records(threads int) cost {
	const calls = 2000
	tab := core.Of(t.r.drv).Table()
	return cost{"cuEventRecord, untimed", 2 * many, []way{
		t.r.inThreads(threadCalls{f: "cuEventRecord", handles: t.rawEvents, streams: t.rawStreams}, threads, calls),
		t.way(wayTable, threads, calls, func(i int) error {
			e, s := driver.Event(t.rawEvents[i]), driver.Stream(t.rawStreams[i])
			return resultError(tab.EventRecord(driver.At{}, e, s))
		}),
		t.way(wayCu, threads, calls, func(i int) error { return t.events[i].Record(t.streams[i]) }),
	}, nil}
}

// resultError returns a result as an error, nil for success.
func resultError(res driver.Result) error {
	if res != driver.ResultSuccess {
		return res
	}
	return nil
}

// meeting lets goroutines begin at the same time. They spin, because a goroutine that sleeps takes a
// while to wake up. It is barrier of tests/gpu/baseline.c.
type meeting struct {
	here, passed atomic.Uint32
	goroutines   uint32
}

func (m *meeting) meet() {
	passed := m.passed.Load()
	if m.here.Add(1) == m.goroutines {
		m.here.Store(0)
		m.passed.Add(1)
		return
	}
	for looks := 1; m.passed.Load() == passed; looks++ {
		if looks%1024 == 0 {
			runtime.Gosched() // there may be fewer processors than goroutines
		}
	}
}

// abreast lets goroutines work at the same time, in so many parts of so many calls. It returns the
// wall time per call of all of them together, without that of between, which each calls between
// parts unless it is nil.
func abreast(goroutines, parts, calls int, work, between func(i int)) float64 {
	m := &meeting{goroutines: uint32(goroutines)}
	began, ended := make([]time.Time, goroutines), make([]time.Time, goroutines)
	var took time.Duration
	var done sync.WaitGroup
	for i := range goroutines {
		done.Go(func() {
			for range parts {
				m.meet()
				began[i] = time.Now()
				work(i)
				ended[i] = time.Now()
				m.meet()
				if i == 0 {
					took += span(began, ended)
				}
				if between != nil {
					between(i)
				}
			}
		})
	}
	done.Wait()
	return float64(took) / float64(goroutines*parts*calls)
}

// span returns the time from when the first has begun until the last has ended.
func span(began, ended []time.Time) time.Duration {
	first, last := began[0], ended[0]
	for i := range began {
		if began[i].Before(first) {
			first = began[i]
		}
		if ended[i].After(last) {
			last = ended[i]
		}
	}
	return last.Sub(first)
}

// TestAbreast asserts that goroutines begin each part together, and that only parts are timed.
func TestAbreast(t *testing.T) {
	const goroutines, parts = 4, 5
	const work, between = time.Millisecond, 20 * time.Millisecond
	var parted [parts]atomic.Int32
	next := make([]int, goroutines)
	ns := abreast(goroutines, parts, 1, func(i int) {
		part := next[i]
		next[i]++
		parted[part].Add(1)
		if part > 0 && parted[part-1].Load() != goroutines {
			t.Error("a part begins before the one before has ended")
		}
		time.Sleep(work)
	}, func(int) { time.Sleep(between) })
	if least := float64(work) / goroutines; ns < least {
		t.Errorf("%v ns a call, want %v at least", ns, least)
	}
	if got := parted[parts-1].Load(); got != goroutines {
		t.Errorf("%d goroutines have made the last part", got)
	}
}
