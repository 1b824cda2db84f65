package cu

import "github.com/purecu/purecu/cu/cuerror"

// batchErrors collects the errors of a call on several items.
type batchErrors struct {
	op    string
	items int
	list  []error // nil while there are none
}

func (b *batchErrors) add(place int, err error) {
	if err == nil {
		return
	}
	if b.list == nil {
		b.list = make([]error, b.items)
	}
	b.list[place] = err
}

// err returns nil if no item failed, else a BatchError.
func (b *batchErrors) err() error {
	if b.list == nil {
		return nil
	}
	return &cuerror.BatchError{Op: b.op, Errs: b.list}
}
