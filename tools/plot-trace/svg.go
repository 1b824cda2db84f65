package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/purecu/purecu/tools/internal/svg"
)

// colours are the colours of the lanes, in turn. Colour-blind readers can distinguish them, too.
var colours = []string{"#c5cad0", "#7fb8dc", "#f2a56b", "#7cccae", "#dba7c6", "#ecd97f"}

// These are the measures of the drawing, in pixels.
const (
	width      = 880
	left       = 90 // where the time begins
	right      = 860
	top        = 66
	lanePitch  = 40
	laneHeight = 26
	letter     = 6.2 // approximate width
)

// drawing is a drawing of a trace.
type drawing struct {
	svg.Image
	t *trace
}

// svg draws the lanes from top to bottom, and the time from left to right.
func (t *trace) svg(title string) []byte {
	d := &drawing{t: t}
	bottom := top + lanePitch*len(t.lanes)
	style := `.a{stroke:#1f2328;fill:none;stroke-opacity:.7}`
	for i, colour := range colours {
		style += fmt.Sprintf(`.p%d{fill:%s}`, i, colour)
	}
	d.Begin(width, bottom+46, title, style)
	d.Add(`<defs><marker id="h" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0L6 3L0 6z"/></marker></defs>` + "\n")
	d.Text(20, 34, "t", title)
	d.axis(bottom)
	for i, l := range t.lanes {
		d.lane(i, l)
	}
	for _, a := range t.arrows {
		d.arrow(a[0], a[1])
	}
	d.Text(20, bottom+36, "s", "Time in microseconds. An arrow leads from a record to what has waited for it.")
	return d.End()
}

// x returns the x coordinate of a time.
func (d *drawing) x(us float64) float64 { return left + (right-left)*us/d.t.end }

// axis draws a line for each round time.
func (d *drawing) axis(bottom int) {
	step := math.Pow10(int(math.Floor(math.Log10(d.t.end))))
	for _, part := range []float64{5, 2} {
		if d.t.end/step < 5 {
			step = step / part
		}
	}
	for us := 0.0; us <= d.t.end; us += step {
		x := svg.Pixels(d.x(us))
		d.Add(`<path d="M%s %dV%d" class="g"/><text x="%[1]s" y="%[4]d" class="s v m">%[5]s</text>`+"\n",
			x, top-8, bottom, bottom+14, strconv.FormatFloat(us, 'f', -1, 64))
	}
}

func (d *drawing) lane(i int, l *lane) {
	y := top + lanePitch*i
	d.Text(left-10, y+laneHeight/2+4, "e", l.name)
	for _, e := range l.slices {
		x := d.x(e.TS)
		w := max(d.x(e.TS+e.Dur)-x, 1.5) // slices without a length are visible, too
		d.Add(`<rect x="%s" y="%d" width="%s" height="%d" rx="1" class="p%d" stroke="#ffffff" stroke-width=".5"><title>%s</title></rect>`,
			svg.Pixels(x), y, svg.Pixels(w), laneHeight, i%len(colours),
			svg.Escape(fmt.Sprintf("%s: %s µs, from %s", e.Name, micros(e.Dur), micros(e.TS))))
		if w > letter*float64(len(e.Name)) {
			d.Add(`<text x="%s" y="%d" class="v m">%s</text>`, svg.Pixels(x+w/2), y+laneHeight/2+4, svg.Escape(e.Name))
		}
		d.Add("\n")
	}
}

func micros(us float64) string { return strconv.FormatFloat(us, 'f', 3, 64) }

// arrow draws an arrow from the edge of one lane to the edge of another.
func (d *drawing) arrow(from, to event) {
	a, b := d.row(from), d.row(to)
	y1, y2 := top+lanePitch*a+laneHeight, top+lanePitch*b
	if b < a {
		y1, y2 = top+lanePitch*a, top+lanePitch*b+laneHeight
	}
	d.Add(`<path d="M%s %dL%s %d" class="a" marker-end="url(#h)"/>`+"\n", svg.Pixels(d.x(from.TS)), y1, svg.Pixels(d.x(to.TS)+2), y2)
}

func (d *drawing) row(e event) int {
	return slices.IndexFunc(d.t.lanes, func(l *lane) bool { return l.place == e.place() })
}
