package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/purecu/purecu/tools/internal/plot"
)

// cell is one operation of one library.
type cell struct{ operation, peer string }

// measurements are the nanoseconds of calls.
type measurements struct {
	peers      []string // that were measured, in order
	operations []string
	runs       []runName
	rounds     map[cell]map[runName][]float64
	// order has the operations of each library, in the order of the files.
	order map[string][]string
	count int
}

// add adds a measurement.
func (m *measurements) add(k key, ns float64) {
	if m.rounds == nil {
		m.rounds, m.order = make(map[cell]map[runName][]float64), make(map[string][]string)
	}
	c := cell{k.operation, k.peer}
	if m.rounds[c] == nil {
		m.rounds[c] = make(map[runName][]float64)
		m.order[k.peer] = append(m.order[k.peer], k.operation)
	}
	if !slices.Contains(m.runs, k.run) {
		m.runs = append(m.runs, k.run)
	}
	m.rounds[c][k.run] = append(m.rounds[c][k.run], ns)
	m.count++
}

// arrange sorts libraries and operations: first the operations of C, which the others are compared
// with, and then the operations that only other libraries have.
func (m *measurements) arrange() {
	for _, p := range peers {
		if len(m.order[p]) == 0 {
			continue
		}
		m.peers = append(m.peers, p)
		for _, op := range m.order[p] {
			if !slices.Contains(m.operations, op) {
				m.operations = append(m.operations, op)
			}
		}
	}
}

// all returns the measurements of a cell in ascending order.
func (m *measurements) all(c cell) []float64 {
	var list []float64
	for _, run := range m.runs {
		list = append(list, m.rounds[c][run]...)
	}
	slices.Sort(list)
	return list
}

// roundsARun says how many rounds a run has.
func (m *measurements) roundsARun() string {
	low, high := math.MaxInt, 0
	for _, runs := range m.rounds {
		for _, rounds := range runs {
			low, high = min(low, len(rounds)), max(high, len(rounds))
		}
	}
	if low != high {
		return fmt.Sprintf("%d to %d rounds", low, high)
	}
	return plot.Plural(low, "round")
}

// ratio compares the time of a library with that of C.
type ratio struct {
	median float64
	// low and high are the ends of the interval that contains the median with 95 %, if they are
	// known.
	low, high float64
	known     bool
}

// ratioOf compares a library with C, by the medians of the rounds in each run that has both. It
// returns false if there is no such run.
func (m *measurements) ratioOf(c cell) (ratio, bool) {
	base := cell{c.operation, peers[0]}
	var list []float64
	for _, run := range m.runs {
		a, b := m.rounds[c][run], m.rounds[base][run]
		if len(a) > 0 && len(b) > 0 {
			list = append(list, plot.Median(plot.Sorted(a))/plot.Median(plot.Sorted(b)))
		}
	}
	if len(list) == 0 || c == base {
		return ratio{}, false
	}
	slices.Sort(list)
	r := ratio{median: plot.Median(list)}
	if k := plot.LeftOut(len(list)); k >= 0 {
		r.low, r.high, r.known = list[k], list[len(list)-1-k], true
	}
	return r, true
}
