package tests

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// A group is a part of package cu that shall become a package of its own.
type group struct {
	name  string
	uses  []string // the groups that its files may use
	files string   // patterns of path.Match
}

// groups are the parts of package cu, in the order of their use. A file that is in no list belongs to the heart.
var groups = []group{
	{"heart", nil, ""},
	{"graph", []string{"heart"}, "capture.go graph*.go"},
}

// TestLayers checks what the groups of package cu use of each other: whoever changes the heart reads it
// and the core only.
func TestLayers(t *testing.T) {
	p := loadSource(t, "cu")
	of := map[string]group{}
	for _, g := range groups {
		for _, pattern := range strings.Fields(g.files) {
			before := len(of)
			for name := range p.files {
				if ok, _ := path.Match(pattern, name); ok {
					of[name] = g
				}
			}
			if len(of) == before {
				t.Errorf("there is no cu/%s: remove it from groups", pattern)
			}
		}
	}
	groupOf := func(file string) group {
		g, ok := of[file]
		if ok {
			return g
		}
		return groups[0]
	}
	wrong := map[string]bool{}
	for name := range p.files {
		for o := range p.usedIn(name) {
			to := p.fileOf(o.Pos())
			if a, b := groupOf(name), groupOf(to); p.files[to] != nil && a.name != b.name && !slices.Contains(a.uses, b.name) {
				wrong[a.name+" "+name+" uses "+o.Name()+" of "+b.name+" "+to] = true
			}
		}
	}
	for _, use := range slices.Sorted(maps.Keys(wrong)) {
		t.Errorf("%s: move one of the two, or let the core call it by an interface", use)
	}
}
