package engine

// Pending is the list of a context's operations that are not complete, in the order in which they were enqueued.
type Pending struct {
	Load *Load // of the device; nil if nobody asks how long it works

	oldest, newest *Op
	numbers        uint64
}

// place is the place of an operation in the list of pending operations.
type place struct {
	older, newer *Op
	number       uint64
}

// add adds an operation that was enqueued.
func (p *Pending) add(o *Op) {
	p.numbers++
	o.number = p.numbers
	if o.older = p.newest; o.older == nil {
		p.oldest = o
	} else {
		o.older.newer = o
	}
	p.newest = o
}

// remove removes a completed operation.
func (p *Pending) remove(o *Op) {
	if o.older == nil {
		p.oldest = o.newer
	} else {
		o.older.newer = o.newer
	}
	if o.newer == nil {
		p.newest = o.older
	} else {
		o.newer.older = o.older
	}
	o.older, o.newer = nil, nil
}

// None reports whether the list is empty.
func (p *Pending) None() bool { return p.oldest == nil }

// Newest returns the number of the operation that was enqueued last. Operations have the numbers 1, 2, and so on.
func (p *Pending) Newest() uint64 { return p.numbers }
