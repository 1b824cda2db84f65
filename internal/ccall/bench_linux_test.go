package ccall

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// cfuncs are the C functions that the benchmarks call. They return at once.
type cfuncs struct {
	query, queryTimes uintptr
	out, push, pop    uintptr
	registered        func(handle uintptr) int32
	handles           [64]uintptr
	results           [64]int32
}

const wrong = "the C function returned something else"

// way is a way to call a C function n times.
type way struct {
	name string
	what string // what is called, if not query
	run  func(c *cfuncs, n int)
}

// ways begins with the way of this package. The other ways are compared with it.
var ways = []way{
	{Engine, "", func(c *cfuncs, n int) {
		for range n {
			if query(c.query, 1) != 0 {
				panic(wrong)
			}
		}
	}},
	{Engine + "-out", "with an out-value", func(c *cfuncs, n int) {
		for range n {
			if out, r := callOut(c.out, 7); out != 7 || r != 0 {
				panic(wrong)
			}
		}
	}},
	{Engine + "-scope", "between push and pop", func(c *cfuncs, n int) {
		s := Scope{Push: c.push, Pop: c.pop, Context: 5}
		for range n {
			if scopedQuery(s, c.query, 1) != 0 {
				panic(wrong)
			}
		}
	}},
	{Engine + "-each", "for one of 64 handles", func(c *cfuncs, n int) {
		for ; n > 0; n -= len(c.handles) {
			e := Each{Fn: c.query, N: uintptr(min(n, len(c.handles))), Results: unsafe.Pointer(&c.results)}
			for i := range e.A {
				e.A[i].Base, e.A[i].Stride = unsafe.Pointer(&c.handles), 8
			}
			e.Call(Hot, nil)
			if c.results[0] != 0 {
				panic(wrong)
			}
		}
	}},
	{"C", "in a loop in C", func(c *cfuncs, n int) {
		if call6(c.queryTimes, c.query, 1, uintptr(n)) != 0 {
			panic(wrong)
		}
	}},
}

// query makes a call like the generated code of package driver.
func query(fn, handle uintptr) int32 {
	f := struct {
		fn, r, handle uintptr
		_             [5]uintptr
	}{fn: fn, handle: handle}
	Call6(unsafe.Pointer(&f), Hot, nil)
	return int32(f.r)
}

// scopedQuery is query within a scope.
func scopedQuery(s Scope, fn, handle uintptr) int32 {
	f := struct {
		fn, r, handle uintptr
		_             [5]uintptr
	}{fn: fn, handle: handle}
	if r, _ := s.Call6(unsafe.Pointer(&f), Hot, nil); r != 0 {
		return r
	}
	return int32(f.r)
}

func newCfuncs(b *testing.B) *cfuncs {
	c := &cfuncs{
		query: cfunc(b, "query"), queryTimes: cfunc(b, "query_times"),
		out: cfunc(b, "out8"), push: cfunc(b, "quick_push"), pop: cfunc(b, "quick_pop"),
	}
	register(c)
	for i := range c.handles {
		c.handles[i] = 1
	}
	return c
}

// BenchmarkCrossing measures each way separately.
func BenchmarkCrossing(b *testing.B) {
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			c := newCfuncs(b)
			b.ReportAllocs()
			b.ResetTimer()
			w.run(c, b.N)
		})
	}
}

// BenchmarkCrossingPaired measures all ways interleaved, in at least 15 rounds, and prints a table.
// It has for each way the median of the time of a call, and the medians of the difference from and
// of the ratio to this package's way in the same round. Each median has a 95 % interval.
func BenchmarkCrossingPaired(b *testing.B) {
	const (
		minRounds = 15
		calls     = 20_000
	)
	c := newCfuncs(b)
	times := make([][]float64, len(ways)) // ns for a call, by way and round
	round := func() {
		n := len(times[0])
		for i := range ways {
			// Each round begins with a different way.
			i = (i + n) % len(ways)
			begun := time.Now()
			ways[i].run(c, calls)
			times[i] = append(times[i], float64(time.Since(begun).Nanoseconds())/calls)
		}
	}
	for b.Loop() {
		round()
	}
	for len(times[0]) < minRounds {
		round()
	}

	var table strings.Builder
	fmt.Fprintf(&table, "%s, %s/%s, %d rounds of %d calls\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, len(times[0]), calls)
	fmt.Fprintf(&table, "| way | ns | allocations | %s - way, ns | %s / way |\n|---|--:|--:|--:|--:|\n", ways[0].name, ways[0].name)
	for i, w := range ways {
		var differences, ratios []float64
		for j, ns := range times[i] {
			differences = append(differences, times[0][j]-ns)
			ratios = append(ratios, times[0][j]/ns)
		}
		ns, difference, ratio := medianOf(times[i]), medianOf(differences), medianOf(ratios)
		name := w.name
		if w.what != "" {
			name += ", " + w.what
		}
		const calls = 64 // as many as one crossing of Each makes
		allocs := testing.AllocsPerRun(100, func() { w.run(c, calls) }) / calls
		fmt.Fprintf(&table, "| %s | %.1f | %.2g | %v | %v |\n", name, ns.mid, allocs, difference, ratio)
		if w.name == "cgo" || w.name == "SyscallN" {
			b.ReportMetric(ratio.mid, ways[0].name+"/"+w.name)
			b.ReportMetric(ratio.low, ways[0].name+"/"+w.name+"-low")
			b.ReportMetric(ratio.high, ways[0].name+"/"+w.name+"-high")
		}
	}
	b.ReportMetric(0, "ns/op") // hide the time of a round
	epilogue = table.String()  // b.Log would cut it off
}

// median is a median and its interval of 95 %.
type median struct{ low, mid, high float64 }

func (m median) String() string { return fmt.Sprintf("%.2f [%.2f, %.2f]", m.mid, m.low, m.high) }

// medianOf returns the median of at least six values, and a 95 % interval: each value is above or
// below the true median with a probability of 1/2.
func medianOf(values []float64) median {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	// cut is how many values on each side are outside of the interval. Their probability is at most
	// 0.025.
	cut, tail, p := 0, 0.0, 1.0
	for range n {
		p /= 2
	}
	for k := range n / 2 { // p: the probability of k heads
		if tail += p; tail > 0.025 {
			break
		}
		cut++
		p = p * float64(n-k) / float64(k+1)
	}
	low := max(cut-1, 0)
	return median{s[low], (s[(n-1)/2] + s[n/2]) / 2, s[n-1-low]}
}
