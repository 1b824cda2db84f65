package fuzz

import (
	"slices"

	"github.com/purecu/purecu/driver"
)

// This file has events, attributes of streams, functions of the host, and captures. A capture begins and ends in one
// call, because a sequence waits for all work after each call. The sequences of fuzz_test.go have captures that last,
// and events of work that is not complete.

// withEvent returns a call that uses an event.
func withEvent(f func(c *caller, e driver.Event) []uint64) func(c *caller) []uint64 {
	return func(c *caller) []uint64 {
		i := some(c, c.events)
		if i < 0 {
			return noOperands
		}
		c.say("event %d ", i)
		return f(c, c.events[i])
	}
}

// elapsed returns a call that measures the time between two events. Both are complete.
func elapsed(name string, f func(c *caller, from, to driver.Event) (float32, driver.Result)) randomCall {
	return randomCall{name, withEvent(func(c *caller, from driver.Event) []uint64 {
		i := c.IntN(len(c.events))
		c.say("to event %d", i)
		if c.IntN(2) == 0 {
			c.say(", recorded")
			c.EventRecord(c.at, from, 0)
			c.EventRecord(c.at, c.events[i], 0)
			c.wait()
		}
		_, r := f(c, from, c.events[i])
		return answers(r)
	})}
}

// aboutStream returns a call that asks a stream for a value.
func aboutStream(name string, f func(c *caller, s driver.Stream) (uint64, driver.Result)) randomCall {
	return randomCall{name, func(c *caller) []uint64 {
		v, r := f(c, c.anyStream())
		return answers(r, v)
	}}
}

// timedEvent creates an event that measures time.
var timedEvent = randomCall{"cuEventCreate", func(c *caller) []uint64 {
	if len(c.events) > 3 {
		return noOperands
	}
	e, r := c.EventCreate(c.at, 0)
	if r == ok {
		c.events = append(c.events, e)
	}
	return answers(r)
}}

var eventCalls = []randomCall{
	graphEvent,
	{"cuEventDestroy", func(c *caller) []uint64 {
		i := some(c, c.events)
		if i < 0 || len(c.graphs) > 0 { // a node may have it
			return noOperands
		}
		r := c.EventDestroy(c.at, c.events[i])
		c.events = slices.Delete(c.events, i, i+1)
		return answers(r)
	}},
	{"cuEventRecord", withEvent(func(c *caller, e driver.Event) []uint64 {
		return answers(c.EventRecord(c.at, e, c.anyStream()))
	})},
	{"cuEventRecordWithFlags", withEvent(func(c *caller, e driver.Event) []uint64 {
		flags := one[uint32](c, 0, 0, 0, driver.CU_EVENT_RECORD_EXTERNAL, 2)
		c.say("%d", flags)
		return answers(c.EventRecordWithFlags(c.at, e, c.anyStream(), flags))
	})},
	{"cuEventQuery", withEvent(func(c *caller, e driver.Event) []uint64 { return answers(c.EventQuery(c.at, e)) })},
	{"cuEventSynchronize", withEvent(func(c *caller, e driver.Event) []uint64 {
		return answers(c.EventSynchronize(c.at, e))
	})},
	elapsed("cuEventElapsedTime", func(c *caller, from, to driver.Event) (float32, driver.Result) {
		return c.EventElapsedTime(c.at, from, to)
	}),
	elapsed("cuEventElapsedTime_v2", func(c *caller, from, to driver.Event) (float32, driver.Result) {
		return c.EventElapsedTimeV2(c.at, from, to)
	}),
	{"cuStreamWaitEvent", withEvent(func(c *caller, e driver.Event) []uint64 {
		flags := one[uint32](c, 0, 0, 0, driver.CU_EVENT_WAIT_EXTERNAL, 2)
		c.say("%d", flags)
		return answers(c.StreamWaitEvent(c.at, c.anyStream(), e, flags))
	})},
	{"cuCtxRecordEvent", withEvent(func(c *caller, e driver.Event) []uint64 {
		return answers(c.CtxRecordEvent(c.at, c.ctx, e))
	})},
	{"cuCtxWaitEvent", withEvent(func(c *caller, e driver.Event) []uint64 {
		return answers(c.CtxWaitEvent(c.at, c.ctx, e))
	})},
}

