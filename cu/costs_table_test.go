package cu_test

import (
	"flag"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	costRounds = flag.Int("costs.rounds", 31, "`rounds` of each comparison with C")
	costCalls  = flag.Int("costs.calls", 1_000_000, "at most so many `calls` in a measurement of costs")
	costOnly   = flag.String("costs.only", "", "measure only the costs of calls that the `regexp` matches")
	costPeers  = flag.Bool("costs.peers", false, "measure only what the file of measurements gets")
)

// costsEnv names the environment variable that names a file for the measurements behind the table. A
// line is a peer, which is C or cu, an operation, the number of the round, and nanoseconds a call,
// with tabs between: tools/plot reads it.
const costsEnv = "PURECU_COSTS_TSV"

// wayKind says what makes the calls.
type wayKind int

const (
	wayC     wayKind = iota // a loop in C
	wayTable                // Go, through the table of package driver
	wayCu                   // Go, through package cu
)

// way is a way to make the calls of a cost.
type way struct {
	kind wayKind
	name string
	op   string              // of the measurements that go to the file, "" if they do not
	ns   func(n int) float64 // makes n calls, and returns the nanoseconds of each
}

// cost is what calls of the driver cost, in several ways.
type cost struct {
	name  string
	n     int // calls in a measurement
	ways  []way
	after func() // between measurements, not timed; may be nil
}

// chosen returns what the flags have left of a cost, and whether anything is left.
func (c cost) chosen() (_ cost, any bool) {
	if *costPeers {
		c.ways = slices.DeleteFunc(slices.Clone(c.ways), func(w way) bool { return w.kind != wayC && w.op == "" })
	}
	c.n = min(c.n, *costCalls)
	some := slices.ContainsFunc(c.ways, func(w way) bool { return w.kind != wayC })
	return c, some && regexp.MustCompile(*costOnly).MatchString(c.name)
}

// measure measures all ways in turn, and returns the nanoseconds a call of each round for each way.
func (c cost) measure(rounds int) [][]float64 {
	for i := range c.ways {
		c.once(i, max(1, c.n/10)) // warms up
	}
	ns := make([][]float64, len(c.ways))
	for round := range rounds {
		for k := range c.ways {
			// The order changes, because a measurement may slow down the next.
			i := (round + k) % len(c.ways)
			if round/len(c.ways)%2 == 1 {
				i = len(c.ways) - 1 - i
			}
			ns[i] = append(ns[i], c.once(i, c.n))
		}
	}
	return ns
}

func (c cost) once(i, n int) float64 {
	ns := c.ways[i].ns(n)
	if c.after != nil {
		c.after()
	}
	return ns
}

// first returns the measurements of the first way of a kind, or nil.
func (c cost) first(kind wayKind, ns [][]float64) []float64 {
	if i := slices.IndexFunc(c.ways, func(w way) bool { return w.kind == kind }); i >= 0 {
		return ns[i]
	}
	return nil
}

// costHeader is the head of the table whose lines are the rows of costs.
const costHeader = "| call | C, ns | Go, ns | Go − C, ns (95 %) | Go / C (95 %) " +
	"| cu − table, ns (95 %) | allocations |\n" +
	"|---|--:|--:|--:|--:|--:|--:|\n"

// rows measures the cost, and returns a line of the table for each way in Go: the medians, and the
// medians of the paired differences and ratios with their 95 % intervals. What it measured goes to tsv.
func (c cost) rows(rounds int, tsv *strings.Builder) string {
	ns := c.measure(rounds)
	cNs, bareNs := c.first(wayC, ns), c.first(wayTable, ns)
	var out strings.Builder
	for i, w := range c.ways {
		if w.kind == wayC {
			continue
		}
		inC, diff, ratio, more := "–", "–", "–", "–"
		if cNs != nil {
			inC = fmt.Sprintf("%.1f", median(cNs))
			diff = pairs(ns[i], cNs, minus).text("%+.1f")
			ratio = pairs(ns[i], cNs, over).text("%.2f")
		}
		if w.kind == wayCu && bareNs != nil {
			more = pairs(ns[i], bareNs, minus).text("%+.1f")
		}
		fmt.Fprintf(&out, "| %s: %s | %s | %.1f | %s | %s | %s | %.0f |\n",
			c.name, w.name, inC, median(ns[i]), diff, ratio, more, c.allocations(i))
		if w.op == "" || cNs == nil {
			continue
		}
		for round := range rounds {
			fmt.Fprintf(tsv, "C\t%[1]s\t%[2]d\t%.2[3]f\ncu\t%[1]s\t%[2]d\t%.2[4]f\n",
				w.op, round+1, cNs[round], ns[i][round])
		}
	}
	return out.String()
}

