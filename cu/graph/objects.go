package graph

import (
	"maps"
	"slices"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// nodeUse is what is known about a node. Each graph and executable graph has its own. Its array of
// objects may be that of the same node of another one that was made from it.
type nodeUse struct {
	node driver.GraphNode
	typ  NodeType
	// cooperative says that the node launches its kernel cooperatively, and attrs are the attributes
	// that this package has set.
	cooperative bool
	// first is cooperative as it was before the first change. Executable graphs that know nothing
	// about the node were made before that.
	first bool
	// own says that no other nodeUse has the array of objects.
	own bool
	// place is the node's place in the last kernelBatch that it was added to.
	place uint8
	attrs *cu.LaunchAttributes
	// firstAttrs is first for attrs.
	firstAttrs *cu.LaunchAttributes
	// objects are those that the node uses, one by one, each of which was added for the node. They are
	// not known for a captured node until its work is replaced: then they stay as long as the set.
	objects []core.Holder
	// next is a node of the same set that came after this one in a kernelBatch, or nil.
	next *nodeUse
}

// graphObjects is the set of objects that a graph or an executable graph uses, and by which of its nodes.
type graphObjects struct {
	core.ObjectSet
	// nodes is what is known about nodes. The lock of the graph, or of the executable graph, guards it.
	nodes map[driver.GraphNode]*nodeUse
}

// know notes what is known about a node.
func (set *graphObjects) know(n driver.GraphNode, u *nodeUse) {
	if set.nodes == nil {
		set.nodes = make(map[driver.GraphNode]*nodeUse)
	}
	u.node, set.nodes[n] = n, u
}

// replace replaces the objects of a node. dropped gets the objects, after those that it has, that
// nothing else in the graph uses: the caller must end the calls in flight on them.
func (set *graphObjects) replace(u *nodeUse, objects, dropped []core.Holder) []core.Holder {
	if slices.Equal(u.objects, objects) {
		return dropped
	}
	for _, h := range objects {
		set.Add(h)
	}
	for _, h := range u.objects {
		if set.Drop(h) {
			dropped = append(dropped, h)
		}
	}
	if !u.own {
		u.objects, u.own = make([]core.Holder, 0, len(objects)), true
	}
	u.objects = append(u.objects[:0], objects...)
	return dropped
}

// copyAll makes a new set equal to another one, for nodes of the same names. The caller holds the
// lock of the other set's graph.
func (set *graphObjects) copyAll(other *graphObjects) {
	other.Mu.Lock()
	defer other.Mu.Unlock()
	for h := range other.Held {
		h.Retain() // the other set has a call in flight on it
	}
	set.Held, set.Unlaunched = maps.Clone(other.Held), slices.Clone(other.Unlaunched)
	uses := make([]nodeUse, 0, len(other.nodes))
	for n, u := range other.nodes {
		u.own = false
		uses = append(uses, *u)
		set.know(n, &uses[len(uses)-1])
	}
}

// release ends the use of all objects.
func (set *graphObjects) release() {
	set.nodes = nil
	set.ObjectSet.Release()
}
