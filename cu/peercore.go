package cu

import (
	"sync/atomic"

	"github.com/purecu/purecu/internal/lock"
)

// peers has the other contexts whose memory the kernels of a context can access. The map is
// replaced and never changed, so that a launch reads it without a lock.
type peers struct {
	mu  lock.Mutex[lock.Peers]
	all atomic.Pointer[map[*contextCore]bool]
}

// set adds a peer or removes it. It also removes contexts that are gone.
func (p *peers) set(peer *contextCore, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[*contextCore]bool)
	if old := p.all.Load(); old != nil {
		for c := range *old {
			if !c.gone.Load() {
				all[c] = true
			}
		}
	}
	if on {
		all[peer] = true
	} else {
		delete(all, peer)
	}
	p.all.Store(&all)
}

// has reports whether a context is a peer.
func (p *peers) has(c *contextCore) bool {
	all := p.all.Load()
	return all != nil && (*all)[c]
}

// reaches reports whether kernels of the context can access memory of another context.
func (c *contextCore) reaches(other *contextCore) bool { return c == other || c.peers.has(other) }
