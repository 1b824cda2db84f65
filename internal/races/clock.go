package races

// clock has the last position that is known of each lane, by the lane's number. A clock never changes:
// join and with return other clocks.
type clock []uint64

// of returns the position that is known of a lane.
func (c clock) of(lane int) uint64 {
	if lane < len(c) {
		return c[lane]
	}
	return 0
}

// includes reports whether the clock knows everything that b knows.
func (c clock) includes(b clock) bool {
	for i, n := range b {
		if n > c.of(i) {
			return false
		}
	}
	return true
}

// join returns a clock that knows what either clock knows.
func join(a, b clock) clock {
	switch {
	case a.includes(b):
		return a
	case b.includes(a):
		return b
	}
	if len(a) < len(b) {
		a, b = b, a
	}
	c := append(clock(nil), a...)
	for i, n := range b {
		c[i] = max(c[i], n)
	}
	return c
}

// with returns the clock with another position of a lane.
func (c clock) with(lane int, n uint64) clock {
	d := make(clock, max(len(c), lane+1))
	copy(d, c)
	d[lane] = n
	return d
}

// lane is a sequence of steps, each of which comes after the one before it.
type lane struct {
	id   int
	last uint64 // the position of the last step
	// used is the position of the last step whose uses of memory are noted. Nobody asks whether a step without uses,
	// such as a record, is done.
	used uint64
}

// lanes are the numbers of lanes. The number of a lane that has ended is used again when the host
// knows that its steps that use memory are done: the steps of the new lane come after them.
type lanes struct {
	all   int
	ended []*lane
}

// take returns a lane. host is the host's clock.
func (l *lanes) take(host clock) *lane {
	for i, e := range l.ended {
		if host.of(e.id) >= e.used {
			l.ended[i] = l.ended[len(l.ended)-1]
			l.ended = l.ended[:len(l.ended)-1]
			return &lane{id: e.id, last: e.last}
		}
	}
	l.all++
	return &lane{id: l.all}
}

func (l *lanes) end(e *lane) { l.ended = append(l.ended, e) }
