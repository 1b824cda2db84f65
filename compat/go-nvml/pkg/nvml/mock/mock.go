// Package mock has types that implement the interfaces of package nvml for tests. A method calls the function that a
// field of the struct is set to, and a struct notes the calls.
package mock

import (
	"fmt"
	"sync"
)

// record has the arguments of each call of a method.
type record[T any] struct {
	mu    sync.RWMutex
	calls []T
}

func (r *record[T]) add(call T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

func (r *record[T]) all() []T {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.calls
}

// unset panics because the function of a method is not set.
func unset(typ, method string) {
	panic(fmt.Sprintf("%s.%sFunc: method is nil but %[1]s.%[2]s was just called", typ, method))
}
