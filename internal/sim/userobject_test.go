package sim

import (
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/graph"
)

const noDestructorSync = driver.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC

// userObjects counts the calls of the functions of user objects.
type userObjects struct {
	*lab
	gone chan int
}

func newUserObjects(t *testing.T) *userObjects {
	return &userObjects{newLab(t), make(chan int, 100)}
}

// object creates a user object with a number, and references of the program.
func (r *userObjects) object(number int, count uint32) driver.UserObject {
	r.t.Helper()
	o, res := r.UserObjectCreate(r.th, driver.Callback{Go: func() { r.gone <- number }}, count, noDestructorSync)
	r.must(res)
	return o
}

// exists checks that no object is gone.
func (r *userObjects) exists(when string) {
	r.t.Helper()
	r.mu.Lock()
	n := r.objects.count(userObjectKind)
	r.mu.Unlock()
	if n == 0 {
		r.t.Errorf("%s: the object is gone", when)
	}
	select {
	case number := <-r.gone:
		r.t.Errorf("%s: the function of object %d is called", when, number)
	default:
	}
}

// ends waits until the function of an object was called.
func (r *userObjects) ends(when string, number int) {
	r.t.Helper()
	select {
	case n := <-r.gone:
		if n != number {
			r.t.Errorf("%s: the function of object %d is called, not of %d", when, n, number)
		}
	case <-time.After(time.Minute):
		r.t.Fatalf("%s: no function is called", when)
	}
}

func (r *userObjects) graph() driver.Graph {
	r.t.Helper()
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	return g
}

// with returns a graph with a node, and a reference to a new object that it has alone.
func (r *userObjects) with(number int) (driver.Graph, driver.UserObject) {
	r.t.Helper()
	g, o := r.graph(), r.object(number, 1)
	_, res := r.GraphAddEmptyNode(r.th, g, nil)
	r.must(res)
	r.must(r.GraphRetainUserObject(r.th, g, o, 1, driver.CU_GRAPH_USER_OBJECT_MOVE))
	return g, o
}

// TestUserObject retains and releases references of the program.
func TestUserObject(t *testing.T) {
	r := newUserObjects(t)
	o := r.object(1, 2)
	r.must(r.UserObjectRetain(r.th, o, 3))
	r.must(r.UserObjectRelease(r.th, o, 4))
	r.exists("one reference is left")
	r.must(r.UserObjectRelease(r.th, o, 1))
	r.ends("after the last reference", 1)
	r.want("a retain afterwards", invalidValue, r.UserObjectRetain(r.th, o, 1))
	if n := r.takeMisuses(); n != 1 {
		t.Errorf("%d misuses", n)
	}
}

