package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/purecu/purecu/tools/internal/svg"
)

// colours are those of the libraries, which those who see colours differently
// can tell apart, too.
var colours = []string{"#6e7781", "#0072b2", "#d55e00", "#009e73"}

// The measures of the plot, in pixels.
const (
	plotWidth  = 880
	plotLeft   = 218 // where the bars begin
	plotRight  = 800 // where the axis ends; values may stand right of it
	plotTop    = 106
	barPitch   = 12
	barHeight  = 10
	groupSpace = 10
	lineHeight = 16
)

// svg returns the plot: the operations from top to bottom, with a bar for each
// library.
func (m *measurements) svg(c caption) []byte {
	p := plot{m: m}
	p.scale()
	bottom := plotTop
	for _, op := range m.operations {
		bottom += groupSpace + barPitch*len(m.have(op))
	}
	bottom += groupSpace
	height := bottom + 34 + lineHeight*len(c.lines())

	style := ""
	for i, colour := range colours {
		style += fmt.Sprintf(`.p%d{fill:%s}`, i, colour)
	}
	p.Begin(plotWidth, height, c.title, style)
	p.Text(20, 34, "t", c.title)
	p.Text(20, 54, "s", "Median time of a call, on a logarithmic scale: shorter is better. Whiskers: the 5th to the 95th percentile of the rounds.")
	p.legend(76)
	p.axis(bottom)
	y := plotTop
	for _, op := range m.operations {
		y += groupSpace
		p.group(y, op)
		y += barPitch * len(m.have(op))
	}
	for i, line := range c.lines() {
		p.Text(20, bottom+38+lineHeight*i, "s", line)
	}
	return p.End()
}

// have returns the libraries that have an operation, by their numbers.
func (m *measurements) have(op string) []int {
	var list []int
	for i, p := range peers {
		if len(m.rounds[cell{op, p}]) > 0 {
			list = append(list, i)
		}
	}
	return list
}

// plot is an SVG in the making.
type plot struct {
	svg.Image
	m           *measurements
	first, last int // powers of ten, in nanoseconds: the ends of the axis
}

// scale finds the powers of ten between which all bars and whiskers end. The
// shortest bar is to be seen.
func (p *plot) scale() {
	low, high := math.Inf(1), 0.0
	for c := range p.m.rounds {
		all := p.m.all(c)
		low, high = min(low, percentile(all, 5)), max(high, percentile(all, 95))
	}
	p.first = int(math.Floor(math.Log10(low / 1.2)))
	p.last = int(math.Ceil(math.Log10(high)))
}

// x returns where so many nanoseconds are.
func (p *plot) x(ns float64) float64 {
	return plotLeft + (plotRight-plotLeft)*(math.Log10(ns)-float64(p.first))/float64(p.last-p.first)
}

// legend names the colours.
func (p *plot) legend(y int) {
	x := plotLeft
	for i, name := range peers {
		if len(p.m.order[name]) == 0 {
			continue
		}
		p.Add(`<rect x="%d" y="%d" width="12" height="12" class="p%d"/>`, x, y-10, i)
		p.Text(x+17, y, "", name)
		x += 90
	}
}

// axis draws a line for each power of ten, which has its value above and below.
func (p *plot) axis(bottom int) {
	for e := p.first; e <= p.last; e++ {
		ns := math.Pow10(e)
		x := svg.Pixels(p.x(ns))
		p.Add(`<path d="M%s %dV%d" class="g"/>`, x, plotTop, bottom)
		for _, y := range []int{plotTop - 6, bottom + 15} {
			p.Add(`<text x="%s" y="%d" class="s m">%s</text>`, x, y, round(ns))
		}
		p.Add("\n")
	}
}

// group draws the bars of an operation.
func (p *plot) group(y int, op string) {
	list := p.m.have(op)
	p.Text(plotLeft-10, y+barPitch*len(list)/2+3, "e", op)
	for _, i := range list {
		c := cell{op, peers[i]}
		all := p.m.all(c)
		mid, low, high := median(all), percentile(all, 5), percentile(all, 95)
		end := p.x(mid)
		about := fmt.Sprintf("%s, %s: %s (%s to %s)", peers[i], op, duration(mid), duration(low), duration(high))
		if r, ok := p.m.ratioOf(c); ok {
			about += fmt.Sprintf(", %s × %s", digits(r.median), peers[0])
		}
		p.Add(`<rect x="%d" y="%d" width="%s" height="%d" class="p%d"><title>%s</title></rect>`,
			plotLeft, y, svg.Pixels(end-plotLeft), barHeight, i, svg.Escape(about))
		const cap = 3
		p.Add(`<path d="M%s %dv%dm0 -%dH%[5]sm0 -%[4]dv%[3]d" class="w"/>`, svg.Pixels(p.x(low)), y+barHeight/2-cap, 2*cap, cap, svg.Pixels(p.x(high)))
		p.Add(`<text x="%s" y="%d" class="v">%s</text>`+"\n", svg.Pixels(max(end, p.x(high))+5), y+barHeight-1, duration(mid))
		y += barPitch
	}
}

// duration returns a time with about three digits.
func duration(ns float64) string {
	unit := "ns"
	switch {
	case ns >= 999_500:
		ns, unit = ns/1e6, "ms"
	case ns >= 999.5:
		ns, unit = ns/1e3, "µs"
	}
	decimals := 0
	switch {
	case ns < 9.995:
		decimals = 2
	case ns < 99.95:
		decimals = 1
	}
	return strconv.FormatFloat(ns, 'f', decimals, 64) + " " + unit
}

// round returns a power of ten without the zeros that duration gives it.
func round(ns float64) string {
	number, unit, _ := strings.Cut(duration(ns), " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + " " + unit
}
