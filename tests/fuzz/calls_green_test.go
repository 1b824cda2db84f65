package fuzz

import (
	"slices"

	"github.com/purecu/purecu/driver"
)

// This file has green contexts. A GPU takes long to create one, so a sequence has few.

// callGreen is a green context with its streams.
type callGreen struct {
	ctx     driver.GreenCtx
	streams []driver.Stream
}

// split returns parts of the multiprocessors, and what is left.
func (c *caller) split(least uint32) (parts []driver.DevResource, rest driver.DevResource, r driver.Result) {
	all, r := c.DeviceGetDevResource(c.at, 0, driver.CU_DEV_RESOURCE_TYPE_SM)
	if r != ok {
		return nil, rest, r
	}
	parts = make([]driver.DevResource, 1+c.IntN(4))
	flags := one[uint32](c, 0, 0, 0, 1, 2, 3, 4, 8)
	c.say("%d parts of %d, %d", len(parts), least, flags)
	n, rest, r := c.DevSmResourceSplitByCount(c.at, parts, all, flags, least)
	return parts[:min(n, uint32(len(parts)))], rest, r
}

// partSize returns a number of multiprocessors that four parts can have.
func (c *caller) partSize() uint32 { return one[uint32](c, 0, 1, 8, 16, 32) }

// withGreen returns a call that uses a green context.
func withGreen(f func(c *caller, g *callGreen) []uint64) func(c *caller) []uint64 {
	return func(c *caller) []uint64 {
		i := some(c, c.greens)
		if i < 0 {
			return noOperands
		}
		c.say("green context %d ", i)
		return f(c, &c.greens[i])
	}
}

// multiprocessors is the answer of a call that asks for a resource.
func multiprocessors(r driver.Result, list ...driver.DevResource) []uint64 {
	var counts []uint64
	for _, d := range list {
		counts = append(counts, uint64(d.SMCount()))
	}
	return answers(r, counts...)
}

