package drivercall

import "github.com/purecu/purecu/cu/cuerror"

// BatchErrors collects the errors of a call on several items.
type BatchErrors struct {
	Op    string
	Items int
	list  []error // nil while there are none
}

// Add notes the error of an item, or nothing if err is nil.
func (b *BatchErrors) Add(place int, err error) {
	if err == nil {
		return
	}
	if b.list == nil {
		b.list = make([]error, b.Items)
	}
	b.list[place] = err
}

// Err returns nil if no item failed, else a BatchError.
func (b *BatchErrors) Err() error {
	if b.list == nil {
		return nil
	}
	return &cuerror.BatchError{Op: b.Op, Errs: b.list}
}

// OneByOne makes calls of which each may fail.
func OneByOne(op string, n int, one func(i int) error) error {
	errs := BatchErrors{Op: op, Items: n}
	for i := range n {
		errs.Add(i, one(i))
	}
	return errs.Err()
}

// BatchSize is the largest number of items for one transition into C. It is limited because the
// garbage collector cannot stop the goroutine's processor during the transition.
const BatchSize = 64
