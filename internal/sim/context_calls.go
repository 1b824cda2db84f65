package sim

import (
	"math"
	"slices"

	"github.com/purecu/purecu/driver"
)

// end destroys a context after all its work. If the wait would never end, it returns an error. The
// driver is unlocked during the wait. The caller calls reclaim at its end.
func (d *Driver) end(name string, c *context) driver.Result {
	c.leaving = true
	if r := d.waitAll(name, uintptr(c.handle), c, math.MaxUint64); r == driver.ResultNotPermitted {
		c.leaving = false
		return r
	}
	c.destroyed = true
	// Streams that were destroyed after an error are still part of their captures.
	for _, other := range slices.Clone(d.captures) {
		if slices.ContainsFunc(other.streams, func(s *stream) bool { return s.ctx == c }) {
			d.finish(other)
		}
	}
	for _, s := range c.streams {
		if s.owner != nil {
			delete(s.owner.own, c)
		}
	}
	for i, other := range c.dev.contexts {
		if other == c {
			c.dev.contexts = append(c.dev.contexts[:i:i], c.dev.contexts[i+1:]...)
		}
	}
	d.freeMemoryOf(name, c)
	c.heap, c.workspaces = nil, nil
	for _, m := range c.imported {
		d.space.discard(m.file)
	}
	c.imported = nil
	d.leaveObjects(c)
	c.dev.give(contextMemory)
	if len(c.dev.contexts) == 0 {
		c.dev.endAccount(&d.engine.Clock)
	}
	return ok
}

// DevicePrimaryCtxRetain is cuDevicePrimaryCtxRetain.
func (d *Driver) DevicePrimaryCtxRetain(_ *driver.Thread, dev driver.Device) (driver.Context, driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDevicePrimaryCtxRetain", dev)
	if r == ok {
		r = d.retain(v)
	}
	if r != ok {
		return 0, r
	}
	return v.primary.handle, ok
}

// retain retains a device's primary context, and creates it if necessary.
func (d *Driver) retain(v *device) driver.Result {
	switch {
	case !v.active() && d.lost != ok:
		return d.lost // no context can be created after a sticky error
	case !v.active() && !v.hasRoom():
		return driver.ResultOutOfMemory
	case !v.active():
		v.primary = d.newContext(v, v.flags, true)
	}
	v.retained++
	return ok
}

// release releases a device's primary context. The last release waits for all work.
func (d *Driver) release(name string, v *device) (r driver.Result) {
	if v.retained--; v.retained == 0 && v.active() {
		if r = d.end(name, v.primary); r != ok {
			v.retained++
		}
	}
	return r
}

// DevicePrimaryCtxRelease is cuDevicePrimaryCtxRelease_v2.
func (d *Driver) DevicePrimaryCtxRelease(_ *driver.Thread, dev driver.Device) driver.Result {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDevicePrimaryCtxRelease", dev)
	if r != ok {
		return r
	}
	switch {
	case v.retained == 0:
		return driver.ResultInvalidContext
	case v.retained == v.greens: // only green contexts use it
		return driver.ResultNotPermitted
	}
	r = d.release("cuDevicePrimaryCtxRelease", v)
	d.reclaim()
	return r
}

// DevicePrimaryCtxReset is cuDevicePrimaryCtxReset_v2. It does not release the context for those
// who have retained it.
func (d *Driver) DevicePrimaryCtxReset(_ *driver.Thread, dev driver.Device) driver.Result {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDevicePrimaryCtxReset", dev)
	if r != ok {
		return r
	}
	if v.greens > 0 {
		return driver.ResultNotPermitted
	}
	if v.active() {
		if r := d.end("cuDevicePrimaryCtxReset", v.primary); r != ok {
			return r
		}
	}
	v.flags = 0
	d.reclaim()
	return ok
}

// DevicePrimaryCtxGetState is cuDevicePrimaryCtxGetState.
func (d *Driver) DevicePrimaryCtxGetState(_ *driver.Thread, dev driver.Device) (uint32, int32, driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDevicePrimaryCtxGetState", dev)
	if r != ok {
		return 0, 0, r
	}
	if v.active() {
		return v.flags, 1, ok
	}
	return v.flags, 0, ok
}

