package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/purecu/purecu/tools/internal/plot"
	"github.com/purecu/purecu/tools/internal/svg"
)

// colours are the colours of the ways. Colour-blind readers can distinguish them, too. Ways that
// the benchmark does not know get the last colours in turn.
var colours = []string{"#1f2328", "#6e7781", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// These are the measures of the plot, in pixels.
const (
	plotWidth  = 880
	plotLeft   = 218 // where the axis begins
	plotRight  = 750 // where it ends; values may stand right of it
	plotTop    = 106
	dotPitch   = 14
	dotRadius  = 4
	groupSpace = 12
	lineHeight = 16
	letter     = 7 // approximate width
)

// drawing is a plot that is being drawn.
type drawing struct {
	svg.Image
	plot.Axis
	r *report
}

// SVG returns the plot: the sizes from top to bottom, with a dot and a whisker for each way.
func (r *report) SVG(c plot.Caption) []byte {
	d := drawing{r: r}
	d.scale()
	sizes := r.sizes(latency, p50)
	bottom := plotTop + groupSpace
	for _, s := range sizes {
		bottom += groupSpace + dotPitch*len(r.drawn(s))
	}
	height := bottom + 34 + lineHeight*len(c.Lines())

	style := ""
	for i, colour := range colours {
		style += fmt.Sprintf(`.p%d{fill:%s;stroke:%[2]s}`, i, colour)
	}
	d.Begin(plotWidth, height, c.Title, style)
	d.Text(20, 34, "t", c.Title)
	d.Text(20, 54, "s", "From the host's write until the goroutine runs, on a logarithmic scale: shorter is better. Dot: p50. Whisker: to p99.")
	d.legend(76)
	d.Draw(&d.Image, plotTop, bottom)
	y := plotTop
	for _, s := range sizes {
		y += groupSpace
		d.group(y, s)
		y += dotPitch * len(r.drawn(s))
	}
	for i, line := range c.Lines() {
		d.Text(20, bottom+38+lineHeight*i, "s", line)
	}
	return d.End()
}

// drawn returns the numbers of the ways that have a dot for a size.
func (r *report) drawn(s size) []int {
	var list []int
	for i, way := range r.ways {
		if _, ok := r.value(key{latency, way, s, p50}); ok {
			list = append(list, i)
		}
	}
	return list
}

// ends returns the positions of a dot and of the end of its whisker, in nanoseconds.
func (r *report) ends(way string, s size) (dot, end float64) {
	dot, _ = r.value(key{latency, way, s, p50})
	end, _ = r.value(key{latency, way, s, p99})
	return 1000 * dot, 1000 * max(dot, end)
}

// scale finds the powers of ten around all dots and whiskers.
func (d *drawing) scale() {
	low, high := math.Inf(1), 0.0
	for _, s := range d.r.sizes(latency, p50) {
		for _, i := range d.r.drawn(s) {
			dot, end := d.r.ends(d.r.ways[i], s)
			low, high = min(low, dot), max(high, end)
		}
	}
	if high == 0 {
		low, high = 1e3, 1e6 // there are no dots
	}
	d.Axis = plot.NewAxis(plotLeft, plotRight, low, high)
}

// colour returns the number of the colour of a way.
func (r *report) colour(i int) int {
	known := slices.Index(ways, r.ways[i])
	if known >= 0 {
		return known
	}
	others := slices.DeleteFunc(r.have(latency, p50), func(way string) bool { return slices.Contains(ways, way) })
	return len(ways) + slices.Index(others, r.ways[i])%(len(colours)-len(ways))
}

// legend names the colours of the ways that are drawn.
func (d *drawing) legend(y int) {
	x := plotLeft
	for i, way := range d.r.ways {
		if !slices.Contains(d.r.have(latency, p50), way) {
			continue
		}
		name := d.r.heading(way)
		d.Add(`<circle cx="%d" cy="%d" r="%d" class="p%d"/>`, x, y-4, dotRadius+1, d.r.colour(i))
		d.Text(x+11, y, "", name)
		x += 30 + letter*len(name)
	}
}

// group draws the dots of a size.
func (d *drawing) group(y int, s size) {
	list := d.r.drawn(s)
	about := func(n int, thing string) string {
		if n == 1 {
			return "1 " + thing
		}
		return count(float64(n)) + " " + thing + "s"
	}
	label := about(s.waiters, "waiter") + ", " + about(s.streams, "stream")
	d.Text(plotLeft-10, y+dotPitch*len(list)/2+3, "e", label)
	for _, i := range list {
		way := d.r.ways[i]
		dot, end := d.r.ends(way, s)
		value := plot.Duration(dot)
		if end > dot {
			value += " … " + plot.Duration(end)
		}
		x, xEnd, mid := d.X(dot), d.X(end), y+dotPitch/2
		const cap = 3
		d.Add(`<path d="M%s %dH%sm0 -%dv%d" class="p%d"/>`, svg.Pixels(x), mid, svg.Pixels(xEnd), cap, 2*cap, d.r.colour(i))
		d.Add(`<circle cx="%s" cy="%d" r="%d" class="p%d"><title>%s</title></circle>`, svg.Pixels(x), mid, dotRadius, d.r.colour(i),
			svg.Escape(fmt.Sprintf("%s, %s: %s", d.r.heading(way), label, value)))
		d.Add(`<text x="%s" y="%d" class="v">%s</text>`+"\n", svg.Pixels(xEnd+8), mid+4, value)
		y += dotPitch
	}
}
