package testrig

import (
	"flag"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purecu/purecu/internal/ccall"
)

// Calls notes calls in their order.
type Calls struct {
	mu   sync.Mutex
	made []string
}

// Of returns a function that notes its calls by this name.
func (c *Calls) Of(name string) func() {
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.made = append(c.made, name)
	}
}

// Want compares what was called since the last time.
func (c *Calls) Want(t testing.TB, what string, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.made, want) {
		t.Errorf("%s: the calls are %q, want %q", what, c.made, want)
	}
	c.made = nil
}

// Count returns how many calls were noted since the last time.
func (c *Calls) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.made)
}

// Kept expects that so many functions are kept, now or soon.
func Kept(t testing.TB, what string, want int) {
	t.Helper()
	if !Eventually(func() bool { return ccall.Funcs() == want }) {
		t.Errorf("%s: %d functions are kept, want %d", what, ccall.Funcs(), want)
	}
}

// StormOps is how much the storms do: tests in which goroutines use, close and replace objects at any time.
var StormOps = flag.Int("storm", 2000, "operations of each goroutine of a storm")

// Shelf holds an object that goroutines use, close and replace at any time.
type Shelf[T any] struct {
	P atomic.Pointer[T]
}

// Get returns the object.
func (s *Shelf[T]) Get() *T { return s.P.Load() }
