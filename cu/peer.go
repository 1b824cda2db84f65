package cu

import (
	"github.com/purecu/purecu/driver"
)

// EnablePeerAccess allows kernels of this context to access the memory of another device's context
// (cuCtxEnablePeerAccess). It does not allow the reverse. Copies between devices do not need it. The
// access does not include memory of pools (see [MemPool.SetAccess]), virtual memory (see
// [VirtualMem.SetAccess]), and memory that graphs allocate. If access is already enabled, the call
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
		return about(cc, err)
	}
	defer peer.leave()
	if pc.drv != cc.drv {
		return errMixed(op, cc, as("peer", pc))
	}
	t, at := cc.drv.table(), driver.At{Context: cc.raw}
	var res, already driver.Result
	var own *collection
	if on {
		res, own = cc.allocate(func() driver.Result { return t.CtxEnablePeerAccess(at, pc.raw, 0) })
		already = driver.ResultPeerAccessAlreadyEnabled
	} else {
		res, already = t.CtxDisablePeerAccess(at, pc.raw), driver.ResultPeerAccessNotEnabled
	}
	if res != driver.ResultSuccess && res != already {
		return own.explain(cc.callError(op, uintptr(pc.raw), res))
	}
	cc.peers.set(pc, on)
	return nil
}