// allocations returns how often a call allocates.
func (c cost) allocations(i int) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.once(i, c.n)
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(c.n)
}

// costTable measures costs, and returns their table, and what goes to the file.
func costTable(costs []cost) (table, tsv string) {
	var rows, lines strings.Builder
	for _, c := range costs {
		rows.WriteString(c.rows(*costRounds, &lines))
	}
	return "\n" + costHeader + rows.String(), lines.String()
}

// loop returns a measurement of f in nanoseconds a call.
func loop(f func()) func(int) float64 {
	return func(n int) float64 {
		t0 := time.Now()
		for range n {
			f()
		}
		return float64(time.Since(t0)) / float64(n)
	}
}

// apart returns a measurement that makes at most so many of f's calls in a row,
// and lets the GPU catch up in between, untimed: a stream takes about a thousand
// kernels or copies, and then holds its caller up.
func apart(most int, f func(n int) float64, catchUp func()) func(int) float64 {
	return func(n int) float64 {
		var sum float64
		for left := n; left > 0; left -= most {
			k := min(left, most)
			sum += f(k) * float64(k)
			catchUp()
		}
		return sum / float64(n)
	}
}

// paired is the median of values of pairs, and the 95 % interval of their distribution's median. If
// there are too few pairs for an interval, from and to are NaN.
type paired struct{ median, from, to float64 }

func minus(x, y float64) float64 { return x - y }
func over(x, y float64) float64  { return x / y }

// pairs returns the median of f of measurements that were made in the same rounds.
func pairs(x, y []float64, f func(x, y float64) float64) paired {
	v := make([]float64, len(x))
	for i := range v {
		v[i] = f(x[i], y[i])
	}
	slices.Sort(v)
	k := leftOut(len(v))
	if k < 0 {
		return paired{v[len(v)/2], math.NaN(), math.NaN()}
	}
	return paired{v[len(v)/2], v[k], v[len(v)-1-k]}
}

// text returns the median and the interval, if there is one, with a format for each number.
func (p paired) text(format string) string {
	if math.IsNaN(p.from) {
		return fmt.Sprintf(format, p.median)
	}
	return fmt.Sprintf(format+" ("+format+" … "+format+")", p.median, p.from, p.to)
}

// median returns the greater of the two values in the middle if their number is even.
func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

// leftOut returns how many of n values in order can be left out at either end, so
// that the interval of the others covers their distribution's median with 95 % at
// least; -1 if all of them do not.
func leftOut(n int) int {
	k, exactly, outside := 0, math.Exp2(float64(-n)), 0.0
	for ; k < n; k++ {
		// The interval misses the median if k values or fewer are on one side of
		// it; each value has a chance of one half.
		if outside += 2 * exactly; outside > 0.05 {
			break
		}
		exactly *= float64(n-k) / float64(k+1)
	}
	return k - 1
}

// scriptCalls is the number of calls that a script stands for. There are many of them, because Go's
// runtime allocates at any time: divided by so many calls, its allocations are none.
const scriptCalls = 100_000

// script returns a measurement that gives these answers in turn.
func script(ns ...float64) func(int) float64 {
	return func(int) float64 {
		x := ns[0]
		ns = ns[1:]
		return x
	}
}

