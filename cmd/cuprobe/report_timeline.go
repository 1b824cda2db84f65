package main

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/purecu/purecu/cu/trace"
)

// traceEvent is an event of a trace in the Trace Event Format. Its times are in microseconds.
type traceEvent struct {
	Name string         `json:"name"`
	Cat  string         `json:"cat"`
	Ph   string         `json:"ph"`
	TS   float64        `json:"ts"`
	Dur  float64        `json:"dur"`
	PID  int            `json:"pid"`
	TID  int            `json:"tid"`
	ID   int            `json:"id"`
	Args map[string]any `json:"args"`
}

// timelinePlot is a drawing of a trace.
type timelinePlot struct {
	box
	LaneHeight int
	X          []gridLine
	Lanes      []*lanePlot
	Arrows     []arrowPlot
	Length     string // of the whole timeline
}

// lanePlot is a lane of the host or of a stream.
type lanePlot struct {
	Name     string
	Y, TextY int
	Slices   []slicePlot

	pid, tid int
}

// slicePlot is a call, or work of the GPU.
type slicePlot struct {
	X, W, TextX      string
	Class            string // the kind of the work
	Label            string // "" if there is no room
	Name, From, Took string
}

// arrowPlot leads from work to work that waited for it.
type arrowPlot struct {
	X1, X2 string
	Y1, Y2 int
}

// The measures of the timeline, in pixels.
const (
	lineWidth             = 860
	lineLeft, lineRight   = 76, 850
	lineTop               = 24
	lanePitch, laneHeight = 38, 26
	letterWidth           = 7.4 // approximately
)

// errNoTrace is the error for a trace without anything to draw.
var errNoTrace = errors.New("the trace has no work of the GPU")

// drawTrace draws a trace.
func drawTrace(trace json.RawMessage) (*timelinePlot, error) {
	var in struct {
		Events []traceEvent `json:"traceEvents"`
	}
	if err := json.Unmarshal(trace, &in); err != nil {
		return nil, err
	}
	p := &timelinePlot{box: box{Width: lineWidth, Left: lineLeft, Right: lineRight, Top: lineTop - 8},
		LaneHeight: laneHeight}
	begin, end := math.Inf(1), 0.0
	for _, e := range in.Events {
		switch {
		case e.Ph == "M" && e.Name == "thread_name":
			name, _ := e.Args["name"].(string)
			y := lineTop + lanePitch*len(p.Lanes)
			p.Lanes = append(p.Lanes, &lanePlot{Name: name, Y: y, TextY: y + laneHeight/2 + 4, pid: e.PID, tid: e.TID})
		case e.Ph == "X":
			begin, end = min(begin, e.TS), max(end, e.TS+e.Dur)
		}
	}
	if end <= begin {
		return nil, errNoTrace
	}
	at := func(us float64) float64 { return onAxis(us, begin, end, lineLeft, lineRight) }
	starts := make(map[int]traceEvent)
	for _, e := range in.Events {
		l := p.lane(e)
		switch {
		case l == nil:
		case e.Ph == "X":
			l.add(e, at, begin)
		case e.Ph == "s":
			starts[e.ID] = e
		case e.Ph == "f":
			if s, ok := starts[e.ID]; ok {
				p.arrow(at(s.TS), at(e.TS), p.lane(s), l)
			}
		}
	}
	p.Bottom = lineTop + lanePitch*len(p.Lanes)
	p.Height = p.Bottom + 24
	p.Length = unitTime(microseconds(end - begin))
	for _, v := range steps(end - begin) {
		if begin+v <= end {
			p.X = append(p.X, gridLine{pixels(at(begin + v)), unitTime(microseconds(v))})
		}
	}
	return p, nil
}

func microseconds(us float64) time.Duration { return time.Duration(math.Round(us * 1e3)) }

// lane returns the lane of an event, or nil.
func (p *timelinePlot) lane(e traceEvent) *lanePlot {
	i := slices.IndexFunc(p.Lanes, func(l *lanePlot) bool { return l.pid == e.PID && l.tid == e.TID })
	if i < 0 {
		return nil
	}
	return p.Lanes[i]
}

// add adds a call, or work of the GPU.
func (l *lanePlot) add(e traceEvent, at func(us float64) float64, begin float64) {
	x := at(e.TS)
	w := max(at(e.TS+e.Dur)-x, 1.5) // what takes no time is visible, too
	s := slicePlot{
		X: pixels(x), W: pixels(w), TextX: pixels(x + w/2), Class: classOf(e), Name: e.Name,
		From: unitTime(microseconds(e.TS - begin)), Took: unitTime(microseconds(e.Dur)),
	}
	if w > letterWidth*float64(len(e.Name)) {
		s.Label = e.Name
	}
	l.Slices = append(l.Slices, s)
}

// classOf returns the class of a slice, which determines its colour.
func classOf(e traceEvent) string {
	switch {
	case e.Cat != "host":
		return "gpu"
	case e.Name == trace.Launch.String():
		return "launch"
	case e.Name == trace.EventRecord.String():
		return "record"
	case e.Name == trace.StreamWait.String():
		return "order"
	}
	return "other"
}

// arrow adds an arrow from the edge of one lane to the edge of another.
func (p *timelinePlot) arrow(x1, x2 float64, from, to *lanePlot) {
	if from == nil {
		return
	}
	a := arrowPlot{X1: pixels(x1), X2: pixels(x2), Y1: from.Y + laneHeight, Y2: to.Y}
	if to.Y < from.Y {
		a.Y1, a.Y2 = from.Y, to.Y+laneHeight
	}
	p.Arrows = append(p.Arrows, a)
}
