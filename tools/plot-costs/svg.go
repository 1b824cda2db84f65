package main

import (
	"fmt"
	"math"

	"github.com/purecu/purecu/tools/internal/plot"
	"github.com/purecu/purecu/tools/internal/svg"
)

// colours are the colours of the libraries. Colour-blind readers can distinguish them, too.
var colours = []string{"#6e7781", "#0072b2", "#d55e00", "#009e73"}

// These are the measures of the plot, in pixels.
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

// SVG returns the plot: the operations from top to bottom, with a bar for each library.
func (m *measurements) SVG(c plot.Caption) []byte {
	p := costs{m: m}
	p.scale()
	bottom := plotTop
	for _, op := range m.operations {
		bottom += groupSpace + barPitch*len(m.have(op))
	}
	bottom += groupSpace
	height := bottom + 34 + lineHeight*len(c.Lines())

	style := ""
	for i, colour := range colours {
		style += fmt.Sprintf(`.p%d{fill:%s}`, i, colour)
	}
	p.Begin(plotWidth, height, c.Title, style)
	p.Text(20, 34, "t", c.Title)
	p.Text(20, 54, "s", "Median time of a call, on a logarithmic scale: shorter is better. Whiskers: the 5th to the 95th percentile of the rounds.")
	p.legend(76)
	p.Draw(&p.Image, plotTop, bottom)
	y := plotTop
	for _, op := range m.operations {
		y += groupSpace
		p.group(y, op)
		y += barPitch * len(m.have(op))
	}
	for i, line := range c.Lines() {
		p.Text(20, bottom+38+lineHeight*i, "s", line)
	}
	return p.End()
}

// have returns the numbers of the libraries that have an operation.
func (m *measurements) have(op string) []int {
	var list []int
	for i, p := range peers {
		if len(m.rounds[cell{op, p}]) > 0 {
			list = append(list, i)
		}
	}
	return list
}

// costs is a plot that is being drawn.
type costs struct {
	svg.Image
	plot.Axis
	m *measurements
}

// scale finds the powers of ten around all bars and whiskers. The shortest bar must be visible.
func (p *costs) scale() {
	low, high := math.Inf(1), 0.0
	for c := range p.m.rounds {
		all := p.m.all(c)
		low, high = min(low, plot.Percentile(all, 5)), max(high, plot.Percentile(all, 95))
	}
	p.Axis = plot.NewAxis(plotLeft, plotRight, low, high)
}

// legend draws the name of each colour.
func (p *costs) legend(y int) {
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

// group draws the bars of an operation.
func (p *costs) group(y int, op string) {
	list := p.m.have(op)
	p.Text(plotLeft-10, y+barPitch*len(list)/2+3, "e", op)
	for _, i := range list {
		c := cell{op, peers[i]}
		all := p.m.all(c)
		mid, low, high := plot.Median(all), plot.Percentile(all, 5), plot.Percentile(all, 95)
		end := p.X(mid)
		about := fmt.Sprintf("%s, %s: %s (%s to %s)", peers[i], op, plot.Duration(mid), plot.Duration(low), plot.Duration(high))
		if r, ok := p.m.ratioOf(c); ok {
			about += fmt.Sprintf(", %s × %s", plot.Digits(r.median), peers[0])
		}
		p.Add(`<rect x="%d" y="%d" width="%s" height="%d" class="p%d"><title>%s</title></rect>`,
			plotLeft, y, svg.Pixels(end-plotLeft), barHeight, i, svg.Escape(about))
		const cap = 3
		p.Add(`<path d="M%s %dv%dm0 -%dH%[5]sm0 -%[4]dv%[3]d" class="w"/>`, svg.Pixels(p.X(low)), y+barHeight/2-cap, 2*cap, cap, svg.Pixels(p.X(high)))
		p.Add(`<text x="%s" y="%d" class="v">%s</text>`+"\n", svg.Pixels(max(end, p.X(high))+5), y+barHeight-1, plot.Duration(mid))
		y += barPitch
	}
}
