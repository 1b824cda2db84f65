package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// peers are the libraries that can be compared. The others are compared with the first one.
var peers = []string{"C", "cu", "torch", "cuda.core"}

// costs are the nanoseconds of calls. A line has four fields:
//
//	peer        one of peers
//	operation   what was called
//	round       a number, or the number of a run, a dot and a number
//	nanoseconds a call
//
// A file whose rounds have no run is one run. The rounds of one run follow each other at once, with one process for each
// library. So libraries are compared within each run. An interval that contains the ratio with 95 % needs six runs.
type costs struct {
	cells []cell // in the order of the files
	runs  []string
}

// cell is an operation of a library.
type cell struct {
	operation, peer string
	rounds          map[string][]float64 // of each run
	seen            map[string]bool      // runs and rounds
}

func (c *costs) read(file string, _ bool, f []string) error {
	if len(f) != 4 {
		return fmt.Errorf("%d fields with tabs between, not 4: peer, operation, round, nanoseconds", len(f))
	}
	run, round, several := strings.Cut(f[2], ".")
	if !several {
		run, round = "", f[2]
	}
	ns, err := strconv.ParseFloat(f[3], 64)
	switch {
	case !slices.Contains(peers, f[0]):
		return fmt.Errorf("peer %q is none of %s", f[0], strings.Join(peers, ", "))
	case strings.TrimSpace(f[1]) == "":
		return fmt.Errorf("there is no operation")
	case !isNumber(round) || several && !isNumber(run):
		return fmt.Errorf("round %q is neither a number from 1 nor two with a dot between", f[2])
	case err != nil || math.IsNaN(ns) || math.IsInf(ns, 0) || ns <= 0:
		return fmt.Errorf("%q is no number of nanoseconds", f[3])
	}
	run = file + " " + run
	if !slices.Contains(c.runs, run) {
		c.runs = append(c.runs, run)
	}
	at := c.cell(f[1], f[0])
	if at == nil {
		c.cells = append(c.cells, cell{f[1], f[0], make(map[string][]float64), make(map[string]bool)})
		at = &c.cells[len(c.cells)-1]
	}
	if at.seen[run+round] {
		return fmt.Errorf("%s measured %q in round %s before", f[0], f[1], f[2])
	}
	at.seen[run+round] = true
	at.rounds[run] = append(at.rounds[run], ns)
	return nil
}

// isNumber reports whether s is a decimal number from 1 without leading zeros.
func isNumber(s string) bool {
	n, err := strconv.ParseUint(s, 10, 31)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == s
}

// cell returns an operation of a library, or nil if it was not measured.
func (c *costs) cell(operation, peer string) *cell {
	for i := range c.cells {
		if at := &c.cells[i]; at.operation == operation && at.peer == peer {
			return at
		}
	}
	return nil
}

// all returns the measurements of all runs.
func (c *cell) all() (list []float64) {
	for _, rounds := range c.rounds {
		list = append(list, rounds...)
	}
	return list
}

// operations returns the operations of the first library, and then what only others have.
func (c *costs) operations() (list []string) {
	cells := slices.Clone(c.cells)
	slices.SortStableFunc(cells, func(a, b cell) int {
		return cmp.Compare(slices.Index(peers, a.peer), slices.Index(peers, b.peer))
	})
	for _, at := range cells {
		if !slices.Contains(list, at.operation) {
			list = append(list, at.operation)
		}
	}
	return list
}

// measured returns the libraries that were measured.
func (c *costs) measured() []string {
	return slices.DeleteFunc(slices.Clone(peers), func(p string) bool {
		return !slices.ContainsFunc(c.cells, func(at cell) bool { return at.peer == p })
	})
}

// ratio compares an operation with that of the first library, by the medians of each run that has both.
func (c *costs) ratio(operation, peer string) string {
	at, base := c.cell(operation, peer), c.cell(operation, peers[0])
	if at == nil || base == nil {
		return missing
	}
	var list []float64
	for _, run := range c.runs {
		if a, b := at.rounds[run], base.rounds[run]; len(a) > 0 && len(b) > 0 {
			list = append(list, median(a)/median(b))
		}
	}
	if len(list) == 0 {
		return missing
	}
	slices.Sort(list)
	s := digits(median(list))
	if k := leftOut(len(list)); k >= 0 {
		s += fmt.Sprintf(" (%s … %s)", digits(list[k]), digits(list[len(list)-1-k]))
	}
	return s
}

func (c *costs) tables() (text, method string) {
	heading := []string{"operation"}
	for _, p := range c.measured() {
		heading = append(heading, p+", ns")
		if p != peers[0] {
			heading = append(heading, fmt.Sprintf("%s / %s (95 %%)", p, peers[0]))
		}
	}
	rows, low, high := [][]string{heading}, math.MaxInt, 0
	for _, op := range c.operations() {
		row := []string{op}
		for _, p := range c.measured() {
			ns := missing
			if at := c.cell(op, p); at != nil {
				ns = strconv.FormatFloat(median(at.all()), 'f', 1, 64)
				for _, rounds := range at.rounds {
					low, high = min(low, len(rounds)), max(high, len(rounds))
				}
			}
			if row = append(row, ns); p != peers[0] {
				row = append(row, c.ratio(op, p))
			}
		}
		rows = append(rows, row)
	}
	rounds := plural(low, "round")
	if low != high {
		rounds = fmt.Sprintf("%d to %s", low, plural(high, "round"))
	}
	method = fmt.Sprintf("Medians of %s of %s; a ratio is the median of the runs' ratios, ", plural(len(c.runs), "run"), rounds)
	if leftOut(len(c.runs)) >= 0 {
		return table(1, rows), method + "with the interval that covers it with 95 %"
	}
	return table(1, rows), method + "without an interval, which takes six runs"
}

func (c *costs) picture() (what string, rows []row) {
	for _, op := range c.operations() {
		for _, p := range c.measured() {
			if at := c.cell(op, p); at != nil {
				v := at.all()
				rows = append(rows, row{op, p, median(v), percentile(v, 5), percentile(v, 95)})
			}
		}
	}
	return "The median time of a call, from the 5th to the 95th percentile of the rounds: left is better", rows
}
