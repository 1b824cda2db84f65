package fuzz

import "math/rand/v2"

// These are the lengths of programs.
const (
	shortest = 30
	longest  = 60
)

// generate returns the program of a seed, for a machine with at most so many contexts. It uses the
// model, so that steps have operands.
func generate(seed uint64, contexts int, cov *coverage) program {
	return generateKind(seed, contexts, false, cov)
}

// generateKind is like generate. If poisoned is set, the program has a sticky error in the middle.
func generateKind(seed uint64, contexts int, poisoned bool, cov *coverage) program {
	r := rand.New(rand.NewPCG(seed, 0x707572656375))
	p := program{contexts: 1 + r.IntN(contexts)}
	g := &generator{Rand: r, m: newModel(), contexts: p.contexts}
	n := shortest + r.IntN(longest-shortest+1)
	at := -1
	if poisoned {
		at = 8 + r.IntN(n/2)
	}
	for len(p.steps) < n {
		st, found := g.step(len(p.steps))
		if len(p.steps) == at {
			st, found = step{op: poison}, true
		}
		if !found {
			continue
		}
		seen := g.m.observe(st)
		if _, valid := g.m.apply(st); valid {
			p.steps = append(p.steps, st)
			cov.add(st.op, seen)
		}
	}
	return p
}

// generator makes steps.
type generator struct {
	*rand.Rand
	m        *model
	contexts int
}

// pick returns a random index with the given weights.
func (g *generator) pick(weights ...int) int {
	total := 0
	for _, w := range weights {
		total += w
	}
	n := g.IntN(total)
	for i, w := range weights {
		if n -= w; n < 0 {
			return i
		}
	}
	return 0
}

// step returns the step after n others. It returns false if the step has no operands.
func (g *generator) step(n int) (st step, found bool) {
	if n < 6 {
		// Most steps need these objects.
		if n%2 == 0 {
			return step{op: streamCreate, stream: uint8(firstStream + n/2), value: int32(n / 2 % 2)}, true
		}
		return step{op: eventCreate, event: uint8(n / 2)}, true
	}
	st.thread = uint8(g.pick(3, 1))
	st.op = operationWeights.pick(g.Rand)
	if g.m.current(st.thread) < 0 && g.pick(1, 1) == 0 {
		st.op = []op{ctxPush, ctxSetCurrent}[g.pick(1, 1)]
	}
	if c := g.m.captures; len(c) > 0 {
		// Most calls that a capture does not allow would end the capture too early.
		switch st.op {
		case eventQuery, eventSynchronize, streamQuery, streamSynchronize, ctxSynchronize, memAlloc, eventElapsed, eventElapsedV2:
			if g.pick(1, 2) == 1 {
				st.op = []op{eventRecord, streamWaitEvent, streamWriteValue, eventRecordWithFlags}[g.pick(4, 4, 2, 1)]
			}
		}
		if g.pick(12, 1) == 1 {
			return g.end(c[g.IntN(len(c))])
		}
	}
	found = true
	for _, a := range operationWeights.args[st.op] {
		switch a {
		case 'e':
			st.event, found = place(g, g.m.events[:], 0, true, found)
			for _, c := range g.m.captures {
				if len(c.events) > 0 && g.pick(1, 1) == 1 && st.op == streamWaitEvent {
					st.event = uint8(c.events[g.IntN(len(c.events))].slot)
				}
			}
		case 'f':
			st.end, found = place(g, g.m.events[:], 0, true, found)
		case 'E':
			st.event, found = place(g, g.m.events[:], 0, false, found)
		case 's':
			if k := g.pick(3, 2, 14); k < firstStream {
				st.stream = uint8(k)
			} else {
				st.stream, found = place(g, g.m.streams[:], firstStream, true, found)
			}
			for _, c := range g.m.captures {
				if g.pick(3, 2) == 1 && st.op != streamWaitValue && st.op != graphLaunch && st.op != streamDestroy {
					st.stream = uint8(c.streams[g.IntN(len(c.streams))].slot)
				}
			}
		case 'S':
			st.stream, found = place(g, g.m.streams[:], firstStream, false, found)
		case 'g':
			st.graph, found = place(g, g.m.graphs[:], 0, true, found)
		case 'G':
			st.graph, found = place(g, g.m.graphs[:], 0, false, found)
		case 'x':
			st.exec, found = place(g, g.m.execs[:], 0, true, found)
		case 'X':
			st.exec, found = place(g, g.m.execs[:], 0, false, found)
		case 'c':
			if st.ctx = uint8(1 + g.IntN(g.contexts)); g.pick(14, 1) == 1 && (st.op == ctxPush || st.op == ctxSetCurrent) {
				st.ctx = 0
			}
		case 'p':
			st.prio = int32(g.IntN(12) - 8)
		case 'v':
			st.value = g.value(st.op)
		}
	}
	return st, found
}

