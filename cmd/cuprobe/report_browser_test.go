package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pictures is the folder that TestReportInBrowser writes pictures of pages to. docs/report.png is one
// of them.
var pictures = flag.String("report.pictures", "", "write pictures of the report to this folder")

//go:embed testdata/look.js
var lookJS string

// seen is what testdata/look.js returns.
type seen struct {
	Wide, Dim, Small, Cut              []string
	Texts                              int
	PageWidth, WindowWidth, PageHeight int
	Background, Lang, Host, Hacked     string
	Headers                            bool
	Scripts                            int
	Plots                              []seenPlot
}

// seenPlot is a plot with its size in pixels.
type seenPlot struct {
	Width, Height float64
	Lines, Labels int
	Named         bool
}

// The sizes of the browser's window.
const (
	wideWindow, narrowWindow = 1280, 360
	light, dark              = "rgb(255, 255, 255)", "rgb(13, 17, 23)"
)

// TestReportInBrowser opens reports in a browser, in light and dark mode and on a narrow screen.
func TestReportInBrowser(t *testing.T) {
	b := newBrowser(t)
	dir := t.TempDir()
	none := filepath.Join(dir, "none.html")
	r := probe{}.run("report", "-driver", filepath.Join(dir, "libcuda.so.1"), "-o", none)
	if r.status != exitNoDriver {
		t.Fatalf("exit status %d\n%s", r.status, r.stderr)
	}
	if *pictures != "" {
		path := filepath.Join(dir, "report.html")
		writePage(t, path, sampleReport(t, "", 1))
		b.media("", "light")
		b.pictureOf(path, "report", 900)
	}
	for _, tt := range []struct {
		name, path string
		report     *nodeReport
		plots      int
	}{
		{"sample", filepath.Join(dir, "sample.html"), sampleReport(t, "", 2), 5 + 4 + 1},
		{"hostile", filepath.Join(dir, "hostile.html"), sampleReport(t, hostile, 2), 5 + 4 + 1},
		{"none", none, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			if tt.report != nil {
				host = tt.report.Host
				writePage(t, tt.path, tt.report)
			}
			b.t = t
			for _, scheme := range []string{"light", "dark"} {
				for _, width := range []int{wideWindow, narrowWindow} {
					b.checkPage(tt.path, scheme, width, host, tt.plots)
					if *pictures != "" {
						b.pictureOf(tt.path, fmt.Sprintf("%s-%s-%d", tt.name, scheme, width), width)
					}
				}
			}
			b.media("print", "dark")
			var printed string
			b.eval("getComputedStyle(document.body).backgroundColor", &printed)
			if printed != light {
				t.Errorf("on paper the background is %s", printed)
			}
		})
	}
}

// writePage writes a report's page to a file.
func writePage(t *testing.T, path string, r *nodeReport) {
	t.Helper()
	var page bytes.Buffer
	if err := r.page(&page); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, page.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// checkPage opens a page, and checks what is there with all details open.
func (b *browser) checkPage(path, scheme string, width int, host string, plots int) {
	b.t.Helper()
	b.media("", scheme)
	b.size(width, 1000, width == narrowWindow)
	address := (&url.URL{Scheme: "file", Path: path}).String()
	b.open(address)
	b.eval("document.querySelectorAll('details').forEach((d) => d.open = true)", nil)
	var high int
	b.eval("document.documentElement.scrollHeight", &high)
	b.size(width, high, width == narrowWindow)
	var s seen
	b.eval(lookJS, &s)
	for what, list := range map[string][]string{
		"wider than the window": s.Wide, "with little contrast": s.Dim,
		"with small text": s.Small, "of plots cut or hidden": s.Cut,
	} {
		if len(list) > 0 {
			b.t.Errorf("%s, %d pixels: elements %s:\n\t%s", scheme, width, what, strings.Join(list, "\n\t"))
		}
	}
	if s.WindowWidth != width || s.PageWidth > width || s.PageHeight > high || s.Texts < 20 {
		b.t.Errorf("%s, %d pixels: the window is %d wide, the page %d wide and %d high, with %d texts",
			scheme, width, s.WindowWidth, s.PageWidth, s.PageHeight, s.Texts)
	}
	if want := map[string]string{"light": light, "dark": dark}[scheme]; s.Background != want {
		b.t.Errorf("%s: the background is %s", scheme, s.Background)
	}
	for _, p := range s.Plots {
		if p.Width < 250 || p.Height < 100 || p.Lines < 2 || p.Labels < 8 || !p.Named {
			b.t.Errorf("%s, %d pixels: %+v", scheme, width, p)
		}
	}
	if len(s.Plots) != plots || s.Lang != "en" || !s.Headers || s.Hacked != "undefined" || s.Scripts != 1 ||
		s.Host != host {
		b.t.Errorf("%s, %d pixels: %d plots, %+v", scheme, width, len(s.Plots), s)
	}
	b.checkEvents(address)
}

// checkEvents checks that the page has asked for nothing but itself, and that the browser has no
// complaint about it.
func (b *browser) checkEvents(address string) {
	b.t.Helper()
	requests := 0
	for _, e := range b.events {
		switch e.Method {
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening":
			b.t.Errorf("%s: %s", e.Method, e.Params)
		case "Network.requestWillBeSent":
			var sent struct{ Request struct{ URL string } }
			if err := json.Unmarshal(e.Params, &sent); err != nil {
				b.t.Error(err)
			}
			requests++
			if sent.Request.URL != address {
				b.t.Errorf("it asks for %s", sent.Request.URL)
			}
		}
	}
	if requests == 0 {
		b.t.Error("the browser reports no requests, not even that for the page")
	}
}

// pictureOf writes a picture of the page as users see it first.
func (b *browser) pictureOf(path, name string, width int) {
	b.t.Helper()
	b.size(width, 1000, width == narrowWindow)
	b.open((&url.URL{Scheme: "file", Path: path}).String())
	var high int
	b.eval("document.documentElement.scrollHeight", &high)
	text := b.picture(width, high)
	m, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		b.t.Fatal(err)
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, fewColours(m)); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), small.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// fewColours returns a picture with its 256 most frequent colours, which makes the file small.
func fewColours(m image.Image) image.Image {
	often := make(map[color.Color]int)
	for y := range m.Bounds().Dy() {
		for x := range m.Bounds().Dx() {
			often[m.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(often),
		func(a, b color.Color) int { return cmp.Compare(often[b], often[a]) })
	p := image.NewPaletted(m.Bounds(), colours[:min(len(colours), 256)])
	draw.Draw(p, p.Bounds(), m, image.Point{}, draw.Src)
	return p
}