var streamCalls = []randomCall{
	{"cuStreamCreateWithPriority", attributeCalls[0].call},
	aboutStream("cuStreamQuery", func(c *caller, s driver.Stream) (uint64, driver.Result) {
		return 0, c.StreamQuery(c.at, s)
	}),
	aboutStream("cuStreamSynchronize", func(c *caller, s driver.Stream) (uint64, driver.Result) {
		return 0, c.StreamSynchronize(c.at, s)
	}),
	aboutStream("cuStreamGetCtx", func(c *caller, s driver.Stream) (uint64, driver.Result) {
		ctx, r := c.StreamGetCtx(c.at, s)
		return uint64(boolean(ctx == c.ctx)), r
	}),
	aboutStream("cuStreamGetGreenCtx", func(c *caller, s driver.Stream) (uint64, driver.Result) {
		g, r := c.StreamGetGreenCtx(c.at, s)
		return uint64(g), r // none
	}),
	aboutStream("cuStreamGetFlags", func(c *caller, s driver.Stream) (uint64, driver.Result) {
		flags, r := c.StreamGetFlags(c.at, s)
		return uint64(flags), r
	}),
	aboutStream("cuStreamGetPriority", func(c *caller, s driver.Stream) (uint64, driver.Result) {
		priority, r := c.StreamGetPriority(c.at, s)
		return uint64(uint32(priority)), r
	}),
	aboutStream("cuStreamGetId", func(c *caller, s driver.Stream) (uint64, driver.Result) {
		id, r := c.StreamGetId(c.at, s)
		again, q := c.StreamGetId(c.at, s)
		return uint64(q)<<1 | uint64(boolean(id == again)), r
	}),
	aboutStream("cuStreamGetDevice", func(c *caller, s driver.Stream) (uint64, driver.Result) {
		dev, r := c.StreamGetDevice(c.at, s)
		return uint64(dev), r
	}),
	{"cuLaunchHostFunc", func(c *caller) []uint64 {
		r := c.LaunchHostFunc(c.at, c.anyStream(), c.count)
		return answers(r, c.counted())
	}},
	{"cuThreadExchangeStreamCaptureMode", func(c *caller) []uint64 {
		mode := one[int32](c, 0, 1, 2, 0, 1, 2, 3, -1)
		c.say("%d", mode)
		old, r := c.ThreadExchangeStreamCaptureMode(c.at, mode)
		if r != ok {
			return answers(r)
		}
		now, q := c.ThreadExchangeStreamCaptureMode(c.at, old)
		return answers(r, uint64(old), uint64(q), uint64(now))
	}},
}

// counted waits for all work, and returns how often the driver has called the function of count in this sequence.
func (c *caller) counted() uint64 {
	c.wait()
	return uint64(c.calls.Load())
}

// work makes a call that a capture can have. All of it is about the same block.
func (c *caller) work(s driver.Stream, b block) driver.Result {
	at, left := c.place(b)
	n := c.Uint64N(min(left, 500) + 1)
	c.say(" work %x, %d", c.offset(at), n)
	switch c.IntN(4) {
	case 0:
		return c.LaunchKernel(c.at, c.fns[1], 1, 1, 1, 32, 1, 1, 0, s, driver.KernelParams{})
	case 1:
		return c.LaunchHostFunc(c.at, s, c.count)
	}
	return c.MemsetD8Async(c.at, at, byte(c.IntN(256)), n, s)
}

// oneCapture is a capture that a call is made in.
type oneCapture struct {
	stream driver.Stream
	block  block
	mode   int32
	graph  driver.Graph // the one that it was begun with, or 0
	known  []driver.GraphNode
}

