package memory_test

import (
	"sync"
	"testing"

	. "github.com/purecu/purecu/cu"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestMemPoolStorm allocates, uses and frees memory of a pool on many streams at once, and closes streams meanwhile.
func TestMemPoolStorm(t *testing.T) {
	r := NewSoft(t)
	p := newPool(r)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 50 {
				s, err := r.GPU.NewStream(StreamNonBlocking)
				if err != nil {
					t.Error(err)
					return
				}
				m, err := p.Alloc(s, uint64(1000*i+1))
				if err == nil {
					err = r.Other.WaitStream(s)
				}
				if err == nil {
					err = r.Other.Memset(m, 1)
				}
				if err == nil && i%3 == 0 {
					err = m.Memset(2)
				}
				if err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					s.Close()
				}
				if i%5 != 0 {
					if err := m.Close(); err != nil {
						t.Error(err)
					}
				}
				s.Close()
				if i%10 == 9 {
					m.Close()
				}
			}
		})
	}
	wg.Wait()
	r.Freed(func() bool { return r.Sim.Census()["device memory"] == 0 })
}