// DevicePrimaryCtxSetFlags is cuDevicePrimaryCtxSetFlags_v2.
func (d *Driver) DevicePrimaryCtxSetFlags(_ *driver.Thread, dev driver.Device, flags uint32) driver.Result {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDevicePrimaryCtxSetFlags", dev)
	if r != ok {
		return r
	}
	if r := contextFlags(flags); r != ok {
		return r
	}
	v.flags = flags
	if v.active() {
		v.primary.flags = flags
	}
	return ok
}

// CtxCreate is cuCtxCreate_v4. It supports no affinity, as drivers without MPS, and no sharing with graphics.
func (d *Driver) CtxCreate(th *driver.Thread, params *driver.CtxCreateParams, flags uint32,
	dev driver.Device) (driver.Context, driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuCtxCreate", dev)
	switch {
	case r != ok:
		return 0, r
	case params != nil && params.NumExecAffinityParams > 0 && params.ExecAffinityParams != nil: // before the flags
		return 0, driver.ResultUnsupportedExecAffinity
	case contextFlags(flags) != ok:
		return 0, driver.ResultInvalidValue
	case d.lost != ok:
		return 0, d.lost
	case params != nil && (params.CigParams != nil || params.NumExecAffinityParams > 0):
		return 0, driver.ResultInvalidValue
	case !v.hasRoom():
		return 0, driver.ResultOutOfMemory
	}
	c := d.newContext(v, flags, false)
	t := d.thread(th)
	if th != nil {
		t.stack = append(t.stack, namedContext{context: c})
	}
	return c.handle, ok
}

// CtxCreateV2 is cuCtxCreate_v2.
func (d *Driver) CtxCreateV2(th *driver.Thread, flags uint32, dev driver.Device) (driver.Context, driver.Result) {
	return d.CtxCreate(th, nil, flags, dev)
}

// CtxDestroy is cuCtxDestroy_v2.
func (d *Driver) CtxDestroy(th *driver.Thread, ctx driver.Context) driver.Result {
	defer d.mu.Unlock()
	c, r := d.aboutContext("cuCtxDestroy", ctx)
	if r == driver.ResultInvalidContext && ctx == 0 {
		r = driver.ResultInvalidValue
	}
	if r != ok {
		return r
	}
	if c.primary || c.destroyed || c.leaving {
		return driver.ResultInvalidContext
	}
	t := d.thread(th)
	current := t.current() == c
	if r := d.end("cuCtxDestroy", c); r != ok {
		return r
	}
	if current && t.current() == c {
		t.stack = t.stack[:len(t.stack)-1]
	}
	if d.lost == ok { // after a sticky error, an H200 still knows the handle
		d.objects.remove(uintptr(c.handle))
	}
	d.reclaim()
	return ok
}

// CtxGetDevice is cuCtxGetDevice.
func (d *Driver) CtxGetDevice(th *driver.Thread) (driver.Device, driver.Result) {
	defer d.mu.Unlock()
	c, _, r := d.inContext("cuCtxGetDevice", th)
	if c == nil { // other errors of the context do not matter
		return 0, r
	}
	return driver.Device(c.dev.ordinal), ok
}

// CtxGetFlags is cuCtxGetFlags.
func (d *Driver) CtxGetFlags(th *driver.Thread) (uint32, driver.Result) {
	defer d.mu.Unlock()
	c, _, r := d.inContext("cuCtxGetFlags", th)
	if c == nil { // an H200 returns the flags even after a sticky error, and of a context that was destroyed
		return 0, r
	}
	if c.primary {
		return c.flags | driver.CU_CTX_MAP_HOST, ok
	}
	return c.flags, ok
}

// CtxSetFlags is cuCtxSetFlags.
func (d *Driver) CtxSetFlags(th *driver.Thread, flags uint32) driver.Result {
	defer d.mu.Unlock()
	c, _, r := d.inContext("cuCtxSetFlags", th)
	if r == ok {
		r = contextFlags(flags)
	}
	if r == ok {
		c.flags = flags
	}
	return r
}

// CtxSynchronize is cuCtxSynchronize.
func (d *Driver) CtxSynchronize(th *driver.Thread) driver.Result {
	defer d.mu.Unlock()
	c, t, r := d.inContext("cuCtxSynchronize", th)
	if r == ok {
		r = d.forbidden(t, c)
	}
	if r != ok {
		return r
	}
	if r = d.drain("cuCtxSynchronize", uintptr(c.handle), c); r == ok {
		d.synchronized(c.dev)
	}
	return r
}

