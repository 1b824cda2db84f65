// Package plottest is the common part of the tests of tools that plot.
package plottest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Golden compares an output with a golden file.
func Golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(want, got) {
		return
	}
	w, g := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			t.Fatalf("%s:%d: got\n\t%s\nwant\n\t%s\n(go test -update rewrites the golden files)", name, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s: got %d lines, want %d", name, len(g), len(w))
}

// Element is an element of a plot.
type Element struct {
	Name  string
	Attrs map[string]string
	Text  string
}

// Number returns an attribute that is a number.
func (e Element) Number(t *testing.T, name string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(e.Attrs[name], 64)
	if err != nil {
		t.Fatalf("%+v: %s: %v", e, name, err)
	}
	return x
}

// Elements parses an SVG, which must be well-formed XML.
func Elements(t *testing.T, svg []byte) []Element {
	t.Helper()
	var list []Element
	var open []int
	for dec := xml.NewDecoder(bytes.NewReader(svg)); ; {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			e := Element{Name: tok.Name.Local, Attrs: map[string]string{}}
			for _, a := range tok.Attr {
				e.Attrs[a.Name.Local] = a.Value
			}
			open = append(open, len(list))
			list = append(list, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				list[open[len(open)-1]].Text += string(tok)
			}
		}
	}
}
