package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// chart is a plot of values over a logarithmic axis.
type chart struct {
	ID             string
	Title          string
	XLabel, YLabel string
	X, Y           []gridLine
	Series         []*curve
	// Empty says why there is nothing to draw, or is "".
	Empty string
}

// gridLine is a line of the grid, with its label.
type gridLine struct {
	At    string // in pixels
	Label string
}

// curve is a series of a chart.
type curve struct {
	Class  string // its colour and the dashes of its line
	Name   string
	Note   string // the most important numbers
	Points string // of a polyline, in pixels
	Dots   []dot

	values []point
}

// dot is a measured value.
type dot struct{ X, Y, Title string }

// point is a measured value before it has a place.
type point struct {
	x, y  float64
	title string
}

// The size of a chart and of the area of its values, in pixels. Two charts are side by side on a wide
// screen, and the text of one can be read on a narrow screen.
const (
	chartWidth, chartHeight = 420, 250
	chartLeft, chartRight   = 46, 390
	chartTop, chartBottom   = 12, 206
)

// box is the size of a chart, for the template.
type box struct{ Width, Height, Left, Right, Top, Bottom int }

// Box returns the size of the chart.
func (c *chart) Box() box {
	return box{chartWidth, chartHeight, chartLeft, chartRight, chartTop, chartBottom}
}

// pixels returns a coordinate as text.
func pixels(v float64) string { return fmt.Sprintf("%.1f", v) }

// onAxis returns the place of v on an axis.
func onAxis(v, low, high, first, last float64) float64 {
	if high <= low { // there is a single value
		return (first + last) / 2
	}
	return first + (last-first)*(v-low)/(high-low)
}

// draw gives the values of all series their places. low and high are the ends of the logarithmic
// axis, and top is the end of the other one.
func (c *chart) draw(low, high, top float64, x, y []float64, labelX, labelY func(float64) string) {
	atX := func(v float64) string {
		return pixels(onAxis(math.Log(v), math.Log(low), math.Log(high), chartLeft, chartRight))
	}
	atY := func(v float64) string { return pixels(onAxis(v, 0, top, chartBottom, chartTop)) }
	for _, v := range x {
		c.X = append(c.X, gridLine{atX(v), labelX(v)})
	}
	for _, v := range y {
		c.Y = append(c.Y, gridLine{atY(v), labelY(v)})
	}
	for i, s := range c.Series {
		s.Class = fmt.Sprintf("s%d", i)
		var points []string
		for _, v := range s.values {
			d := dot{atX(v.x), atY(v.y), v.title}
			s.Dots = append(s.Dots, d)
			points = append(points, d.X+","+d.Y)
		}
		s.Points = strings.Join(points, " ")
	}
}

// steps returns round values from 0 to at least high.
func steps(high float64) []float64 {
	step := math.Pow10(int(math.Floor(math.Log10(high))))
	for _, factor := range []float64{0.2, 0.5, 1, 2} {
		if high/(step*factor) <= 5 {
			step *= factor
			break
		}
	}
	list := []float64{0}
	for list[len(list)-1] < high {
		list = append(list, step*float64(len(list)))
	}
	return list
}

// noValues says why a chart is empty.
func (r *benchReport) noValues() string {
	if r.VirtualTime {
		return sentence(strings.ToUpper(advice(hintNoTime)[:1]) + advice(hintNoTime)[1:])
	}
	return "Nothing was measured. See what is missing, and what was skipped."
}

// group is the rows of a chart.
type group struct {
	title string
	rows  []*benchRow
}

// groups returns the rows for which key returns a title, grouped by it, in order.
func (r *benchReport) groups(key func(*benchRow) string) []*group {
	var list []*group
	for _, row := range r.Measurements {
		title := key(row)
		if title == "" {
			continue
		}
		i := slices.IndexFunc(list, func(g *group) bool { return g.title == title })
		if i < 0 {
			i = len(list)
			list = append(list, &group{title: title})
		}
		list[i].rows = append(list[i].rows, row)
	}
	return list
}

// bandwidths returns a chart for each kind of memory of each device, and for each pair of devices.
func (r *benchReport) bandwidths() []*chart {
	var charts []*chart
	for _, g := range r.groups(func(m *benchRow) string {
		switch {
		case m.Kind != kindCopy:
			return ""
		case m.Peer != nil:
			return fmt.Sprintf("between the devices %d and %d", min(m.Device, *m.Peer), max(m.Device, *m.Peer))
		}
		return fmt.Sprintf("device %d, %s memory", m.Device, m.Memory)
	}) {
		c := &chart{ID: fmt.Sprintf("bandwidth-%d", len(charts)), Title: g.title, XLabel: "size of a copy",
			YLabel: "GB/s"}
		charts = append(charts, c)
		var sizes []float64
		top := 0.0
		for _, m := range g.rows {
			if m.BytesPerSecond == 0 {
				continue
			}
			v := point{x: float64(m.size()), y: m.BytesPerSecond / 1e9}
			v.title = fmt.Sprintf("%s: %s GB/s", size(m.size()), decimal(v.y, 3))
			s := c.series(m.direction())
			s.values = append(s.values, v)
			sizes, top = append(sizes, v.x), max(top, v.y)
		}
		if len(sizes) == 0 {
			c.Empty = r.noValues()
			continue
		}
		for _, s := range c.Series {
			slices.SortFunc(s.values, func(a, b point) int { return cmp.Compare(a.x, b.x) })
			best := slices.MaxFunc(s.values, func(a, b point) int { return cmp.Compare(a.y, b.y) })
			s.Note = "up to " + decimal(best.y, 3) + " GB/s"
		}
		low, high, y := slices.Min(sizes), slices.Max(sizes), steps(top)
		c.draw(low, high, y[len(y)-1], sizeMarks(low, high), y,
			func(v float64) string { return size(uint64(v)) }, func(v float64) string { return fmt.Sprint(v) })
	}
	return charts
}

