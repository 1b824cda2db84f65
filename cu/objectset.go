package cu

import (
	"maps"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// holder is an object that a graph can use, and keeps with a call in flight: memory, a module, a
// timeline, a semaphore of another API, a slot of an event, or a host function.
type holder interface {
	Retain()
	leave()
}

// comparableHolder is a type of holders.
type comparableHolder interface {
	comparable
	holder
}

// objectSet is the set of objects that a graph uses.
type objectSet struct {
	mu   lock.Mutex[lock.ObjectSet]
	held map[holder]int // how often each was added
	// nodes is what is known about nodes. The lock of the graph, or of the executable graph, guards it.
	nodes map[driver.GraphNode]*nodeUse
	// allocs has the memory that nodes allocate, and whether a node frees it. mu guards it.
	allocs map[*memCore]bool
	// unlaunched are recorded slots that represent earlier records until the first launch.
	unlaunched []*slot
}

// nodeUse is what is known about a node. Each graph and executable graph has its own. Its array of
// objects may be that of the same node of another one that was made from it.
type nodeUse struct {
	node driver.GraphNode
	typ  GraphNodeType
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
	attrs *LaunchAttributes
	// firstAttrs is first for attrs.
	firstAttrs *LaunchAttributes
	// objects are those that the node uses, one by one, each of which was added for the node. They are
	// not known for a captured node until its work is replaced: then they stay as long as the set.
	objects []holder
	// next is a node of the same set that came after this one in a kernelBatch, or nil.
	next *nodeUse
}

// know notes what is known about a node.
func (set *objectSet) know(n driver.GraphNode, u *nodeUse) {
	if set.nodes == nil {
		set.nodes = make(map[driver.GraphNode]*nodeUse)
	}
	u.node, set.nodes[n] = n, u
}

// replace replaces the objects of a node. dropped gets the objects, after those that it has, that
// nothing else in the graph uses: the caller must end the calls in flight on them.
func (set *objectSet) replace(u *nodeUse, objects, dropped []holder) []holder {
	if slices.Equal(u.objects, objects) {
		return dropped
	}
	for _, h := range objects {
		set.add(h)
	}
	for _, h := range u.objects {
		if set.drop(h) {
			dropped = append(dropped, h)
		}
	}
	if !u.own {
		u.objects, u.own = make([]holder, 0, len(objects)), true
	}
	u.objects = append(u.objects[:0], objects...)
	return dropped
}

// add adds an object. The caller has a call in flight on it, or another set holds it.
func (set *objectSet) add(h holder) {
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.held == nil {
		set.held = make(map[holder]int)
	}
	if set.held[h]++; set.held[h] == 1 {
		h.Retain() // also if it was closed meanwhile
	}
}

// drop undoes one add. If it reports true, it was the last, and the caller must end the call in
// flight on the object.
func (set *objectSet) drop(h holder) (last bool) {
	set.mu.Lock()
	defer set.mu.Unlock()
	n, ok := set.held[h]
	switch {
	case !ok: // release was called meanwhile
	case n == 1:
		delete(set.held, h)
		if sl, ok := h.(*slot); ok {
			set.unlaunched = slices.DeleteFunc(set.unlaunched, func(other *slot) bool { return other == sl })
		}
	default:
		set.held[h] = n - 1
	}
	return n == 1
}

func (set *objectSet) has(h holder) bool {
	set.mu.Lock()
	defer set.mu.Unlock()
	return set.held[h] != 0
}

// records notes that the graph records a slot.
func (set *objectSet) records(sl *slot) {
	if !sl.timed() {
		set.mu.Lock()
		set.unlaunched = append(set.unlaunched, sl)
		set.mu.Unlock()
	}
}

// recordsAll notes what another graph records.
func (set *objectSet) recordsAll(other *objectSet) {
	other.mu.Lock()
	list := slices.Clone(other.unlaunched)
	other.mu.Unlock()
	set.mu.Lock()
	defer set.mu.Unlock()
	set.unlaunched = append(set.unlaunched, list...)
}

// list returns the objects.
func (set *objectSet) list() []holder {
	set.mu.Lock()
	defer set.mu.Unlock()
	return slices.Collect(maps.Keys(set.held))
}

// launched notes that the graph was launched, so that its events are recorded.
func (set *objectSet) launched() {
	set.mu.Lock()
	defer set.mu.Unlock()
	for _, sl := range set.unlaunched {
		sl.SetBits(slotRecorded)
	}
	set.unlaunched = nil
}

// exposed notes that other code may launch the graph.
func (set *objectSet) exposed() {
	set.mu.Lock()
	defer set.mu.Unlock()
	for _, sl := range set.unlaunched {
		sl.SetBits(slotGraphExposed)
	}
}

// addAll adds the objects of another set.
func (set *objectSet) addAll(other *objectSet) {
	other.mu.Lock()
	defer other.mu.Unlock()
	for h := range other.held {
		set.add(h)
	}
	set.mu.Lock()
	set.unlaunched = append(set.unlaunched, other.unlaunched...)
	set.mu.Unlock()
}

// copyAll makes a new set equal to another one, for nodes of the same names. The caller holds the
// lock of the other set's graph.
func (set *objectSet) copyAll(other *objectSet) {
	other.mu.Lock()
	defer other.mu.Unlock()
	for h := range other.held {
		h.Retain() // the other set has a call in flight on it
	}
	set.held, set.unlaunched = maps.Clone(other.held), slices.Clone(other.unlaunched)
	uses := make([]nodeUse, 0, len(other.nodes))
	for n, u := range other.nodes {
		u.own = false
		uses = append(uses, *u)
		set.know(n, &uses[len(uses)-1])
	}
}

// release ends the use of all objects.
func (set *objectSet) release() {
	set.mu.Lock()
	held := set.held
	set.held, set.nodes, set.unlaunched = nil, nil, nil
	set.mu.Unlock()
	list := slices.Collect(maps.Keys(held))
	each(len(list), func(i int) { list[i].leave() })
}

// undo undoes an add after the driver has failed the call that would use the object.
func (set *objectSet) undo(h holder) {
	if set.drop(h) {
		h.leave()
	}
}
