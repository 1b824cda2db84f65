package watch

// Counter is a number that rises, and the waits for what it will reach. Its program makes those
// in memory; those of sequences exist while somebody waits. The watcher's lock guards it.
type Counter struct {
	key        key
	word       Word // nil for that of a sequence
	domain     *Domain
	prev, next *Counter // of the domain
	place      int      // in the set's list
	n          int      // waits that have not ended
	heap       heap     // waits with numbers
	loose      looseList
	// upTo is what the counter of a sequence has reached, as far as that is known. completed is
	// how many waits in the heap have ended so since it was decided how far to look.
	upTo      uint64
	completed int
	// checking says that somebody asks whether the word still works.
	checking atomicFlag
}

// looseList holds the waits of a counter that have no number, the first to be waited for first.
type looseList struct {
	first, last *Wait
	// depth is how many of them are asked for: more after each round in which all have completed.
	// hits is how many have since that was decided.
	depth, hits int
}

// Init makes the counter one in memory, with the domain in which its waits end.
func (c *Counter) Init(word Word, domain *Domain) { c.word, c.domain = word, domain }

// key names a sequence. An item of which nothing is known is a sequence of its own.
type key struct {
	sequence uint64
	item     *Shared
}

// set is all that is waited for. The watcher's lock guards it.
type set struct {
	sequences map[key]*Counter
	// counters are those of sequences in any order, and words those in memory.
	counters, words []*Counter
	n               int // waits for items
	// others are the interests that are not counted as waiters: callbacks, and those of goroutines
	// that wait for several items.
	others int
	// turn is the next of the loose waits, which are in a ring, that is asked for though it is
	// behind others. loose is how many these are.
	turn  *Wait
	loose int
	// advanced are counters of which an item has completed. It is empty but in endAll.
	advanced []*Counter
	// version counts the changes of what there is to ask for.
	version uint64
}

// idle reports whether nobody waits for anything.
func (s *set) idle() bool { return s.n == 0 && len(s.words) == 0 }

// sequence returns the counter of an item's sequence.
func (s *set) sequence(item Item, domain *Domain) (c *Counter, number uint64) {
	on, number := item.Position()
	k := key{sequence: on}
	if on == 0 {
		k.item, number = item.Shared(), 0
	}
	c = s.sequences[k]
	if c == nil {
		c = &Counter{key: k, domain: domain}
		c.loose.depth = 1
		if s.sequences == nil {
			s.sequences = make(map[key]*Counter)
		}
		s.sequences[k] = c
		s.list(c)
	}
	return c, number
}

// of returns the list that a counter belongs to.
func (s *set) of(c *Counter) *[]*Counter {
	if c.word != nil {
		return &s.words
	}
	return &s.counters
}

// list adds a counter for which somebody begins to wait, and forget takes it away.
func (s *set) list(c *Counter) {
	if c.next = c.domain.first; c.next != nil {
		c.next.prev = c
	}
	c.domain.first = c
	l := s.of(c)
	c.place = len(*l)
	*l = append(*l, c)
}

func (s *set) forget(c *Counter) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		c.domain.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	l := s.of(c)
	n := len(*l) - 1
	last := (*l)[n]
	(*l)[c.place], last.place = last, c.place
	(*l)[n] = nil
	*l = (*l)[:n]
	if c.word == nil {
		delete(s.sequences, c.key)
	} else {
		c.heap.empty() // the counter stays
	}
}

// loosen puts a wait without a number into its counter's list and the ring.
func (s *set) loosen(of *Wait) {
	l := &of.counter.loose
	of.where, of.list.prev = inList, l.last
	if l.last != nil {
		l.last.list.next = of
	} else {
		l.first = of
	}
	l.last = of
	if s.turn == nil {
		of.ring = links{of, of}
		s.turn = of
	} else {
		of.ring = links{s.turn.ring.prev, s.turn}
		of.ring.prev.ring.next, of.ring.next.ring.prev = of, of
	}
	s.loose++
}

// unlink undoes that.
func (s *set) unlink(of *Wait) {
	l := &of.counter.loose
	if of.list.prev != nil {
		of.list.prev.list.next = of.list.next
	} else {
		l.first = of.list.next
	}
	if of.list.next != nil {
		of.list.next.list.prev = of.list.prev
	} else {
		l.last = of.list.prev
	}
	if of.ring.next == of {
		s.turn = nil
	} else {
		of.ring.prev.ring.next, of.ring.next.ring.prev = of.ring.next, of.ring.prev
		if s.turn == of {
			s.turn = of.ring.next
		}
	}
	of.where, of.list, of.ring = nowhere, links{}, links{}
	s.loose--
}

// each calls f for each wait of the counter. It ends none of them.
func (c *Counter) each(f func(*Wait)) {
	for of := c.loose.first; of != nil; of = of.list.next {
		f(of)
	}
	for _, x := range c.heap.entries {
		if x.wait.counter != nil {
			f(x.wait)
		}
	}
}

// add adds a wait to a group, and remove takes it away.
func (g *Group) add(of *Wait) {
	first := g.first.Load()
	if of.members.next = first; first != nil {
		first.members.prev = of
	}
	g.first.Store(of)
}

func (g *Group) remove(of *Wait) {
	before, after := of.members.prev, of.members.next
	if before != nil {
		before.members.next = after
	} else {
		g.first.Store(after)
	}
	if after != nil {
		after.members.prev = before
	}
	of.members = links{}
}
