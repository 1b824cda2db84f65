package raw

// A call of a software NVML gets copies of the variables that its arguments lead to, which are then copied back. If it
// got their addresses, the compiler would have to allocate the variables on the heap for calls into C, too.

// clone returns a copy of a variable.
func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	q := new(T)
	*q = *p
	return q
}

// back sets a variable to its copy, and returns r.
func back[T any](p, q *T, r Return) Return {
	if p != nil {
		*p = *q
	}
	return r
}

// cloneSlice returns a copy of a slice.
func cloneSlice[T any](s []T) []T {
	if s == nil {
		return nil
	}
	c := make([]T, len(s))
	copy(c, s)
	return c
}

// backSlice sets a slice to its copy, and returns r.
func backSlice[T any](s, c []T, r Return) Return {
	copy(s, c)
	return r
}
