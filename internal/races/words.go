package races

import "slices"

// WordOp is an operation of a stream on a word of memory, or on a semaphore of another API.
type WordOp struct {
	// Semaphore is the number of a semaphore, or 0. A write is then a signal, and Value is its value
	// unless the semaphore is Binary.
	Semaphore uint64
	Binary    bool

	Addr  uint64
	Size  int // 4 or 8 bytes
	Value uint64
	// Waits says that the operation waits, for values that Until chooses. Otherwise it writes Value.
	Waits bool
	Until WaitFor
}

// WaitFor says for which values of a word a stream waits, as CUstreamWaitValue_flags.
type WaitFor uint32

const (
	WaitAtLeast WaitFor = iota
	WaitEqual
	WaitAnd
	WaitNor
)

// passes reports whether a value ends the wait.
func (op WordOp) passes(have uint64) bool {
	want, mask := op.Value, ^uint64(0)
	if op.Size == 4 {
		mask = 1<<32 - 1
	}
	switch op.Until {
	case WaitAtLeast:
		return (have-want)&mask <= mask>>1
	case WaitEqual:
		return (have^want)&mask == 0
	case WaitAnd:
		return have&want&mask != 0
	}
	return ^(have|want)&mask != 0
}

// words are the words of memory on which streams have operated.
type words struct {
	list map[wordKey]*word
}

type wordKey struct {
	addr uint64
	size int
}

// waits reports whether the operation is a wait.
func (op WordOp) waits() bool { return op.Waits }

// word is a word of memory. Other work may write it, too: its values are then not known, and no wait is in
// order with it before a write of a stream.
type word struct {
	writes []wordWrite // in an order in which each comes after those that it depends on
	waits  []wordWait  // whose values nothing has written that is known
}

// wordWrite is a write of a word. known says that its value is known.
type wordWrite struct {
	known bool
	value uint64
	lane  int
	n     uint64
	clock clock
}

// wordWait is a wait, and the gate behind it.
type wordWait struct {
	op   WordOp
	gate *step
}

// maxWrites is how many writes of a word are kept. If there were more, a wait may count as one for a
// later write.
const maxWrites = 64

// before reports whether the write comes before what has a clock.
func (w *wordWrite) before(c clock) bool { return c.of(w.lane) >= w.n }

func (d *Detector) word(op WordOp) *word {
	k := wordKey{op.Addr, op.Size}
	w := d.words.list[k]
	if w == nil {
		if d.words.list == nil {
			d.words.list = map[wordKey]*word{}
		}
		w = new(word)
		d.words.list[k] = w
	}
	return w
}

// WordOps implements [Observer].
func (d *Detector) WordOps(key Stream, ops []WordOp) {
	defer d.enter()()
	s := d.stream(key)
	if s.capture != nil {
		s.node(&node{words: slices.Clone(ops)})
		return
	}
	d.operate(ops, func(after *step) *step { return d.enqueue(s, nil, after) })
}

// operate adds the steps of operations, each by add after the one before it, and returns the last one.
func (d *Detector) operate(ops []WordOp, add func(after *step) *step) (last *step) {
	for _, op := range ops {
		s := add(last)
		last = s
		if op.Waits {
			g := gate()
			if op.Semaphore != 0 {
				d.keepGate(g)
				d.whenOrdered(op, s, func() { d.awaitSignal(op, g) })
			} else {
				g.unseen = true
				s.whenKnown(func() { d.await(op, s.clock, g) })
			}
			last = add(g)
		} else if op.Semaphore != 0 {
			d.whenOrdered(op, s, func() { d.signalled(op, s.clock) })
		} else {
			s.whenKnown(func() { d.written(op, s) })
		}
	}
	return last
}

// whenKnown calls f when the step is no longer pending.
func (s *step) whenKnown(f func()) {
	if s.pending == 0 {
		f()
		return
	}
	s.then = f
}

// await opens the gate behind a wait after the first write that can end the wait. c is what comes before
// the wait: a write does not count if another one comes between it and the wait.
func (d *Detector) await(op WordOp, c clock, g *step) {
	w := d.word(op)
	for i := range w.writes {
		a := &w.writes[i]
		replaced := slices.ContainsFunc(w.writes[i+1:],
			func(b wordWrite) bool { return a.before(b.clock) && b.before(c) })
		if a.known && op.passes(a.value) && !replaced {
			d.open(g, a.clock)
			return
		}
	}
	w.waits = append(w.waits, wordWait{op, g})
}

// written notes the write of a step, which may end waits.
func (d *Detector) written(op WordOp, s *step) {
	d.overwritten(op.Addr, uint64(op.Size), s, op.Size)
	w := d.word(op)
	w.note(wordWrite{true, op.Value, s.lane.id, s.n, s.clock})
	s.lane.used = max(s.lane.used, s.n)
	var open []*step
	w.waits = slices.DeleteFunc(w.waits, func(a wordWait) bool {
		passed := a.gate.pending == 0 || a.op.passes(op.Value)
		if passed {
			open = append(open, a.gate)
		}
		return passed
	})
	for _, g := range open {
		d.open(g, s.clock)
	}
}

func (w *word) note(a wordWrite) {
	if w.writes = append(w.writes, a); len(w.writes) > maxWrites {
		w.writes = slices.Delete(w.writes, 0, len(w.writes)-maxWrites)
	}
}

// overwritten notes that a step may write memory, which gives the words there values that are not known,
// except words of a size.
func (d *Detector) overwritten(addr, n uint64, s *step, except int) {
	for k, w := range d.words.list {
		if k.addr < addr+n && addr < k.addr+uint64(k.size) && (k.addr != addr || k.size != except) {
			w.note(wordWrite{lane: s.lane.id, n: s.n, clock: s.clock})
		}
	}
}

// forgetWords forgets the words in memory that the program has got now, or that is gone.
func (d *Detector) forgetWords(addr, n uint64) {
	for k := range d.words.list {
		if k.addr >= addr && k.addr-addr < n {
			delete(d.words.list, k)
		}
	}
}

// everything returns a clock that knows all steps that are not pending.
func (d *Detector) everything() clock {
	c := d.host
	for _, s := range d.streams {
		if s.tail != nil && s.tail.pending == 0 {
			c = join(c, s.tail.clock)
		}
	}
	return c
}