// info is the status of a capture and the number of nodes that the next node comes after.
func (c *caller) info(s driver.Stream) []uint64 {
	status, _, _, _, _, n, r := c.StreamGetCaptureInfoV3(c.at, s)
	return answers(r, uint64(status), n)
}

// nodesOf returns the nodes of a graph.
func (c *caller) nodesOf(g driver.Graph) []driver.GraphNode {
	list := make([]driver.GraphNode, 64)
	n, r := c.GraphGetNodes(c.at, g, list)
	if r != ok {
		return nil
	}
	return list[:min(n, uint64(len(list)))]
}

// inCapture returns a call that is made during a capture, or that begins one. If it is the call that begins it, it says
// whether there is a capture. The graph is launched if its nodes run one after the other.
func inCapture(name string, launch bool, begin func(c *caller, k *oneCapture) driver.Result,
	f func(c *caller, k *oneCapture) []uint64) randomCall {
	return randomCall{name, with(func(c *caller, i int) []uint64 {
		j := some(c, c.streams)
		if j < 0 || c.blocks[i].size < 512 || c.blocks[i].kind == ofPool {
			return noOperands
		}
		k := &oneCapture{stream: c.streams[j], block: c.blocks[i], mode: int32(c.IntN(3))}
		c.say("stream %d, %v, mode %d", j, k.block, k.mode)
		r := begin(c, k)
		if r != ok {
			if k.graph != 0 {
				c.GraphDestroy(c.at, k.graph)
			}
			return answers(r)
		}
		var answer []uint64
		work := func() {
			for range c.IntN(3) {
				answer = append(answer, uint64(c.work(k.stream, k.block)))
			}
			answer = append(answer, c.info(k.stream)...)
		}
		work()
		answer = append(f(c, k), answer...)
		work()
		g, r := c.StreamEndCapture(c.at, k.stream)
		answer = append(answer, uint64(r), uint64(boolean(k.graph == 0 || g == k.graph)))
		if r != ok || g == 0 { // then the driver has destroyed the graph
			return answer
		}
		edges, q := c.GraphGetEdges(c.at, g, nil, nil)
		answer = append(answer, uint64(len(c.nodesOf(g))), uint64(q), edges)
		if launch {
			x, r := c.GraphInstantiateWithFlags(c.at, g, 0)
			answer = append(answer, uint64(r))
			if r == ok {
				answer = append(answer, uint64(c.GraphLaunch(c.at, x, k.stream)), c.counted(),
					uint64(c.GraphExecDestroy(c.at, x)))
			}
		}
		return append(answer, uint64(c.GraphDestroy(c.at, g)))
	})}
}

// plainly begins a capture.
func plainly(c *caller, k *oneCapture) driver.Result {
	return c.StreamBeginCapture(c.at, k.stream, k.mode)
}

// nothing is the answer of a call that has made none of its own.
func nothing(*caller, *oneCapture) []uint64 { return answers(ok) }

// someNodes returns some nodes of the graph of a capture.
func (c *caller) someNodes(k *oneCapture) []driver.GraphNode {
	_, _, g, _, _, _, r := c.StreamGetCaptureInfoV3(c.at, k.stream)
	if r != ok || g == 0 {
		return nil
	}
	list := slices.DeleteFunc(c.nodesOf(g), func(driver.GraphNode) bool { return c.IntN(2) == 0 })
	c.say(" nodes %d", len(list))
	return list
}

// capturedData returns data of edges to the next node of a capture, or nil. One of them may have data that is not 0,
// which is refused for an edge from a node that is no kernel.
func (c *caller) capturedData(n int) []driver.GraphEdgeData {
	if c.IntN(2) != 0 {
		return nil
	}
	data := make([]driver.GraphEdgeData, n)
	if i := some(c, data); i >= 0 && c.IntN(3) == 0 {
		data[i] = driver.GraphEdgeData{FromPort: uint8(c.IntN(3)), ToPort: uint8(c.IntN(2)), Type: uint8(c.IntN(2))}
	}
	return data
}