// direction describes the direction of a copy.
func (r *benchRow) direction() string {
	switch {
	case r.Peer != nil && r.Direction == "both":
		return "both ways at once"
	case r.Peer != nil:
		return fmt.Sprintf("from %d to %d", r.Device, *r.Peer)
	case r.Direction == "h2d":
		return "host to device"
	case r.Direction == "d2h":
		return "device to host"
	}
	return "both ways at once"
}

// series returns the series with a name, which it adds if it is missing.
func (c *chart) series(name string) *curve {
	if i := slices.IndexFunc(c.Series, func(s *curve) bool { return s.Name == name }); i >= 0 {
		return c.Series[i]
	}
	c.Series = append(c.Series, &curve{Name: name})
	return c.Series[len(c.Series)-1]
}

// sizeMarks returns the sizes that the axis names: powers of 16, or else the smallest and the largest.
func sizeMarks(low, high float64) []float64 {
	var list []float64
	for v := 1.0; v <= high; v *= 16 {
		if v >= low {
			list = append(list, v)
		}
	}
	if len(list) < 2 {
		list = slices.Compact([]float64{low, high})
	}
	return list
}

// latencies returns two charts for each device: the times of calls, and the times until the host
// knows that something is done. They show which part of the samples took at most a time.
func (r *benchReport) latencies() []*chart {
	var charts []*chart
	for _, g := range r.groups(func(m *benchRow) string {
		switch {
		case m.Kind != kindCall:
			return ""
		case m.Batch > 1:
			return fmt.Sprintf("device %d, the host's time for a call", m.Device)
		}
		return fmt.Sprintf("device %d, until the host knows that it is done", m.Device)
	}) {
		c := &chart{ID: fmt.Sprintf("latency-%d", len(charts)), Title: g.title, XLabel: "time",
			YLabel: "% of the samples"}
		charts = append(charts, c)
		low, high := time.Duration(math.MaxInt64), time.Duration(0)
		for _, m := range g.rows {
			if m.Time.Min <= 0 { // a logarithmic axis has no 0
				continue
			}
			_, name, found := strings.Cut(m.Name, ": ") // without the device
			if !found {
				name = m.Name
			}
			s := c.series(name)
			s.Note = fmt.Sprintf("p50 %s, p95 %s, max %s", unitTime(m.Time.Median), unitTime(m.Time.P95),
				unitTime(m.Time.Max))
			for _, q := range m.Distribution {
				title := fmt.Sprintf("%d %%: %s", q.Percent, unitTime(q.Time))
				s.values = append(s.values, point{float64(q.Time), float64(q.Percent), title})
			}
			low, high = min(low, m.Time.Min), max(high, m.Time.Max)
		}
		if high == 0 {
			c.Empty = r.noValues()
			continue
		}
		marks := timeMarks(float64(low), float64(high))
		c.draw(marks[0], marks[len(marks)-1], 100, marks, []float64{0, 25, 50, 75, 95},
			func(v float64) string { return unitTime(time.Duration(v)) },
			func(v float64) string { return fmt.Sprint(v) })
	}
	return charts
}

// timeMarks returns round times around low and high.
func timeMarks(low, high float64) []float64 {
	factors := []float64{1, 2, 5, 10}
	if high/low > 100 {
		factors = []float64{1, 10}
	}
	var list []float64
	for e := math.Floor(math.Log10(low)); ; e++ {
		for _, f := range factors[:len(factors)-1] {
			v := math.Round(f * math.Pow(10, e))
			if len(list) > 0 && v <= low {
				list = list[:0] // the previous mark was too low
			}
			list = append(list, v)
			if v >= high && len(list) > 1 {
				return list
			}
		}
	}
}

// unitTime returns a time with up to three digits and a space before its unit.
func unitTime(d time.Duration) string {
	text := roundDuration(d, 3)
	i := strings.IndexFunc(text, func(r rune) bool { return r >= 'a' && r <= 'z' })
	number, unit := text[:i], text[i:]
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + "\u00a0" + strings.Replace(unit, "u", "µ", 1)
}