func TestCost(t *testing.T) {
	var after int
	c := cost{
		name: "cuPoke",
		n:    scriptCalls,
		ways: []way{ // the first answer is the warm-up's, and Go's last counts allocations
			{wayC, "C", "", script(0, 10, 20, 11, 10, 11, 12)},
			{wayTable, "Table.Poke", "", script(0, 12, 25, 13, 11, 12, 14, 0)},
			{wayCu, "Poke", "poke", script(0, 20, 60, 33, 0.125, 44, 30, 0)},
		},
		after: func() { after++ },
	}
	var tsv strings.Builder
	want := "| cuPoke: Table.Poke | 11.0 | 13.0 | +2.0 (+1.0 … +5.0) | 1.18 (1.09 … 1.25) | – | 0 |\n" +
		"| cuPoke: Poke | 11.0 | 33.0 | +22.0 (-9.9 … +40.0) | 3.00 (0.01 … 4.00) | +20.0 (-10.9 … +35.0) | 0 |\n"
	if d := cmp.Diff(want, c.rows(6, &tsv)); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	want = "C\tpoke\t1\t10.00\ncu\tpoke\t1\t20.00\n" +
		"C\tpoke\t2\t20.00\ncu\tpoke\t2\t60.00\n" +
		"C\tpoke\t3\t11.00\ncu\tpoke\t3\t33.00\n" +
		"C\tpoke\t4\t10.00\ncu\tpoke\t4\t0.12\n" +
		"C\tpoke\t5\t11.00\ncu\tpoke\t5\t44.00\n" +
		"C\tpoke\t6\t12.00\ncu\tpoke\t6\t30.00\n"
	if d := cmp.Diff(want, tsv.String()); d != "" {
		t.Errorf("the file (-want +got):\n%s", d)
	}
	if want := 3 + 3*6 + 2; after != want { // warm-ups, measurements, and allocations
		t.Errorf("after was called %d times, want %d", after, want)
	}
}

// TestCostOfFewRounds asserts that no interval is claimed where there are too few rounds for one.
func TestCostOfFewRounds(t *testing.T) {
	c := cost{name: "cuPoke", n: scriptCalls, ways: []way{
		{wayC, "C", "", script(0, 10)},
		{wayTable, "Table.Poke", "", script(0, 12, 0)},
		{wayCu, "Poke", "", script(0, 15, 0)},
	}}
	want := "| cuPoke: Table.Poke | 10.0 | 12.0 | +2.0 | 1.20 | – | 0 |\n" +
		"| cuPoke: Poke | 10.0 | 15.0 | +5.0 | 1.50 | +3.0 | 0 |\n"
	if d := cmp.Diff(want, c.rows(1, new(strings.Builder))); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
}

// TestCostWithoutC asserts that a table is made where there is no C, and that the file gets nothing.
func TestCostWithoutC(t *testing.T) {
	c := cost{name: "cuPoke", n: scriptCalls, ways: []way{{wayCu, "Poke", "poke", script(0, 1, 0)}}}
	var tsv strings.Builder
	if d := cmp.Diff("| cuPoke: Poke | – | 1.0 | – | – | – | 0 |\n", c.rows(1, &tsv)); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	if tsv.Len() != 0 {
		t.Errorf("a cost without C writes %q", tsv.String())
	}
}

// TestCostOrder asserts that each way is measured once a round, and is not always after the same one.
func TestCostOrder(t *testing.T) {
	var log strings.Builder
	note := func(s string) func(int) float64 {
		return func(int) float64 {
			log.WriteString(s)
			return 1
		}
	}
	c := cost{n: 1, ways: []way{{wayC, "", "", note("c")}, {wayTable, "", "", note("b")}, {wayCu, "", "", note("t")}}}
	c.measure(6)
	if got, want := log.String(), "cbt"+"cbt"+"btc"+"tcb"+"tbc"+"bct"+"ctb"; got != want {
		t.Errorf("measured %s, want %s", got, want)
	}
}

// TestLeftOut compares with a table of the sign test.
func TestLeftOut(t *testing.T) {
	for n, want := range map[int]int{1: -1, 5: -1, 6: 0, 9: 1, 15: 3, 25: 7, 31: 9, 50: 17} {
		if got := leftOut(n); got != want {
			t.Errorf("of %d values %d are left out at either end, want %d", n, got, want)
		}
	}
}

func TestApart(t *testing.T) {
	var log []int
	f := func(n int) float64 {
		log = append(log, n)
		return float64(10 * n) // a call costs more in a longer row
	}
	got := apart(40, f, func() { log = append(log, 0) })(100)
	if want := (40*400 + 40*400 + 20*200) / 100.0; got != want {
		t.Errorf("got %v ns a call, want %v", got, want)
	}
	if d := cmp.Diff([]int{40, 0, 40, 0, 20, 0}, log); d != "" {
		t.Errorf("calls, and a 0 where the GPU catches up (-want +got):\n%s", d)
	}
}