var captureCalls = []randomCall{
	inCapture("cuStreamBeginCapture_v2", true, func(c *caller, k *oneCapture) driver.Result {
		k.mode = one(c, k.mode, k.mode, k.mode, k.mode, 3, -1)
		c.say(", in fact %d", k.mode)
		return plainly(c, k)
	}, nothing),
	inCapture("cuStreamBeginCaptureToGraph", true, func(c *caller, k *oneCapture) (r driver.Result) {
		if k.graph, r = c.GraphCreate(c.at, 0); r != ok {
			k.graph = 0
			return r
		}
		for range c.IntN(3) {
			n, _ := c.GraphAddEmptyNode(c.at, k.graph, nil)
			k.known = append(k.known, n)
		}
		data := c.capturedData(len(k.known))
		k.mode = one(c, k.mode, k.mode, k.mode, k.mode, 3, -1)
		c.say(", in fact %d, after %d, data %v", k.mode, len(k.known), data)
		return c.StreamBeginCaptureToGraph(c.at, k.stream, k.graph, k.known, data, k.mode)
	}, nothing),
	inCapture("cuStreamEndCapture", true, plainly, nothing),
	inCapture("cuStreamIsCapturing", true, plainly, func(c *caller, k *oneCapture) []uint64 {
		s := one(c, k.stream, k.stream, c.streams[0])
		status, r := c.StreamIsCapturing(c.at, s)
		return answers(r, uint64(status))
	}),
	inCapture("cuStreamGetCaptureInfo_v2", true, plainly, func(c *caller, k *oneCapture) []uint64 {
		s := one(c, k.stream, k.stream, c.streams[0])
		status, id, g, _, n, r := c.StreamGetCaptureInfoV2(c.at, s)
		if r != ok || status == 0 { // the other values are not set
			return answers(r, uint64(status))
		}
		return answers(r, uint64(status), uint64(boolean(id != 0)), uint64(boolean(g != 0)), n)
	}),
	inCapture("cuStreamGetCaptureInfo_v3", true, plainly, func(c *caller, k *oneCapture) []uint64 {
		s := one(c, k.stream, k.stream, c.streams[0])
		status, id, g, _, _, n, r := c.StreamGetCaptureInfoV3(c.at, s)
		if r != ok || status == 0 {
			return answers(r, uint64(status))
		}
		return answers(r, uint64(status), uint64(boolean(id != 0)), uint64(boolean(g != 0)), n)
	}),
	inCapture("cuStreamUpdateCaptureDependencies", false, plainly, func(c *caller, k *oneCapture) []uint64 {
		flags := one[uint32](c, 0, 0, 1, 1, 1, 2)
		c.say(" flags %d", flags)
		return append(answers(c.StreamUpdateCaptureDependencies(c.at, k.stream, c.someNodes(k), flags)),
			c.info(k.stream)...)
	}),
	inCapture("cuStreamUpdateCaptureDependencies_v2", false, plainly, func(c *caller, k *oneCapture) []uint64 {
		flags := one[uint32](c, 0, 0, 1, 1, 1, 2)
		list := c.someNodes(k)
		data := c.capturedData(len(list))
		c.say(" flags %d, data %v", flags, data)
		return append(answers(c.StreamUpdateCaptureDependenciesV2(c.at, k.stream, list, data, flags)),
			c.info(k.stream)...)
	}),
}

// eventsTopic is about events and streams, and capturesTopic about captures.
var (
	eventsTopic = callTopic{
		slices.Concat([]randomCall{large, attributeCalls[0], attributeCalls[0], timedEvent, graphEvent},
			eventCalls[2:3]),
		slices.Concat(eventCalls, eventCalls[2:3], []randomCall{timedEvent, timedEvent}, eventCalls[6:8],
			streamCalls, streamCalls[:1], attributeCalls[1:2], captureCalls[:2]),
	}
	capturesTopic = callTopic{
		[]randomCall{large, memoryCalls[2], attributeCalls[0], attributeCalls[0], attributeCalls[0]},
		slices.Concat(captureCalls, captureCalls, streamCalls[:2], streamCalls[9:], memoryCalls[:1]),
	}
)
