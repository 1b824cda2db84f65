package watch

// Counter is a number that rises, with the waits for numbers that it will reach. The user of this
// package makes the counters in memory. The counter of a sequence exists while there are waits for
// it. The watcher's lock guards all fields but checking.
type Counter struct {
	key        key
	word       Word // nil for the counter of a sequence
	domain     *Domain
	prev, next *Counter // in the list of the domain
	place      int      // index in the set's list
	n          int      // number of waits that have not ended
	heap       heap     // waits with numbers
	unnumbered unnumberedList
	// upTo is the highest number that the counter of a sequence is known to have reached. completed
	// is how many waits of the heap have completed since the last round was gathered.
	upTo      uint64
	completed int
	// checking says that a goroutine calls the word's Works.
	checking atomicFlag
}

// unnumberedList holds the unnumbered waits of a counter, the oldest first.
type unnumberedList struct {
	first, last *Wait
	// depth is how many of them a round queries. It doubles after each round in which all of these
	// have completed. hits is how many have completed since depth was last changed.
	depth, hits int
}

// Init makes c a counter in memory. Its waits end with those of the domain.
func (c *Counter) Init(word Word, domain *Domain) { c.word, c.domain = word, domain }

// key identifies a sequence. An item whose position is not known is a sequence of its own.
type key struct {
	sequence uint64
	item     *CurrentWait
}

// set is the set of all counters with waits. The watcher's lock guards it.
type set struct {
	sequences map[key]*Counter
	// counters are the counters of sequences, and words the counters in memory, both in any order.
	counters, words []*Counter
	n               int // number of waits for items
	// others is the number of Subs that are not counted as waiters: callbacks, and Subs of
	// goroutines that wait for several items.
	others int
	// turn is the wait in the ring of unnumbered waits with which gatherTurns continues. unnumbered
	// is how many waits the ring has.
	turn       *Wait
	unnumbered int
	// advanced are the counters of sequences of which an item has completed. It is used within
	// endAll.
	advanced []*Counter
	// version counts the changes of the set of items to query.
	version uint64
}

// idle reports whether there are no waits.
func (s *set) idle() bool { return s.n == 0 && len(s.words) == 0 }

// sequence returns the counter of an item's sequence, and the item's number there, or 0.
func (s *set) sequence(item Item, domain *Domain) (c *Counter, number uint64) {
	on, number := item.Position()
	k := key{sequence: on}
	if on == 0 {
		k.item, number = item.CurrentWait(), 0
	}
	c = s.sequences[k]
	if c == nil {
		c = &Counter{key: k, domain: domain}
		c.unnumbered.depth = 1
		if s.sequences == nil {
			s.sequences = make(map[key]*Counter)
		}
		s.sequences[k] = c
		s.list(c)
	}
	return c, number
}

// of returns the list that contains a counter.
func (s *set) of(c *Counter) *[]*Counter {
	if c.word != nil {
		return &s.words
	}
	return &s.counters
}

// list adds a counter that gets its first wait.
func (s *set) list(c *Counter) {
	if c.next = c.domain.first; c.next != nil {
		c.next.prev = c
	}
	c.domain.first = c
	l := s.of(c)
	c.place = len(*l)
	*l = append(*l, c)
}

// forget removes a counter whose last wait has ended.
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

// addUnnumbered adds an unnumbered wait to its counter's list and to the ring.
func (s *set) addUnnumbered(wait *Wait) {
	l := &wait.counter.unnumbered
	wait.where, wait.list.prev = inList, l.last
	if l.last != nil {
		l.last.list.next = wait
	} else {
		l.first = wait
	}
	l.last = wait
	if s.turn == nil {
		wait.ring = links{wait, wait}
		s.turn = wait
	} else {
		wait.ring = links{s.turn.ring.prev, s.turn}
		wait.ring.prev.ring.next, wait.ring.next.ring.prev = wait, wait
	}
	s.unnumbered++
}

// removeUnnumbered removes an unnumbered wait from the list and the ring.
func (s *set) removeUnnumbered(wait *Wait) {
	l := &wait.counter.unnumbered
	if wait.list.prev != nil {
		wait.list.prev.list.next = wait.list.next
	} else {
		l.first = wait.list.next
	}
	if wait.list.next != nil {
		wait.list.next.list.prev = wait.list.prev
	} else {
		l.last = wait.list.prev
	}
	if wait.ring.next == wait {
		s.turn = nil
	} else {
		wait.ring.prev.ring.next, wait.ring.next.ring.prev = wait.ring.next, wait.ring.prev
		if s.turn == wait {
			s.turn = wait.ring.next
		}
	}
	wait.where, wait.list, wait.ring = nowhere, links{}, links{}
	s.unnumbered--
}

// each calls f for each wait of the counter. f must not end a wait.
func (c *Counter) each(f func(*Wait)) {
	for wait := c.unnumbered.first; wait != nil; wait = wait.list.next {
		f(wait)
	}
	for _, x := range c.heap.entries {
		if x.wait.counter != nil {
			f(x.wait)
		}
	}
}

// add adds a wait to the group.
func (g *Group) add(wait *Wait) {
	first := g.first.Load()
	if wait.members.next = first; first != nil {
		first.members.prev = wait
	}
	g.first.Store(wait)
}

// remove removes a wait from the group.
func (g *Group) remove(wait *Wait) {
	before, after := wait.members.prev, wait.members.next
	if before != nil {
		before.members.next = after
	} else {
		g.first.Store(after)
	}
	if after != nil {
		after.members.prev = before
	}
	wait.members = links{}
}
