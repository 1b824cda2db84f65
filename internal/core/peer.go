package core

import (
	"sync/atomic"

	"github.com/purecu/purecu/internal/lock"
)

// peers has the other contexts whose memory the kernels of a context can access. The map is
// replaced and never changed, so that a launch reads it without a lock.
type peers struct {
	mu  lock.Mutex[lock.Peers]
	all atomic.Pointer[map[*Context]bool]
}

// Set adds a peer or removes it. It also removes contexts that are gone.
func (p *peers) Set(peer *Context, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[*Context]bool)
	if old := p.all.Load(); old != nil {
		for c := range *old {
			if !c.Gone.Load() {
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
func (p *peers) has(c *Context) bool {
	all := p.all.Load()
	return all != nil && (*all)[c]
}

// Reaches reports whether kernels of the context can access memory of another context.
func (c *Context) Reaches(other *Context) bool { return c == other || c.Peers.has(other) }
