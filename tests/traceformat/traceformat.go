// Package traceformat reads traces in the Trace Event Format, as far as this module writes it. It
// rejects traces that viewers would show wrongly or not at all.
package traceformat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Trace is a trace.
type Trace struct {
	Unit   string            `json:"displayTimeUnit"`
	Other  map[string]any    `json:"otherData"`
	Events []Event           `json:"traceEvents"`
	Lanes  map[[2]int]string `json:"-"` // the names of threads, by process and thread
}

// Event is an event of a trace.
type Event struct {
	Name string         `json:"name"`
	Cat  string         `json:"cat"`
	Ph   string         `json:"ph"`
	TS   json.Number    `json:"ts"`
	Dur  json.Number    `json:"dur"`
	PID  *int           `json:"pid"`
	TID  *int           `json:"tid"`
	ID   int            `json:"id"`
	BP   string         `json:"bp"`
	Args map[string]any `json:"args"`

	// Start and Length are TS and Dur in nanoseconds.
	Start, Length int64 `json:"-"`
}

// End returns when a slice ends, in nanoseconds.
func (e *Event) End() int64 { return e.Start + e.Length }

// lane returns the event's process and thread.
func (e *Event) lane() [2]int { return [2]int{*e.PID, *e.TID} }

// Parse reads a trace, and returns all errors in it.
func Parse(data []byte) (*Trace, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	d.UseNumber()
	t := &Trace{Lanes: make(map[[2]int]string)}
	if err := d.Decode(t); err != nil {
		return nil, err
	}
	c := &checker{Trace: t, processes: make(map[int]bool), flows: make(map[int][]int), open: make(map[[2]int][]int64)}
	if t.Unit != "ns" && t.Unit != "ms" {
		c.errs = append(c.errs, fmt.Errorf("displayTimeUnit is %q", t.Unit))
	}
	for i := range t.Events {
		c.event(i, &t.Events[i])
	}
	for id, l := range c.flows {
		if !c.pair(l) {
			c.errs = append(c.errs, fmt.Errorf("arrow %d has the events %v, not one s and then one f of its name", id, l))
		}
	}
	return t, errors.Join(c.errs...)
}

// checker checks the events of a trace in their order.
type checker struct {
	*Trace
	errs      []error
	processes map[int]bool       // with a name
	flows     map[int][]int      // the events of each arrow
	open      map[[2]int][]int64 // the ends of slices that are open on a lane
	begun     bool               // an event with a time was seen
	last      int64              // the time of the last event
}

func (c *checker) wrong(i int, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("event %d (%s): %s", i, c.Events[i].Name, fmt.Sprintf(format, args...)))
}

func (c *checker) event(i int, e *Event) {
	if e.Name == "" || e.PID == nil || e.TID == nil {
		c.wrong(i, "it has no name, pid or tid")
		return
	}
	var ok, exact bool
	if e.Start, ok = nanoseconds(e.TS); !ok && e.Ph != "M" {
		c.wrong(i, "ts is %q", e.TS)
	}
	e.Length, exact = nanoseconds(e.Dur)
	if e.Ph == "M" {
		c.metadata(i, e)
		return
	}
	if e.Start < 0 {
		c.wrong(i, "it begins at %s", e.TS)
	}
	if c.begun && e.Start < c.last {
		c.wrong(i, "it is not in order")
	}
	c.begun, c.last = true, e.Start
	if !c.processes[*e.PID] || c.Lanes[e.lane()] == "" {
		c.wrong(i, "its process or thread has no name so far")
	}
	switch e.Ph {
	case "X":
		if !exact || e.Length < 0 {
			c.wrong(i, "dur is %q", e.Dur)
		}
		ends := c.open[e.lane()]
		for len(ends) > 0 && ends[len(ends)-1] <= e.Start {
			ends = ends[:len(ends)-1]
		}
		if len(ends) > 0 && e.End() > ends[len(ends)-1] {
			c.wrong(i, "it overlaps another slice of its thread, and does not lie within it")
		}
		c.open[e.lane()] = append(ends, e.End())
	case "s", "f":
		c.arrow(i, e)
	default:
		c.wrong(i, "ph is %q", e.Ph)
	}
}

func (c *checker) metadata(i int, e *Event) {
	switch name, _ := e.Args["name"].(string); {
	case e.Name == "process_name" && name != "":
		c.processes[*e.PID] = true
	case e.Name == "thread_name" && name != "":
		if c.Lanes[e.lane()] != "" {
			c.wrong(i, "the thread has a name")
		}
		c.Lanes[e.lane()] = name
	case e.Name == "thread_sort_index":
		if _, ok := e.Args["sort_index"].(json.Number); !ok {
			c.wrong(i, "args are %v", e.Args)
		}
	default:
		c.wrong(i, "metadata %v", e.Args)
	}
}

func (c *checker) arrow(i int, e *Event) {
	if e.ID == 0 || e.Cat == "" || e.Dur != "" {
		c.wrong(i, "an arrow has an id, a category, and no duration")
	}
	if e.Ph == "f" && e.BP != "e" {
		c.wrong(i, "it does not end in the slice that is open: bp is %q", e.BP)
	}
	isOpen := func(end int64) bool { return end > e.Start || end == e.Start && e.Ph == "f" }
	if !slices.ContainsFunc(c.open[e.lane()], isOpen) && !c.empty(e) {
		c.wrong(i, "no slice is open there")
	}
	c.flows[e.ID] = append(c.flows[e.ID], i)
}

// pair reports whether the events of an arrow are its begin and its end.
func (c *checker) pair(events []int) bool {
	if len(events) != 2 {
		return false
	}
	from, to := &c.Events[events[0]], &c.Events[events[1]]
	return from.Ph == "s" && to.Ph == "f" && from.Name == to.Name && from.Cat == to.Cat
}

// empty reports whether an arrow begins or ends at a slice without a length.
func (t *Trace) empty(arrow *Event) bool {
	return slices.ContainsFunc(t.Events, func(e Event) bool {
		return e.Ph == "X" && e.Length == 0 && e.Start == arrow.Start && e.lane() == arrow.lane()
	})
}

// Slices returns the slices of a category, in the order of their times.
func (t *Trace) Slices(cat string) []Event {
	return slices.DeleteFunc(slices.Clone(t.Events), func(e Event) bool { return e.Ph != "X" || e.Cat != cat })
}

// nanoseconds reads a number of microseconds. ok is false if the number is invalid or not exact.
func nanoseconds(n json.Number) (ns int64, ok bool) {
	r, ok := new(big.Rat).SetString(strings.TrimSpace(string(n)))
	if !ok {
		return 0, false
	}
	r.Mul(r, big.NewRat(1000, 1))
	return r.Num().Int64(), r.IsInt()
}
