package behaviour

import (
	"os"
	"time"

	"github.com/purecu/purecu/driver"
)

// This file has the parts of the found cases.

// dare makes the last step of a case, in which a driver in C may crash or hang.
func (c *raw) dare(step string, call func() driver.Result) {
	c.send(report{Kind: dared, Step: step})
	late := time.AfterFunc(daring, func() {
		c.send(report{Kind: answer, Step: step, Answer: hang})
		c.send(report{Kind: ended})
		os.Exit(0)
	})
	res := call()
	if !late.Stop() {
		select {} // the process ends
	}
	c.res(step, res)
}

// These are the times after which a call counts as hanging or as waiting, and the times that are
// needed to distinguish two times and for other threads to reach their place.
const (
	daring   = 2 * time.Second
	waiting  = 200 * time.Millisecond
	settling = 20 * time.Millisecond
)

// waits reports whether a call on another thread waits for a gate, and what the call returns after
// the gate was opened. This thread may do something before that.
func (c *raw) waits(ctx driver.Context, g *gate, call func(*raw) driver.Result, meanwhile ...func()) (waited bool, res driver.Result) {
	w := c.worker(ctx)
	w.tasks <- func(c *raw) { res = call(c) }
	for _, do := range meanwhile {
		time.Sleep(settling)
		do()
	}
	select {
	case <-w.done:
	case <-time.After(waiting):
		waited = true
	}
	g.open()
	if waited {
		<-w.done
	}
	w.end()
	return waited, res
}

func (c *raw) query(e driver.Event) driver.Result { return c.EventQuery(c.at, e) }

func (c *raw) streamQuery(s driver.Stream) driver.Result { return c.StreamQuery(c.at, s) }

func (c *raw) wait(s driver.Stream, e driver.Event) driver.Result {
	return c.StreamWaitEvent(c.at, s, e, driver.CU_EVENT_WAIT_DEFAULT)
}

func (c *raw) elapsed(start, end driver.Event) driver.Result {
	return bare(c.EventElapsedTimeV2(c.at, start, end))
}

// after reports whether b was not before a.
func (c *raw) after(a, b driver.Event) bool {
	ms, res := c.EventElapsedTimeV2(c.at, a, b)
	return res == driver.ResultSuccess && ms >= 0
}

// newEvent returns the result of creating an event.
func (c *raw) newEvent() driver.Result { return bare(c.EventCreate(c.at, timed)) }

// top returns the current context.
func (c *raw) top() driver.Context {
	ctx, res := c.CtxGetCurrent(c.at)
	c.must("cuCtxGetCurrent", res)
	return ctx
}

// aside creates a context that does not become current.
func (c *raw) aside(dev driver.Device) driver.Context {
	ctx := c.context(dev)
	c.must("cuCtxPopCurrent", bare(c.CtxPopCurrent(c.at)))
	return ctx
}

// mark makes a stream open a gate. If the stream is being captured, this adds a node.
func (c *raw) mark(s driver.Stream, g *gate) {
	c.must("cuStreamWriteValue32", c.StreamWriteValue32(c.at, s, g.dev, 1, 0))
}

// captured returns the graph of the work that do enqueues on a stream.
func (c *raw) captured(s driver.Stream, do func()) driver.Graph {
	c.begin(s, capRelaxed)
	do()
	_, g, res := c.graphOf(s)
	c.must("cuStreamEndCapture", res)
	return g
}

// run launches a graph.
func (c *raw) run(x driver.GraphExec, s driver.Stream) {
	c.must("cuGraphLaunch", c.GraphLaunch(c.at, x, s))
}

// external records an event as a node of a graph. externalWait waits for an event as a node.
func (c *raw) external(e driver.Event, s driver.Stream) driver.Result {
	return c.EventRecordWithFlags(c.at, e, s, driver.CU_EVENT_RECORD_EXTERNAL)
}

func (c *raw) externalWait(s driver.Stream, e driver.Event) driver.Result {
	return c.StreamWaitEvent(c.at, s, e, driver.CU_EVENT_WAIT_EXTERNAL)
}

// These flags make streams other than non-blocking ones.
const (
	blocking  = driver.CU_STREAM_DEFAULT
	legacy    = driver.CU_STREAM_LEGACY
	perThread = driver.CU_STREAM_PER_THREAD
)
