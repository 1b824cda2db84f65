// Package dot writes directed graphs in the language of Graphviz.
package dot

import (
	"bytes"
	"fmt"
	"strings"
)

// Picture is a text that describes a graph. Names of nodes are made of letters, digits and underscores.
type Picture struct {
	b     bytes.Buffer
	depth int // of the clusters that have begun
}

// New returns a picture without nodes. Nodes are boxes.
func New() *Picture {
	p := &Picture{}
	p.line("digraph {")
	p.depth++
	p.line("node [shape=box]")
	return p
}

// line writes a line.
func (p *Picture) line(format string, args ...any) {
	p.b.WriteString(strings.Repeat("\t", p.depth))
	fmt.Fprintf(&p.b, format+"\n", args...)
}

// Node adds a node.
func (p *Picture) Node(name, label string) { p.line("%s [label=%s]", name, quoted(label)) }

// Edge adds an edge. A label of "" is left out.
func (p *Picture) Edge(from, to, label string) {
	if label != "" {
		label = " [label=" + quoted(label) + "]"
	}
	p.line("%s -> %s%s", from, to, label)
}

// Begin begins a frame around the nodes that are added until End.
func (p *Picture) Begin(name, label string) {
	p.line("subgraph cluster_%s {", name)
	p.depth++
	p.line("label=%s", quoted(label))
}

// End ends what Begin has begun last, or the picture.
func (p *Picture) End() {
	p.depth--
	p.line("}")
}

// Bytes returns the text. The picture has to be at its end.
func (p *Picture) Bytes() []byte { return p.b.Bytes() }

// quoted returns a text in quotes. Graphviz knows \n in them.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