// TestUserObjectResults makes calls that are refused.
func TestUserObjectResults(t *testing.T) {
	r := newUserObjects(t)
	f := driver.Callback{Go: func() { t.Error("the function of an object that was refused is called") }}
	create := func(f driver.Callback, count, flags uint32) driver.Result {
		_, res := r.UserObjectCreate(r.th, f, count, flags)
		return res
	}
	r.want("no function", invalidValue, create(driver.Callback{}, 1, noDestructorSync))
	r.want("a function in C", notSupported, create(driver.Callback{Addr: 8}, 1, noDestructorSync))
	r.want("no references", invalidValue, create(f, 0, noDestructorSync))
	r.want("no flags", invalidValue, create(f, 1, 0))
	r.want("other flags", invalidValue, create(f, 1, 3))
	g, o := r.graph(), r.object(1, 1)
	for what, got := range map[string]driver.Result{
		"retain nothing":             r.UserObjectRetain(r.th, 0, 1),
		"retain no reference":        r.UserObjectRetain(r.th, o, 0),
		"retain too many":            r.UserObjectRetain(r.th, o, 1<<31),
		"release nothing":            r.UserObjectRelease(r.th, 0, 1),
		"release no reference":       r.UserObjectRelease(r.th, o, 0),
		"a graph of no graph":        r.GraphRetainUserObject(r.th, 0, o, 1, 0),
		"a graph of no object":       r.GraphRetainUserObject(r.th, g, 0, 1, 0),
		"a graph of no reference":    r.GraphRetainUserObject(r.th, g, o, 0, 0),
		"other flags for a graph":    r.GraphRetainUserObject(r.th, g, o, 1, 2),
		"a graph that releases zero": r.GraphReleaseUserObject(r.th, g, o, 0),
		"no graph releases":          r.GraphReleaseUserObject(r.th, 0, o, 1),
		"a graph releases no object": r.GraphReleaseUserObject(r.th, g, 0, 1),
	} {
		r.want(what, invalidValue, got)
	}
	r.want("release more than there are", invalidValue, r.UserObjectRelease(r.th, o, 2))
	r.want("move more than there are", invalidValue, r.GraphRetainUserObject(r.th, g, o, 2, 1))
	if n := r.takeMisuses(); n != 2 {
		t.Errorf("%d misuses, not 2", n)
	}
	r.must(r.GraphRetainUserObject(r.th, g, o, 2, 0))
	r.must(r.UserObjectRelease(r.th, o, 1))
	r.want("release what the graph has", invalidValue, r.UserObjectRelease(r.th, o, 1))
	r.takeMisuses()
	r.must(r.GraphReleaseUserObject(r.th, g, o, 1))
	r.exists("the graph has one")
	r.must(r.GraphReleaseUserObject(r.th, g, o, 1))
	r.ends("the graph has none", 1)
	r.must(r.GraphDestroy(r.th, g))
}

// TestUserObjectReleasesTooMany releases more references than a graph has, which an H200 accepts.
func TestUserObjectReleasesTooMany(t *testing.T) {
	r := newUserObjects(t)
	o := r.object(1, 1<<31)
	r.must(r.UserObjectRelease(r.th, o, 1<<31-1))
	g, other := r.graph(), r.graph()
	misuses := func(want int) {
		t.Helper()
		if n := r.takeMisuses(); n != want {
			t.Errorf("%d misuses, not %d", n, want)
		}
	}
	r.must(r.GraphReleaseUserObject(r.th, g, o, 1))
	misuses(1)
	r.exists("the program has one")
	r.must(r.GraphRetainUserObject(r.th, g, o, 2, 0))
	r.must(r.GraphRetainUserObject(r.th, other, o, 1, 0))
	r.must(r.GraphReleaseUserObject(r.th, g, o, 5))
	misuses(1)
	r.exists("the other graph has one")
	r.want("release what the program had", invalidValue, r.UserObjectRelease(r.th, o, 1))
	misuses(1)
	r.must(r.GraphDestroy(r.th, g))
	r.must(r.GraphDestroy(r.th, other))
	r.ends("at the end", 1)
}

// TestUserObjectOfGraphs has the copies of a graph that have its references.
func TestUserObjectOfGraphs(t *testing.T) {
	r := newUserObjects(t)
	g, _ := r.with(1)
	clone, res := r.GraphClone(r.th, g)
	r.must(res)
	parent := r.graph()
	child, res := r.GraphAddChildGraphNode(r.th, parent, nil, clone)
	r.must(res)
	x := r.instance(g, 0)
	r.must(r.GraphDestroy(r.th, g))
	r.exists("the clone has one")
	r.must(r.GraphDestroy(r.th, clone))
	r.must(r.GraphExecDestroy(r.th, x))
	r.exists("the node has one")
	_, res = r.GraphChildGraphNodeGetGraph(r.th, child)
	r.must(res)
	parents, res := r.GraphClone(r.th, parent)
	r.must(res)
	x = r.instance(parent, 0)
	r.must(r.GraphDestroyNode(r.th, child))
	r.exists("the clone of the parent has one")
	r.must(r.GraphDestroy(r.th, parents))
	r.exists("the executable graph of the parent has one")
	r.must(r.GraphExecDestroy(r.th, x))
	r.ends("at the end", 1)
	r.must(r.GraphDestroy(r.th, parent))
}

