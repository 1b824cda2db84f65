package dot

import "testing"

// TestPicture draws nodes in frames.
func TestPicture(t *testing.T) {
	p := New()
	p.Node("a", "first\n\"x\\y\"")
	p.Begin("b", "inside")
	p.Node("c", "ü")
	p.End()
	p.Edge("a", "c", "")
	p.Edge("a", "a", "again")
	p.End()
	want := `digraph {
	node [shape=box]
	a [label="first\n\"x\\y\""]
	subgraph cluster_b {
		label="inside"
		c [label="ü"]
	}
	a -> c
	a -> a [label="again"]
}
`
	if got := string(p.Bytes()); got != want {
		t.Errorf("the text is\n%s\nwant\n%s", got, want)
	}
}
