package cu_test

import (
	"sync"
	"testing"

	. "github.com/purecu/purecu/cu"
)

// TestMemPoolStorm allocates, uses and frees memory of a pool on many streams at once, and closes streams meanwhile.
func TestMemPoolStorm(t *testing.T) {
	r := newSoft(t)
	p := r.pool()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 50 {
				s, err := r.gpu.NewStream(StreamNonBlocking)
				if err != nil {
					t.Error(err)
					return
				}
				m, err := p.Alloc(s, uint64(1000*i+1))
				if err == nil {
					err = r.other.WaitStream(s)
				}
				if err == nil {
					err = r.other.Memset(m, 1)
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
	r.freed(func() bool { return r.sim.Census()["device memory"] == 0 })
}