// TestUserObjectOfChildren changes child graphs, and with them the references.
func TestUserObjectOfChildren(t *testing.T) {
	r := newUserObjects(t)
	one, _ := r.with(1)
	two, _ := r.with(2)
	parent, outer := r.graph(), r.graph()
	n, res := r.GraphAddChildGraphNode(r.th, parent, nil, one)
	r.must(res)
	r.must(r.GraphDestroy(r.th, one))
	_, res = r.GraphAddChildGraphNode(r.th, outer, nil, parent)
	r.must(res)
	x := r.instance(outer, 0)
	p := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_GRAPH}
	p.Graph().Graph = two
	r.must(r.GraphNodeSetParams(r.th, n, p))
	r.must(r.GraphDestroy(r.th, two))
	r.must(r.GraphDestroy(r.th, outer))
	r.exists("the executable graph has one, and the node the other")
	r.must(r.GraphExecDestroy(r.th, x))
	r.ends("without the executable graph", 1)

	three, o := r.with(3)
	child, res := r.GraphChildGraphNodeGetGraph(r.th, n)
	r.must(res)
	r.must(r.GraphRetainUserObject(r.th, child, o, 1, 0))
	r.must(r.GraphDestroy(r.th, three))
	x = r.instance(parent, 0)
	r.must(r.GraphReleaseUserObject(r.th, child, o, 1))
	r.must(r.GraphDestroyNode(r.th, n))
	r.exists("the executable graph has two")
	four, _ := r.with(4)
	n, res = r.GraphAddChildGraphNode(r.th, parent, nil, four)
	r.must(res)
	r.must(r.GraphDestroy(r.th, four))
	_, res = r.GraphExecUpdateV2(r.th, x, r.graphOf(n))
	r.must(res)
	got := map[int]bool{<-r.gone: true, <-r.gone: true}
	if !got[2] || !got[3] {
		t.Errorf("the update has ended %v", got)
	}
	r.must(r.GraphDestroy(r.th, parent))
	r.exists("the executable graph has the references of the update")
	r.must(r.GraphExecDestroy(r.th, x))
	r.ends("at the end", 4)
}

// graphOf returns the graph of a node.
func (r *lab) graphOf(n driver.GraphNode) driver.Graph {
	object, _ := r.objects.find(uintptr(n))
	return object.(*graph.Node).Graph.Handle
}

// TestUserObjectOfExec replaces the child graph of a node of an executable graph.
func TestUserObjectOfExec(t *testing.T) {
	r := newUserObjects(t)
	one, _ := r.with(1)
	two, _ := r.with(2)
	parent := r.graph()
	n, res := r.GraphAddChildGraphNode(r.th, parent, nil, one)
	r.must(res)
	x := r.instance(parent, 0)
	r.must(r.GraphDestroy(r.th, one))
	r.must(r.GraphExecChildGraphNodeSetParams(r.th, x, n, two))
	r.must(r.GraphDestroy(r.th, two))
	r.exists("the node has one, and the executable graph the other")
	r.must(r.GraphDestroy(r.th, parent))
	r.ends("without the graph", 1)
	r.exists("the executable graph has one")
	r.must(r.GraphExecDestroy(r.th, x))
	r.ends("at the end", 2)
}

