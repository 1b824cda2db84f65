// Package svg is the common part of the tools that draw.
package svg

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// Image is an SVG that is being drawn. It has a background, because some pages are dark, and it
// uses no external fonts or scripts.
type Image struct{ b strings.Builder }

// Begin begins an image of a size in pixels, with a title and with style rules in addition to those
// of all images.
func (i *Image) Begin(width, height int, title, style string) {
	i.Add(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %[2]d" role="img">`, width, height, width)
	i.Add(`<title>%s</title>`, Escape(title))
	i.Add(`<style>text{font:12px system-ui,sans-serif;fill:#1f2328}.t{font-size:18px;font-weight:600}.s{fill:#59636e}.v{font-size:10px}` +
		`.e{text-anchor:end}.m{text-anchor:middle}.g{stroke:#d1d9e0}.w{stroke:#1f2328;fill:none}`)
	i.Add("%s</style>\n", style)
	i.Add(`<rect width="%d" height="%d" rx="6" fill="#ffffff"/>`+"\n", width, height)
}

// Add adds markup.
func (i *Image) Add(format string, args ...any) { fmt.Fprintf(&i.b, format, args...) }

// Text adds a text that begins at x, unless its class aligns it differently.
func (i *Image) Text(x, y int, class, s string) {
	i.Add(`<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, Escape(s))
}

// End ends the image, and returns it.
func (i *Image) End() []byte {
	i.Add("</svg>\n")
	return []byte(i.b.String())
}

// Escape returns a text as markup.
func Escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return b.String()
}

// Pixels formats a coordinate.
func Pixels(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