// CtxGetStreamPriorityRange is cuCtxGetStreamPriorityRange.
func (d *Driver) CtxGetStreamPriorityRange(th *driver.Thread) (int32, int32, driver.Result) {
	defer d.mu.Unlock()
	_, _, r := d.inContext("cuCtxGetStreamPriorityRange", th)
	return leastPriority, greatestPriority, r
}

// CtxGetApiVersion is cuCtxGetApiVersion.
func (d *Driver) CtxGetApiVersion(th *driver.Thread, ctx driver.Context) (version uint32, r driver.Result) {
	const name, first = "cuCtxGetApiVersion", 3020
	defer d.mu.Unlock()
	if ctx == 0 { // the current one
		_, _, r = d.inContext(name, th)
		return first, r
	}
	if _, r = d.aboutContext(name, ctx); r == driver.ResultContextIsDestroyed {
		r = driver.ResultInvalidContext
	}
	return first, r
}

// CtxGetId is cuCtxGetId.
func (d *Driver) CtxGetId(th *driver.Thread, ctx driver.Context) (uint64, driver.Result) {
	defer d.mu.Unlock()
	if ctx == 0 {
		_, t, r := d.inContext("cuCtxGetId", th)
		if r != ok {
			return 0, r
		}
		return t.top().number(), ok
	}
	c, r := d.aboutNamed("cuCtxGetId", ctx)
	if r != ok {
		return 0, r
	}
	if c.destroyed {
		return 0, driver.ResultContextIsDestroyed
	}
	return c.number(), ok
}

// peer begins a call with another context as an argument.
func (d *Driver) peer(name string, th *driver.Thread, peer driver.Context) (c, p *context, r driver.Result) {
	if c, _, r = d.inContext(name, th); r != ok {
		return nil, nil, r
	}
	if p, r = find[context](d, name, contextKind, uintptr(peer)); r == ok && p.destroyed {
		r = driver.ResultContextIsDestroyed
	}
	return c, p, r
}

// CtxEnablePeerAccess is cuCtxEnablePeerAccess.
func (d *Driver) CtxEnablePeerAccess(th *driver.Thread, peer driver.Context, flags uint32) driver.Result {
	defer d.mu.Unlock()
	c, p, r := d.peer("cuCtxEnablePeerAccess", th, peer)
	switch {
	case r != ok:
		return r
	case flags != 0:
		return driver.ResultInvalidValue
	case p.dev == c.dev, !c.dev.reaches(p.dev):
		return driver.ResultPeerAccessUnsupported
	case c.peers[p]:
		return driver.ResultPeerAccessAlreadyEnabled
	}
	if r := d.forbidden(d.thread(th), nil); r != ok {
		return r
	}
	if c.peers == nil {
		c.peers = make(map[*context]bool)
	}
	c.peers[p] = true
	return ok
}

// CtxDisablePeerAccess is cuCtxDisablePeerAccess.
func (d *Driver) CtxDisablePeerAccess(th *driver.Thread, peer driver.Context) driver.Result {
	defer d.mu.Unlock()
	c, p, r := d.peer("cuCtxDisablePeerAccess", th, peer)
	if r == ok {
		r = d.forbidden(d.thread(th), nil)
	}
	switch {
	case r != ok:
		return r
	case !c.peers[p]:
		return driver.ResultPeerAccessNotEnabled
	}
	delete(c.peers, p)
	return ok
}

// ProfilerStart is cuProfilerStart. There is no profiler, so it does nothing.
func (d *Driver) ProfilerStart(th *driver.Thread) driver.Result {
	return d.profile("cuProfilerStart", th)
}

// ProfilerStop is cuProfilerStop.
func (d *Driver) ProfilerStop(th *driver.Thread) driver.Result {
	return d.profile("cuProfilerStop", th)
}

// profile is for both functions.
func (d *Driver) profile(name string, th *driver.Thread) driver.Result {
	defer d.mu.Unlock()
	_, r := d.changing(name, th)
	return r
}

// CtxGetExecAffinity is cuCtxGetExecAffinity.
func (d *Driver) CtxGetExecAffinity(th *driver.Thread, typ int32) (p driver.ExecAffinityParam, r driver.Result) {
	defer d.mu.Unlock()
	c, t, r := d.inContext("cuCtxGetExecAffinity", th)
	switch {
	case r != ok:
		return p, r
	case typ != driver.CU_EXEC_AFFINITY_TYPE_SM_COUNT:
		return p, driver.ResultUnsupportedExecAffinity
	case t.top().green != nil:
		return p, driver.ResultInvalidContext
	}
	p.Param.SmCount().Val = uint32(c.dev.Multiprocessors)
	return p, ok
}