var greenCalls = []randomCall{
	{"cuDeviceGetDevResource", func(c *caller) []uint64 {
		typ := one[int32](c, 1, 1, 1, 0, 99)
		c.say("%d ", typ)
		d, r := c.DeviceGetDevResource(c.at, c.anyDevice(), typ)
		return multiprocessors(r, d)
	}},
	{"cuCtxGetDevResource", func(c *caller) []uint64 {
		typ := one[int32](c, 1, 1, 1, 0, 99)
		c.say("%d", typ)
		d, r := c.CtxGetDevResource(c.at, c.ctx, typ)
		return multiprocessors(r, d)
	}},
	{"cuDevSmResourceSplitByCount", func(c *caller) []uint64 {
		parts, rest, r := c.split(one(c, c.partSize(), c.partSize(), c.partSize(), 131, 132, 1000))
		answer := multiprocessors(r, append(parts, rest)...)
		return append(answer, uint64(len(parts))) // a split that fails leaves the number as it was
	}},
	{"cuDevResourceGenerateDesc", func(c *caller) []uint64 {
		parts, _, r := c.split(c.partSize())
		if r != ok {
			return answers(r)
		}
		if c.IntN(6) == 0 {
			parts = append(parts, parts[0])
		}
		c.say(", %d of them", len(parts))
		desc, r := c.DevResourceGenerateDesc(c.at, parts)
		return answers(r, uint64(boolean(desc != 0)))
	}},
	{"cuGreenCtxCreate", func(c *caller) []uint64 {
		if len(c.greens) > 1 {
			return noOperands
		}
		parts, _, r := c.split(c.partSize())
		if r != ok {
			return answers(r)
		}
		parts = parts[:1]
		if c.IntN(6) == 0 {
			parts = append(parts, parts[0])
		}
		desc, r := c.DevResourceGenerateDesc(c.at, parts)
		if r != ok {
			return answers(r)
		}
		flags := one[uint32](c, 1, 1, 1, 2)
		c.say(", flags %d ", flags)
		g, r := c.GreenCtxCreate(c.at, desc, c.anyDevice(), flags)
		if r != ok {
			return answers(r)
		}
		c.greens = append(c.greens, callGreen{ctx: g})
		d, q := c.GreenCtxGetDevResource(c.at, g, driver.CU_DEV_RESOURCE_TYPE_SM)
		return append(answers(r), multiprocessors(q, d)...)
	}},
	{"cuGreenCtxDestroy", func(c *caller) []uint64 {
		i := some(c, c.greens)
		if i < 0 || c.IntN(2) == 0 {
			return noOperands
		}
		var list []uint64
		for _, s := range c.greens[i].streams {
			list = append(list, uint64(c.StreamDestroy(c.at, s)))
		}
		r := c.GreenCtxDestroy(c.at, c.greens[i].ctx)
		c.greens = slices.Delete(c.greens, i, i+1)
		return answers(r, list...)
	}},
	{"cuGreenCtxGetDevResource", withGreen(func(c *caller, g *callGreen) []uint64 {
		typ := one[int32](c, 1, 1, 1, 0, 99)
		c.say("%d", typ)
		d, r := c.GreenCtxGetDevResource(c.at, g.ctx, typ)
		return multiprocessors(r, d)
	})},
	{"cuGreenCtxGetId", withGreen(func(c *caller, g *callGreen) []uint64 {
		id, r := c.GreenCtxGetId(c.at, g.ctx)
		again, q := c.GreenCtxGetId(c.at, g.ctx)
		return answers(r, uint64(q), uint64(boolean(id == again)))
	})},
	{"cuGreenCtxStreamCreate", withGreen(func(c *caller, g *callGreen) []uint64 {
		if len(g.streams) > 1 {
			return noOperands
		}
		flags, priority := one[uint32](c, 1, 1, 1, 0, 2), int32(c.IntN(12)-8)
		c.say("%d %d", flags, priority)
		s, r := c.GreenCtxStreamCreate(c.at, g.ctx, flags, priority)
		if r != ok {
			return answers(r)
		}
		g.streams = append(g.streams, s)
		of, q := c.StreamGetGreenCtx(c.at, s)
		p, t := c.StreamGetPriority(c.at, s)
		return answers(r, uint64(q), uint64(boolean(of == g.ctx)), uint64(t), uint64(uint32(p)))
	})},
	{"cuCtxFromGreenCtx", withGreen(func(c *caller, g *callGreen) []uint64 {
		ctx, r := c.CtxFromGreenCtx(c.at, g.ctx)
		if r != ok {
			return answers(r)
		}
		d, q := c.CtxGetDevResource(c.at, ctx, driver.CU_DEV_RESOURCE_TYPE_SM)
		return answers(r, uint64(boolean(ctx != c.ctx)), uint64(q), uint64(d.SMCount()))
	})},
	{"cuGreenCtxRecordEvent", withGreen(func(c *caller, g *callGreen) []uint64 {
		i := some(c, c.events)
		if i < 0 {
			return noOperands
		}
		c.say("event %d", i)
		r := c.GreenCtxRecordEvent(c.at, g.ctx, c.events[i])
		c.wait()
		return answers(r, uint64(c.EventSynchronize(c.at, c.events[i])))
	})},
	{"cuGreenCtxWaitEvent", withGreen(func(c *caller, g *callGreen) []uint64 {
		i := some(c, c.events)
		if i < 0 {
			return noOperands
		}
		c.say("event %d", i)
		return answers(c.GreenCtxWaitEvent(c.at, g.ctx, c.events[i]))
	})},
}

// greenTopic is about green contexts.
var greenTopic = callTopic{
	slices.Concat([]randomCall{attributeCalls[0], graphEvent}, greenCalls[4:5], greenCalls[4:5]),
	slices.Concat(greenCalls, greenCalls[4:5], named(eventCalls, "cuEventRecord", "cuEventQuery", "cuStreamWaitEvent"),
		[]randomCall{graphEvent}),
}
