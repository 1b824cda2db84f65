package plot

import (
	"math"

	"github.com/purecu/purecu/tools/internal/svg"
)

// Axis is a logarithmic axis of times, from left to right.
type Axis struct {
	left, right float64
	first, last int // powers of ten, in nanoseconds
}

// NewAxis returns an axis between two x coordinates in pixels. Its first and last values are the
// powers of ten around the times low and high. A time at the very beginning of the axis would not
// be visible, so low is not there.
func NewAxis(left, right int, low, high float64) Axis {
	return Axis{float64(left), float64(right), int(math.Floor(math.Log10(low / 1.2))), int(math.Ceil(math.Log10(high)))}
}

// X returns the x coordinate of a time in nanoseconds.
func (a Axis) X(ns float64) float64 {
	return a.left + (a.right-a.left)*(math.Log10(ns)-float64(a.first))/float64(a.last-a.first)
}

// Draw draws a line for each power of ten, with its value above and below.
func (a Axis) Draw(i *svg.Image, top, bottom int) {
	for e := a.first; e <= a.last; e++ {
		ns := math.Pow10(e)
		x := svg.Pixels(a.X(ns))
		i.Add(`<path d="M%s %dV%d" class="g"/>`, x, top, bottom)
		for _, y := range []int{top - 6, bottom + 15} {
			i.Add(`<text x="%s" y="%d" class="s m">%s</text>`, x, y, Round(ns))
		}
		i.Add("\n")
	}
}
