package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
)

// event is an event of the trace. Its times are in microseconds.
type event struct {
	Name string         `json:"name"`
	Ph   string         `json:"ph"`
	TS   float64        `json:"ts"`
	Dur  float64        `json:"dur"`
	PID  int            `json:"pid"`
	TID  int            `json:"tid"`
	ID   int            `json:"id"`
	Args map[string]any `json:"args"`
}

func (e event) place() place { return place{e.PID, e.TID} }

// place is a thread of a process.
type place struct{ pid, tid int }

// lane has the slices of a thread.
type lane struct {
	place
	name   string
	slices []event
}

// trace is the content of the drawing.
type trace struct {
	lanes  []*lane
	arrows [][2]event
	end    float64
}

// errEmpty is the error of read for a trace without slices that take time.
var errEmpty = errors.New("the trace has no slices")

// read reads a trace.
func read(text []byte) (*trace, error) {
	var in struct {
		Events []event `json:"traceEvents"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	t := new(trace)
	lanes := make(map[place]*lane)
	starts := make(map[int]event)
	for _, e := range in.Events {
		l := lanes[e.place()]
		switch {
		case e.Ph == "M" && e.Name == "thread_name":
			name, _ := e.Args["name"].(string)
			l = &lane{place: e.place(), name: name}
			lanes[l.place] = l
			t.lanes = append(t.lanes, l)
		case l == nil:
		case e.Ph == "X":
			l.slices = append(l.slices, e)
			t.end = max(t.end, e.TS+e.Dur)
		case e.Ph == "s":
			starts[e.ID] = e
		case e.Ph == "f":
			if s, ok := starts[e.ID]; ok {
				t.arrows = append(t.arrows, [2]event{s, e})
			}
		}
	}
	if t.end == 0 {
		return nil, errEmpty
	}
	slices.SortStableFunc(t.lanes, func(a, b *lane) int { return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.tid, b.tid)) })
	return t, nil
}
