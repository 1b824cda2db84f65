package sim

import "github.com/purecu/purecu/driver"

// pending is the list of a context's operations that are not complete, in the order in which they
// were enqueued.
type pending struct {
	oldest, newest *op
	numbers        uint64
}

// pendingPlace is the place of an operation in its context's list of pending operations.
type pendingPlace struct {
	older, newer *op
	number       uint64
}

// add adds an operation that was enqueued.
func (p *pending) add(o *op) {
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
func (p *pending) remove(o *op) {
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

// none reports whether the list is empty.
func (p *pending) none() bool { return p.oldest == nil }

// drain waits for the operations that are pending in a context now, and not for later ones. The
// driver is unlocked during the wait.
func (d *Driver) drain(op string, h uintptr, c *context) driver.Result {
	return d.wait(&wait{op: op, handle: h, ctx: c, last: c.pending.numbers})
}
