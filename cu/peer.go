package cu

import (
	"sync/atomic"

	"github.com/purecu/purecu/driver"
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

// EnablePeerAccess allows kernels of this context to access the memory of another device's context
// (cuCtxEnablePeerAccess). It does not allow the reverse. Copies between devices do not need it. If
// access is already enabled, the call does nothing.
func (c *Context) EnablePeerAccess(peer *Context) error {
	return c.setPeerAccess("cuCtxEnablePeerAccess", peer, true)
}

// DisablePeerAccess ends the access that EnablePeerAccess allowed (cuCtxDisablePeerAccess). Running
// kernels that use such memory then fail, which poisons the context.
func (c *Context) DisablePeerAccess(peer *Context) error {
	return c.setPeerAccess("cuCtxDisablePeerAccess", peer, false)
}

func (c *Context) setPeerAccess(op string, peer *Context, on bool) error {
	core, err := c.enter(op)
	if err != nil {
		return err
	}
	defer c.leave()
	pc, err := peer.enter(op)
	if err != nil {
		return err
	}
	defer peer.leave()
	if pc.drv != core.drv {
		return mixed(op, "context", core, "peer", pc)
	}
	t, at := core.drv.table, driver.At{Context: core.raw}
	var res, already driver.Result
	if on {
		res, already = t.CtxEnablePeerAccess(at, pc.raw, 0), driver.ResultPeerAccessAlreadyEnabled
	} else {
		res, already = t.CtxDisablePeerAccess(at, pc.raw), driver.ResultPeerAccessNotEnabled
	}
	if res != driver.ResultSuccess && res != already {
		return core.callError(op, uintptr(pc.raw), res)
	}
	core.peers.set(pc, on)
	return nil
}

// reaches reports whether kernels of the context can access memory of another context.
func (c *contextCore) reaches(other *contextCore) bool { return c == other || c.peers.has(other) }