// TestUserObjectOfBodies has references of bodies of conditional nodes.
func TestUserObjectOfBodies(t *testing.T) {
	r := newConditions(t)
	u := &userObjects{r.lab, make(chan int, 100)}
	o := u.object(1, 1)
	body := r.mustAdd(r.g, r.handle(1, 1), driver.CU_GRAPH_COND_TYPE_IF, 1)[0]
	r.must(r.GraphRetainUserObject(r.th, body, o, 1, driver.CU_GRAPH_USER_OBJECT_MOVE))
	child, _ := u.with(2)
	_, res := r.GraphAddChildGraphNode(r.th, body, nil, child)
	r.must(res)
	r.must(r.GraphDestroy(r.th, child))
	x := r.exec()
	other := u.object(3, 1)
	r.must(r.GraphReleaseUserObject(r.th, body, o, 1))
	r.must(r.GraphRetainUserObject(r.th, body, other, 1, driver.CU_GRAPH_USER_OBJECT_MOVE))
	u.exists("the executable graph has the reference that the body had")
	_, res = r.GraphExecUpdateV2(r.th, x, r.g)
	r.must(res)
	u.ends("after the update", 1)
	r.must(r.GraphDestroy(r.th, r.g))
	r.g = 0
	u.exists("the executable graph has the others")
	r.must(r.GraphExecDestroy(r.th, x))
	r.execs = nil
	got := map[int]bool{<-u.gone: true, <-u.gone: true}
	if !got[2] || !got[3] {
		t.Errorf("at the end: %v", got)
	}
}

// TestUserObjectDuringLaunch destroys and updates executable graphs during a launch, which keeps the references.
func TestUserObjectDuringLaunch(t *testing.T) {
	for _, how := range []string{"destroy", "update", "sticky error"} {
		t.Run(how, func(t *testing.T) {
			r := newUserObjects(t)
			s := r.newStream()
			g, _ := r.with(1)
			x := r.instance(g, 0)
			r.Hold(uintptr(s))
			r.must(r.GraphLaunch(r.th, x, s))
			r.must(r.GraphDestroy(r.th, g))
			if how == "update" {
				other, _ := r.with(2)
				_, res := r.GraphExecUpdateV2(r.th, x, other)
				r.must(res)
				r.must(r.GraphDestroy(r.th, other))
			} else {
				r.must(r.GraphExecDestroy(r.th, x))
			}
			r.exists("during the launch")
			if how == "sticky error" {
				r.Poison(int(driver.ResultLaunchFailed))
			} else {
				r.Release(uintptr(s))
				r.must(r.StreamSynchronize(r.th, s))
			}
			r.ends("after the launch", 1)
			if how == "update" {
				r.exists("after the launch")
				r.must(r.GraphExecDestroy(r.th, x))
				r.ends("at the end", 2)
			}
		})
	}
}

// TestUserObjectCallsNothing calls the driver in the function of an object, which is refused.
func TestUserObjectCallsNothing(t *testing.T) {
	r := newLab(t)
	called := make(chan driver.Result)
	o, res := r.UserObjectCreate(r.th, driver.Callback{Go: func() {
		_, res := r.DeviceGetCount(nil)
		called <- res
	}}, 1, noDestructorSync)
	r.must(res)
	r.must(r.UserObjectRelease(r.th, o, 1))
	want := driver.ResultNotPermitted
	if driver.CurrentThread() == 0 {
		want = ok
	}
	r.want("in the function", want, <-called)
}

// TestUserObjectOfOwnChild gives a node a copy of its own child graph, which alone has the reference.
func TestUserObjectOfOwnChild(t *testing.T) {
	r := newUserObjects(t)
	inner, _ := r.with(1)
	g := r.graph()
	n, res := r.GraphAddChildGraphNode(r.th, g, nil, inner)
	r.must(res)
	r.must(r.GraphDestroy(r.th, inner))
	child, res := r.GraphChildGraphNodeGetGraph(r.th, n)
	r.must(res)
	params := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_GRAPH}
	params.Graph().Graph = child
	r.must(r.GraphNodeSetParams(r.th, n, params))
	r.exists("the node has the copy")
	r.must(r.GraphDestroy(r.th, g))
	r.ends("without the node", 1)
}
