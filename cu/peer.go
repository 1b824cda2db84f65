package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
)

// EnablePeerAccess allows kernels of this context to access the memory of another device's context
// (cuCtxEnablePeerAccess). It does not allow the reverse. Copies between devices do not need it. The
// access does not include memory of pools (see memory.Pool.SetAccess), virtual memory (see
// memory.Virtual.SetAccess), and memory that graphs allocate. If access is already enabled, the call
// does nothing.
//
// If memory is short, it may wait for the GPU: see docs/blocking.md.
func (c *Context) EnablePeerAccess(peer *Context) error {
	return c.setPeerAccess("cuCtxEnablePeerAccess", peer, true)
}

// DisablePeerAccess ends the access that EnablePeerAccess allowed (cuCtxDisablePeerAccess). Running
// kernels that use such memory then fail, which poisons the context.
func (c *Context) DisablePeerAccess(peer *Context) error {
	return c.setPeerAccess("cuCtxDisablePeerAccess", peer, false)
}

func (c *Context) setPeerAccess(op string, peer *Context, on bool) error {
	cc, err := c.enter(op)
	if err != nil {
		return err
	}
	defer c.leave()
	pc, err := peer.enter(op)
	if err != nil {
		return drivercall.About(cc, err)
	}
	defer peer.leave()
	if pc.Drv != cc.Drv {
		return core.MixedError(op, cc, core.InRole("peer", pc))
	}
	t, at := cc.Drv.Table(), driver.At{Context: cc.Raw}
	var res, already driver.Result
	var collection *core.Collection
	if on {
		res, collection = cc.Allocate(func() driver.Result { return t.CtxEnablePeerAccess(at, pc.Raw, 0) })
		already = driver.ResultPeerAccessAlreadyEnabled
	} else {
		res, already = t.CtxDisablePeerAccess(at, pc.Raw), driver.ResultPeerAccessNotEnabled
	}
	if res != driver.ResultSuccess && res != already {
		return collection.Explain(cc.CallError(op, uintptr(pc.Raw), res))
	}
	cc.Peers.Set(pc, on)
	return nil
}
