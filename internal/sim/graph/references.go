package graph

import (
	"maps"

	"github.com/purecu/purecu/driver"
)

// UserObject is a CUuserObject.
type UserObject struct {
	Handle  driver.UserObject
	Destroy driver.Callback
	Own     uint64 // references of the program
	All     uint64 // those of graphs and executable graphs included
}

// References are numbers of references to user objects.
type References map[*UserObject]uint64

// Add adds other references.
func (r *References) Add(other References) {
	if *r == nil && len(other) > 0 {
		*r = make(References)
	}
	for o, n := range other {
		(*r)[o] += n
	}
}

// Retained returns a copy of the references, which count from now on.
func (r References) Retained() References {
	for o, n := range r {
		o.All += n
	}
	return maps.Clone(r)
}

// addOf adds the references of the work of nodes.
func (r *References) addOf(nodes []*Node) {
	for _, n := range nodes {
		r.Add(n.Work.References())
	}
}
