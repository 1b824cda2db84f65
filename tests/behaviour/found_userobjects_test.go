package behaviour

import (
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/driver"
)

// destructor counts the calls of the function of user objects.
type destructor struct {
	c        *raw
	callback driver.Callback
	calls    atomic.Int32
}

// destructor returns one for objects that the case creates.
func (c *raw) destructor() *destructor {
	d := &destructor{c: c}
	var err error
	if d.callback, err = c.NewCallback(func() { d.calls.Add(1) }); err != nil {
		c.fatal("a callback: %v", err)
	}
	return d
}

// create creates an object with references of the program.
func (d *destructor) create(count, flags uint32) (driver.UserObject, driver.Result) {
	return d.c.UserObjectCreate(d.c.at, d.callback, count, flags)
}

func (d *destructor) object(count uint32) driver.UserObject {
	o, res := d.create(count, driver.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
	d.c.must("cuUserObjectCreate", res)
	return o
}

// called reports how often the function was called by now. It waits for the calls that are expected, and a little
// for others.
func (d *destructor) called(step string, expected int32) {
	time.Sleep(settling)
	d.c.until(driver.ResultNotReady, func() driver.Result {
		if d.calls.Load() < expected {
			return driver.ResultNotReady
		}
		return driver.ResultSuccess
	})
	d.c.val(step, d.calls.Load())
}

// graph returns a graph with a node, and a reference to a new object that the graph has alone.
func (d *destructor) graph() (driver.Graph, driver.UserObject) {
	c := d.c
	g, res := c.GraphCreate(c.at, 0)
	c.must("cuGraphCreate", res)
	_, res = c.GraphAddEmptyNode(c.at, g, nil)
	c.must("cuGraphAddEmptyNode", res)
	o := d.object(1)
	c.must("cuGraphRetainUserObject", c.GraphRetainUserObject(c.at, g, o, 1, driver.CU_GRAPH_USER_OBJECT_MOVE))
	return g, o
}

// foundUserObjects are about user objects.
func foundUserObjects() []found {
	// without is a case about a call without an object or a graph.
	without := func(name string, call func(c *raw, g driver.Graph, o driver.UserObject) driver.Result) found {
		return found{famGraph, "user-object-" + name, "a call without a user object or graph", func(c *raw) {
			c.setup()
			g, o := c.destructor().graph()
			c.res("call", call(c, g, o))
		}}
	}
	return []found{
		without("retain-no-object", func(c *raw, _ driver.Graph, _ driver.UserObject) driver.Result {
			return c.UserObjectRetain(c.at, 0, 1)
		}),
		without("release-no-object", func(c *raw, _ driver.Graph, _ driver.UserObject) driver.Result {
			return c.UserObjectRelease(c.at, 0, 1)
		}),
		without("graph-retains-no-object", func(c *raw, g driver.Graph, _ driver.UserObject) driver.Result {
			return c.GraphRetainUserObject(c.at, g, 0, 1, 0)
		}),
		without("graph-releases-no-object", func(c *raw, g driver.Graph, _ driver.UserObject) driver.Result {
			return c.GraphReleaseUserObject(c.at, g, 0, 1)
		}),
		without("no-graph-retains", func(c *raw, _ driver.Graph, o driver.UserObject) driver.Result {
			return c.GraphRetainUserObject(c.at, 0, o, 1, 0)
		}),
		without("no-graph-releases", func(c *raw, _ driver.Graph, o driver.UserObject) driver.Result {
			return c.GraphReleaseUserObject(c.at, 0, o, 1)
		}),
		{famGraph, "user-object-arguments", "numbers of references, and flags, that the driver refuses", func(c *raw) {
			c.setup()
			d := c.destructor()
			for _, k := range []struct {
				step         string
				count, flags uint32
			}{{"no-flags", 1, 0}, {"other-flags", 1, 3}, {"no-references", 0, 1}, {"too-many", 1 << 31, 1}} {
				_, res := d.create(k.count, k.flags)
				c.res(k.step, res)
			}
			_, res := c.UserObjectCreate(c.at, driver.Callback{}, 1, 1)
			c.res("no-function", res)
			o := d.object(1)
			g, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			c.res("retain-none", c.UserObjectRetain(c.at, o, 0))
			c.res("retain-too-many", c.UserObjectRetain(c.at, o, 1<<31))
			c.res("release-none", c.UserObjectRelease(c.at, o, 0))
			c.res("graph-retains-none", c.GraphRetainUserObject(c.at, g, o, 0, 0))
			c.res("graph-retains-with-flags", c.GraphRetainUserObject(c.at, g, o, 1, 2))
			c.res("graph-releases-without-any", c.GraphReleaseUserObject(c.at, g, o, 1))
			c.res("graph-retains", c.GraphRetainUserObject(c.at, g, o, 2, 0))
			c.res("graph-releases-none", c.GraphReleaseUserObject(c.at, g, o, 0))
			c.res("graph-releases-too-many", c.GraphReleaseUserObject(c.at, g, o, 3))
			d.called("called", 0)
		}},
		{famGraph, "user-object-of-graphs", "which graphs keep a user object", func(c *raw) {
			c.setup()
			d := c.destructor()
			g, _ := d.graph()
			clone, res := c.GraphClone(c.at, g)
			c.res("clone", res)
			x := c.exec(g)
			c.res("destroy-the-graph", c.GraphDestroy(c.at, g))
			d.called("without-the-graph", 0)
			c.res("destroy-the-clone", c.GraphDestroy(c.at, clone))
			d.called("without-the-clone", 0)
			c.res("destroy-the-executable-graph", c.GraphExecDestroy(c.at, x))
			d.called("without-any", 1)
		}},
		{famGraph, "user-object-of-children", "which child graphs keep a user object", func(c *raw) {
			c.setup()
			one, two := c.destructor(), c.destructor()
			g, _ := one.graph()
			other, _ := two.graph()
			parent, res := c.GraphCreate(c.at, 0)
			c.must("cuGraphCreate", res)
			n, res := c.GraphAddChildGraphNode(c.at, parent, nil, g)
			c.must("cuGraphAddChildGraphNode", res)
			x := c.exec(parent)
			c.must("cuGraphDestroy", c.GraphDestroy(c.at, g))
			one.called("without-the-graph", 0)
			c.res("replace", c.GraphExecChildGraphNodeSetParams(c.at, x, n, other))
			c.must("cuGraphDestroy", c.GraphDestroy(c.at, other))
			one.called("replaced-in-the-executable-graph", 0)
			two.called("in-the-executable-graph", 0)
			c.res("destroy-the-node", c.GraphDestroyNode(c.at, n))
			one.called("without-the-node", 1)
			c.res("destroy-the-executable-graph", c.GraphExecDestroy(c.at, x))
			two.called("without-any", 1)
		}},
		{famGraph, "user-object-of-updates", "when an update releases a user object", func(c *raw) {
			c.setup()
			one, two := c.destructor(), c.destructor()
			g, _ := one.graph()
			other, _ := two.graph()
			x := c.exec(g)
			c.must("cuGraphDestroy", c.GraphDestroy(c.at, g))
			_, res := c.GraphExecUpdateV2(c.at, x, other)
			c.res("update", res)
			one.called("updated", 1)
			c.must("cuGraphDestroy", c.GraphDestroy(c.at, other))
			two.called("without-the-graph", 0)
			c.res("destroy", c.GraphExecDestroy(c.at, x))
			two.called("without-any", 1)
		}},
		{famGraph, "user-object-of-launches", "whether a launch keeps a user object", func(c *raw) {
			_, ctx := c.setup()
			d := c.destructor()
			g, _ := d.graph()
			_, res := c.GraphAddMemsetNode(c.at, g, nil, &driver.MemsetNodeParams{Dst: c.memory(), ElementSize: 1,
				Width: 4, Height: 1}, ctx)
			c.must("cuGraphAddMemsetNode", res)
			x := c.exec(g)
			c.must("cuGraphDestroy", c.GraphDestroy(c.at, g))
			s, gate := c.held(nonBlocking)
			c.must("cuGraphLaunch", c.GraphLaunch(c.at, x, s))
			c.res("destroy", c.GraphExecDestroy(c.at, x))
			d.called("during-the-launch", 0)
			gate.open()
			c.res("synchronize", c.StreamSynchronize(c.at, s))
			d.called("after-the-launch", 1)
		}},
		{famGraph, "user-object-moves", "who has the references after they were moved to a graph", func(c *raw) {
			c.setup()
			d := c.destructor()
			g, o := d.graph()
			c.res("new-reference", c.GraphRetainUserObject(c.at, g, o, 1, 0))
			c.res("release-one", c.GraphReleaseUserObject(c.at, g, o, 1))
			d.called("one-is-left", 0)
			c.res("release-the-other", c.GraphReleaseUserObject(c.at, g, o, 1))
			d.called("none-is-left", 1)
		}},
	}
}