// value returns a value for a step.
func (g *generator) value(o op) int32 {
	switch o {
	case eventCreate:
		return int32(g.pick(24, 6, 6, 4, 1, 1, 3, 2, 1))
	case eventRecordWithFlags:
		return int32(g.pick(1, 1))
	case streamWaitEvent:
		return int32(g.pick(6, 1))
	case streamCreate, streamCreateWithPriority:
		return int32(g.pick(8, 8, 1))
	case beginCapture:
		return int32(g.pick(8, 8, 8, 1))
	case exchangeMode:
		return int32(g.pick(8, 8, 8)) // an H200 accepts other modes, too; their meaning is not known
	}
	if g.m.gates == 0 || g.pick(2, 1) == 1 { // open
		return -1
	}
	return int32(g.IntN(g.m.gates))
}

// end returns a step that ends a capture, usually in the correct way.
func (g *generator) end(c *mCapture) (st step, found bool) {
	st = step{op: endCapture, thread: uint8(c.thread), stream: uint8(c.origin.slot)}
	if c.origin.slot == perThreadSlot && g.m.contexts[c.origin.ctx].own[st.thread] != c.origin {
		return st, false
	}
	st.graph, found = place(g, g.m.graphs[:], 0, false, true)
	if !found {
		st = step{op: graphDestroy, graph: uint8(g.IntN(graphSlots))}
	}
	return st, true
}

// place returns a slot that is taken or free. It returns false if there is none, or if before is
// false.
func place[T any](g *generator, slots []*T, from int, taken, before bool) (uint8, bool) {
	n := len(slots) - from
	first := g.IntN(n)
	for i := range n {
		if s := from + (first+i)%n; (slots[s] != nil) == taken {
			return uint8(s), before
		}
	}
	return 0, false
}

// wheel picks operations.
type wheel struct {
	sums [opCount]int
	args [opCount]string
}

var operationWeights = newWheel()

func newWheel() *wheel {
	w, sum := new(wheel), 0
	for i, o := range operations() {
		sum += o.weight
		w.sums[i], w.args[i] = sum, o.args
	}
	return w
}

func (w *wheel) pick(r *rand.Rand) op {
	n := r.IntN(w.sums[opCount-1])
	for i, sum := range w.sums {
		if n < sum {
			return op(i)
		}
	}
	return 0
}

// seen has the states of a step's operands.
type seen struct {
	event, stream, mode int // -1: the step has none
}

// observe returns the states of a step's operands.
func (m *model) observe(st step) seen {
	s := seen{-1, -1, int(m.threads[st.thread].mode)}
	for _, a := range operationWeights.args[st.op] {
		switch a {
		case 'e':
			if e := m.events[st.event]; e != nil {
				s.event = int(m.stateOf(e))
			}
		case 's':
			if stream, _ := m.stream(st); stream != nil {
				s.stream = int(m.streamStateOf(stream))
			}
		}
	}
	return s
}

// coverage counts steps by the states of their operands.
type coverage struct {
	steps   int
	calls   [opCount]int
	events  [opCount][eventStates]int
	streams [opCount][streamStates]int
	modes   [opCount][3]int
}

func (c *coverage) add(o op, s seen) {
	if c == nil {
		return
	}
	c.steps++
	c.calls[o]++
	c.modes[o][s.mode]++
	if s.event >= 0 {
		c.events[o][s.event]++
	}
	if s.stream >= 0 {
		c.streams[o][s.stream]++
	}
}

// merge adds the counts of another coverage.
func (c *coverage) merge(other *coverage) {
	c.steps += other.steps
	for o := range opCount {
		c.calls[o] += other.calls[o]
		for i, n := range other.events[o] {
			c.events[o][i] += n
		}
		for i, n := range other.streams[o] {
			c.streams[o][i] += n
		}
		for i, n := range other.modes[o] {
			c.modes[o][i] += n
		}
	}
}
