package main

import (
	"image/color"
	"math"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// row is a time in nanoseconds, with the ends of its interval.
type row struct {
	group, series  string
	mid, low, high float64
}

// colours are the colours of the series, in turn. Colour-blind readers can distinguish them, too.
var colours = []color.Color{
	color.RGBA{0x6e, 0x77, 0x81, 0xff}, color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	color.RGBA{0x00, 0x9e, 0x73, 0xff}, color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0x1f, 0x23, 0x28, 0xff},
}

// drawRows draws rows from top to bottom on a logarithmic scale: a dot for each time, and a line for its interval.
func drawRows(file, title, caption string, rows []row) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title, caption
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	var series []string
	var groups plot.ConstantTicks
	y, from := 0.0, 0.0
	for i, r := range rows {
		if i > 0 && r.group != rows[i-1].group {
			y--
			from = y
		}
		if i+1 == len(rows) || rows[i+1].group != r.group {
			groups = append(groups, plot.Tick{Value: (from + y) / 2, Label: r.group})
		}
		n := slices.Index(series, r.series)
		if n < 0 {
			n, series = len(series), append(series, r.series)
		}
		colour := colours[n%len(colours)]
		dot, err := plotter.NewScatter(plotter.XYs{{X: r.mid, Y: y}})
		if err != nil {
			return err
		}
		dot.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
		line, err := plotter.NewLine(plotter.XYs{{X: r.low, Y: y}, {X: r.high, Y: y}})
		if err != nil {
			return err
		}
		line.Color = colour
		p.Add(line, dot)
		if n == len(series)-1 && slices.IndexFunc(rows, func(o row) bool { return o.series == r.series }) == i {
			p.Legend.Add(r.series, dot)
		}
		y--
	}
	p.Y.Tick.Marker, p.Y.Min, p.Y.Max = groups, y, 1
	p.X.Min, p.X.Max = math.Pow10(int(math.Floor(math.Log10(p.X.Min)))), math.Pow10(int(math.Ceil(math.Log10(p.X.Max))))
	p.Add(plotter.NewGrid())
	p.Legend.Top = true
	c := vgsvg.New(9*vg.Inch, vg.Points(120-10*y))
	const margin = 8
	p.Draw(draw.Crop(draw.New(c), margin, -margin, margin, -margin))
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := c.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// decades has a mark for each power of ten nanoseconds.
type decades struct{}

func (decades) Ticks(low, high float64) (list []plot.Tick) {
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		ns := math.Pow10(int(e))
		list = append(list, plot.Tick{Value: ns, Label: duration(ns)})
	}
	return list
}