// CtxCreateV3 is cuCtxCreate_v3.
func (d *Driver) CtxCreateV3(th *driver.Thread, params []driver.ExecAffinityParam, flags uint32,
	dev driver.Device) (driver.Context, driver.Result) {
	var p driver.CtxCreateParams
	if len(params) > 0 {
		p.ExecAffinityParams, p.NumExecAffinityParams = &params[0], int32(len(params))
	}
	return d.CtxCreate(th, &p, flags, dev)
}

// DeviceGetExecAffinitySupport is cuDeviceGetExecAffinitySupport: there is none, as without MPS.
func (d *Driver) DeviceGetExecAffinitySupport(_ *driver.Thread, _ int32, dev driver.Device) (int32, driver.Result) {
	defer d.mu.Unlock()
	_, r := d.aboutDevice("cuDeviceGetExecAffinitySupport", dev)
	return 0, r
}

// CtxGetCacheConfig is cuCtxGetCacheConfig.
func (d *Driver) CtxGetCacheConfig(th *driver.Thread) (int32, driver.Result) {
	defer d.mu.Unlock()
	c, _, r := d.inContext("cuCtxGetCacheConfig", th)
	if r != ok {
		return 0, r
	}
	return c.cacheConfig, ok
}

// CtxSetCacheConfig is cuCtxSetCacheConfig. It changes the occupancy of kernels without a configuration
// of their own.
func (d *Driver) CtxSetCacheConfig(th *driver.Thread, config int32) driver.Result {
	defer d.mu.Unlock()
	c, r := d.changing("cuCtxSetCacheConfig", th)
	switch {
	case r != ok:
		return r
	case config < 0 || config > driver.CU_FUNC_CACHE_PREFER_EQUAL:
		return driver.ResultInvalidValue
	}
	c.cacheConfig = config
	return ok
}

// CtxGetSharedMemConfig is cuCtxGetSharedMemConfig: banks of 4 bytes.
func (d *Driver) CtxGetSharedMemConfig(th *driver.Thread) (int32, driver.Result) {
	defer d.mu.Unlock()
	_, _, r := d.inContext("cuCtxGetSharedMemConfig", th)
	if r != ok {
		return 0, r
	}
	return 1, ok
}

// CtxSetSharedMemConfig is cuCtxSetSharedMemConfig, which has no effect on an H200 either.
func (d *Driver) CtxSetSharedMemConfig(th *driver.Thread, config int32) driver.Result {
	defer d.mu.Unlock()
	_, r := d.changing("cuCtxSetSharedMemConfig", th)
	if r == ok && (config < 0 || config > driver.CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE) {
		r = driver.ResultInvalidValue
	}
	return r
}

// hasRoom reports whether the device has memory for one more context.
func (v *device) hasRoom() bool { return v.free() >= contextMemory }

// newContext creates a context. The device has memory for it.
func (d *Driver) newContext(dev *device, flags uint32, primary bool) *context {
	d.ids.context++
	c := &context{id: d.ids.context, dev: dev, flags: flags, primary: primary}
	c.pending.Load = &dev.load
	if primary && dev.primary != nil {
		// A new primary context has the handle of the old one.
		c.handle = dev.primary.handle
		_, p := d.objects.find(uintptr(c.handle))
		p.object, p.created = c, stack()
	} else {
		c.handle = driver.Context(d.objects.add(contextKind, c))
	}
	c.hiddenStream = c.newHiddenStream()
	c.legacy = c.bind(&stream{kind: legacyStream})
	c.legacy.handle = driver.CU_STREAM_LEGACY
	d.ids.stream++
	c.legacy.id = d.ids.stream
	c.streams = append(c.streams, c.legacy)
	dev.contexts = append(dev.contexts, c)
	d.tellOthers(dev)
	if len(dev.contexts) == 1 {
		dev.beginAccount(&d.engine.Clock)
	}
	dev.take(contextMemory)
	return c
}

// contextFlags checks the flags of a context.
func contextFlags(flags uint32) driver.Result {
	sched := flags & driver.CU_CTX_SCHED_MASK
	if flags&^uint32(driver.CU_CTX_FLAGS_MASK) != 0 || sched&(sched-1) != 0 {
		return driver.ResultInvalidValue
	}
	return ok
}
