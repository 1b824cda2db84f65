package sim

import "github.com/purecu/purecu/driver"

// shareResource returns the share as a CUdevResource. The words for the driver contain the other fields. As on an
// H200, the resource of a whole device says since CUDA 13.0 how many multiprocessors a part of it has at least, and
// how many run one cluster. That of a part does not.
func (d *Driver) shareResource(s share) (r driver.DevResource) {
	if s.count > 0 {
		sm := driver.DevSmResource{SmCount: s.count}
		if v := d.devices[s.dev]; d.version >= 13000 && s == v.whole() {
			parts := v.Parts
			sm.MinSmPartitionSize, sm.SmCoscheduledAlignment = parts.Least, parts.Step
		}
		r.SetSM(sm)
		r[1], r[2], r[3], r[4] = uint64(s.dev), s.split, s.index, uint64(s.sets)
		r[5] = s.green << 1
		if s.left {
			r[5] |= 1
		}
	}
	return r
}

// shareOf is the reverse of shareResource.
func shareOf(r *driver.DevResource) (share, driver.Result) {
	n := r.SMCount()
	if n == 0 {
		return share{}, driver.ResultInvalidResourceType
	}
	return share{dev: int(r[1]), count: n, split: r[2], index: r[3], sets: uint32(r[4]), left: r[5]&1 != 0,
		green: r[5] >> 1}, ok
}

// whole returns the share that has all of a device.
func (v *device) whole() share { return share{dev: v.ordinal, count: uint32(v.Multiprocessors)} }

// gpuOf returns the device of a share, which C may have made up.
func (d *Driver) gpuOf(s share) (*device, driver.Result) {
	v, r := d.device(driver.Device(s.dev))
	if r != ok {
		r = driver.ResultInvalidResourceType
	}
	return v, r
}

// workQueuesOf returns the configuration of the work queues of a device.
func workQueuesOf(dev int) workQueues {
	return workQueues{
		Device: driver.Device(dev), WqConcurrencyLimit: connections,
		SharingScope: driver.CU_WORKQUEUE_SCOPE_DEVICE_CTX,
	}
}

// connections is how many work queues a device has here: CUDA_DEVICE_MAX_CONNECTIONS, which sets the
// number for NVIDIA's driver, changes nothing.
const connections = 8

// devResource returns the resource of one type, of a device or of a part of it.
func (d *Driver) devResource(typ int32, s share, q workQueues) (raw driver.DevResource, r driver.Result) {
	switch {
	case typ == driver.CU_DEV_RESOURCE_TYPE_SM:
		return d.shareResource(s), ok
	case typ == driver.CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG && d.version >= 13010:
		raw.SetWorkqueueConfig(q)
		return raw, ok
	}
	return raw, driver.ResultInvalidResourceType
}

// DeviceGetDevResource is cuDeviceGetDevResource.
func (d *Driver) DeviceGetDevResource(_ *driver.Thread, dev driver.Device, typ int32) (driver.DevResource, driver.Result) {
	defer d.mu.Unlock()
	v, r := d.aboutDevice("cuDeviceGetDevResource", dev)
	if r != ok {
		return driver.DevResource{}, r
	}
	return d.devResource(typ, v.whole(), workQueuesOf(v.ordinal))
}

// DevSmResourceSplitByCount is cuDevSmResourceSplitByCount. As on an H200, parts that are large enough for
// the largest clusters have the usual sizes, and flags that CUDA does not define change nothing. How
// many parts a GPU has room for depends on where its multiprocessors are: an H200 gave 15 parts of 8.
func (d *Driver) DevSmResourceSplitByCount(_ *driver.Thread, result []driver.DevResource, input driver.DevResource, flags, least uint32) (n uint32, rest driver.DevResource, r driver.Result) {
	defer d.mu.Unlock()
	room := uint32(len(result)) // a split that fails leaves the number as it is
	if r := d.begin("cuDevSmResourceSplitByCount"); r != ok {
		return room, rest, r
	}
	const both = driver.CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
		driver.CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE
	whole, r := shareOf(&input)
	var v *device
	if r == ok {
		v, r = d.gpuOf(whole)
	}
	switch {
	case r != ok:
		return room, rest, r
	case flags&both == both:
		return room, rest, driver.ResultInvalidValue
	case whole.split != 0, least > whole.count: // a part can be split only through a green context
		return room, rest, driver.ResultInvalidResourceConfiguration
	}
	if result != nil && room == 0 {
		return room, rest, driver.ResultInvalidValue
	}
	smallest, step := v.Parts.Least, v.Parts.Step
	if flags&driver.CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING != 0 {
		smallest, step = v.Parts.Fine, v.Parts.Fine
	}
	size := min(max((least+step-1)/step*step, smallest), whole.count)
	if n = whole.count / size; result == nil {
		return n, rest, ok
	}
	n = min(n, room)
	d.ids.split++
	for i := range n {
		result[i] = d.shareResource(whole.part(size, d.ids.split, uint64(i)))
	}
	rest = d.shareResource(whole.part(whole.count-n*size, d.ids.split, uint64(n)))
	return n, rest, ok
}

// part returns a part of the share.
func (s share) part(count uint32, split, index uint64) share {
	return share{dev: s.dev, count: count, split: split, index: index, green: s.green}
}

// DevResourceGenerateDesc is cuDevResourceGenerateDesc. Several shares must have sets of the same size,
// except for what a split has left, and come from the same green context, or from none. They may be
// parts of several splits, and a part may be there twice: as on an H200, the numbers of multiprocessors
// are added, up to those of the device. At most one resource is a configuration of work queues.
func (d *Driver) DevResourceGenerateDesc(_ *driver.Thread, resources []driver.DevResource) (driver.DevResourceDesc, driver.Result) {
	defer d.mu.Unlock()
	r := d.begin("cuDevResourceGenerateDesc")
	if r == ok && len(resources) == 0 {
		r = driver.ResultInvalidValue
	}
	var all share
	var queues *workQueues
	for i := range resources {
		if r != ok {
			break
		}
		if q, is := resources[i].WorkqueueConfig(); is && d.version >= 13010 {
			if queues != nil || q.WqConcurrencyLimit == 0 {
				r = driver.ResultInvalidResourceConfiguration
			}
			queues = &q
			continue
		}
		var s share
		var v *device
		if s, r = shareOf(&resources[i]); r == ok {
			v, r = d.gpuOf(s)
		}
		switch {
		case r != ok:
		case all.count == 0:
			all = s
		case s.dev != all.dev, s.green != all.green, s.sets != 0 && all.sets != 0 && s.sets != all.sets:
			r = driver.ResultInvalidResourceConfiguration
		default:
			all.count, all.sets = min(all.count+s.count, uint32(v.Multiprocessors)), max(all.sets, s.sets)
		}
	}
	switch {
	case r != ok:
		return 0, r
	case all.count == 0, queues != nil && int(queues.Device) != all.dev:
		return 0, driver.ResultInvalidResourceConfiguration
	}
	desc := resourceDescriptor{share{dev: all.dev, count: all.count}, workQueuesOf(all.dev)}
	if queues != nil {
		desc.queues = *queues
	}
	h := d.descriptors[desc]
	if h == 0 {
		if d.descriptors == nil {
			d.descriptors = make(map[resourceDescriptor]driver.DevResourceDesc)
		}
		h = driver.DevResourceDesc(d.objects.add(descriptorKind, &desc))
		d.descriptors[desc] = h
	}
	return h, ok
}

// GreenCtxCreate is cuGreenCtxCreate.
func (d *Driver) GreenCtxCreate(_ *driver.Thread, desc driver.DevResourceDesc, dev driver.Device, flags uint32) (driver.GreenCtx, driver.Result) {
	const name = "cuGreenCtxCreate"
	defer d.mu.Unlock()
	v, r := d.aboutDevice(name, dev)
	switch {
	case r != ok:
		return 0, r
	case flags != driver.CU_GREEN_CTX_DEFAULT_STREAM:
		return 0, driver.ResultInvalidValue
	}
	its := &resourceDescriptor{v.whole(), workQueuesOf(v.ordinal)}
	if desc != 0 { // else an H200 takes the whole device
		its, r = find[resourceDescriptor](d, name, descriptorKind, uintptr(desc))
	}
	switch {
	case r != ok: // an H200 reads there which device it is for
		return 0, driver.ResultInvalidDevice
	case its.dev != v.ordinal:
		return 0, driver.ResultInvalidDevice
	case d.lost != ok:
		return 0, d.lost
	}
	if r := d.retain(v); r != ok {
		return 0, r
	}
	v.greens++
	d.ids.context++
	g := &greenContext{id: d.ids.context, ctx: v.primary, share: its.share, queues: its.queues,
		hiddenStream: v.primary.newHiddenStream()}
	g.share.green = g.id
	g.handle = driver.GreenCtx(d.objects.add(greenKind, g))
	return g.handle, ok
}

// aboutGreen begins a call with a green context as an argument.
func (d *Driver) aboutGreen(name string, h driver.GreenCtx) (*greenContext, driver.Result) {
	g, r := about[greenContext](d, name, greenKind, uintptr(h))
	if r != ok {
		return nil, r
	}
	return g, d.live(g.ctx)
}

// streams returns the streams of the green context.
func (g *greenContext) streams() (list []*stream) {
	for _, s := range g.ctx.streams {
		if s.green == g {
			list = append(list, s)
		}
	}
	return list
}

// GreenCtxDestroy is cuGreenCtxDestroy. It waits for the work on the green context's streams.
// Afterwards these can only be destroyed.
func (d *Driver) GreenCtxDestroy(_ *driver.Thread, h driver.GreenCtx) driver.Result {
	defer d.mu.Unlock()
	g, r := d.aboutGreen("cuGreenCtxDestroy", h)
	switch {
	case g == nil:
		return r
	case g.destroyed:
		return driver.ResultInvalidContext
	}
	const name = "cuGreenCtxDestroy"
	v := g.ctx.dev
	g.destroyed = true
	waited := d.waitFor(name, uintptr(h), tails(g.streams())...)
	if waited != driver.ResultNotPermitted {
		waited = d.release(name, v)
	}
	if waited == driver.ResultNotPermitted {
		g.destroyed = false
		return waited
	}
	v.greens--
	for _, s := range g.streams() {
		if s.capture != nil && r == ok {
			d.abandon(s)
		}
	}
	d.objects.remove(uintptr(h))
	d.reclaim()
	return r
}

// GreenCtxGetDevResource is cuGreenCtxGetDevResource.
func (d *Driver) GreenCtxGetDevResource(_ *driver.Thread, h driver.GreenCtx, typ int32) (driver.DevResource, driver.Result) {
	defer d.mu.Unlock()
	g, r := d.aboutGreen("cuGreenCtxGetDevResource", h)
	if r != ok {
		return driver.DevResource{}, r
	}
	return d.devResource(typ, g.share, g.queues)
}

// GreenCtxStreamCreate is cuGreenCtxStreamCreate.
func (d *Driver) GreenCtxStreamCreate(_ *driver.Thread, h driver.GreenCtx, flags uint32, priority int32) (driver.Stream, driver.Result) {
	defer d.mu.Unlock()
	g, r := d.aboutGreen("cuGreenCtxStreamCreate", h)
	switch {
	case r != ok:
		return 0, r
	case flags != driver.CU_STREAM_NON_BLOCKING:
		return 0, driver.ResultInvalidValue
	}
	s := d.newStream(g.ctx, flags, priority)
	s.green = g
	return s.handle, ok
}

// greenEvent begins a call with a green context and an event as arguments. It is refused during a
// capture of one of the green context's streams.
func (d *Driver) greenEvent(name string, h driver.GreenCtx, eh driver.Event) (*greenContext, *event, driver.Result) {
	g, r := d.aboutGreen(name, h)
	if r != ok {
		return nil, nil, r
	}
	e, r := d.event(name, eh)
	if r == ok && e.flags&driver.CU_EVENT_INTERPROCESS != 0 {
		r = driver.ResultNotSupported // the behaviour of NVIDIA's driver is unknown
	}
	if r != ok {
		return nil, nil, r
	}
	for _, s := range g.streams() {
		if s.capture != nil {
			r = d.invalidate(s.capture, driver.ResultStreamCaptureUnsupported)
		}
	}
	return g, e, r
}

// GreenCtxRecordEvent is cuGreenCtxRecordEvent: the event stands for the present end of all streams
// of a green context.
func (d *Driver) GreenCtxRecordEvent(_ *driver.Thread, h driver.GreenCtx, eh driver.Event) driver.Result {
	g, e, r := d.greenEvent("cuGreenCtxRecordEvent", h, eh)
	defer d.mu.Unlock()
	switch {
	case r != ok:
		return r
	case e.ctx != g.ctx:
		return driver.ResultInvalidHandle
	}
	d.recordAll(g.hiddenStream, tails(g.streams()), e)
	return ok
}

// GreenCtxWaitEvent is cuGreenCtxWaitEvent: all later work of the green context waits for the
// event.
func (d *Driver) GreenCtxWaitEvent(_ *driver.Thread, h driver.GreenCtx, eh driver.Event) driver.Result {
	g, e, r := d.greenEvent("cuGreenCtxWaitEvent", h, eh)
	defer d.mu.Unlock()
	switch {
	case r != ok:
		return r
	case e.state == invalid:
		return driver.ResultInvalidValue
	case e.state == captured:
		return d.invalidate(e.capture, driver.ResultCapturedEvent)
	}
	if o := d.waitForEvent(g.hiddenStream, tails(g.streams()), e); o != nil {
		g.barrier = o
	}
	return ok
}

// StreamGetGreenCtx is cuStreamGetGreenCtx.
func (d *Driver) StreamGetGreenCtx(th *driver.Thread, h driver.Stream) (driver.GreenCtx, driver.Result) {
	defer d.mu.Unlock()
	s, t, r := d.onValidStream("cuStreamGetGreenCtx", th, h)
	if r != ok {
		return 0, r
	}
	if g := d.greenOf(t, s); g != nil {
		return g.handle, ok
	}
	return 0, ok
}

// greenOf returns the green context of a stream, for a default stream the current one, or nil.
func (d *Driver) greenOf(t *thread, s *stream) *greenContext {
	if s.green == nil && s.kind != createdStream {
		return t.top().green
	}
	return s.green
}

// CtxFromGreenCtx is cuCtxFromGreenCtx. The context has the green context's handle.
func (d *Driver) CtxFromGreenCtx(_ *driver.Thread, h driver.GreenCtx) (driver.Context, driver.Result) {
	defer d.mu.Unlock()
	g, r := d.aboutGreen("cuCtxFromGreenCtx", h)
	if r != ok {
		return 0, r
	}
	g.asked = true
	return driver.Context(g.handle), ok
}

// GreenCtxGetId is cuGreenCtxGetId.
func (d *Driver) GreenCtxGetId(_ *driver.Thread, h driver.GreenCtx) (uint64, driver.Result) {
	defer d.mu.Unlock()
	g, r := d.aboutGreen("cuGreenCtxGetId", h)
	if r != ok {
		return 0, r
	}
	return g.id, ok
}

// CtxGetDevResource is cuCtxGetDevResource.
func (d *Driver) CtxGetDevResource(_ *driver.Thread, h driver.Context, typ int32) (driver.DevResource, driver.Result) {
	defer d.mu.Unlock()
	c, r := d.aboutNamed("cuCtxGetDevResource", h)
	if r != ok {
		return driver.DevResource{}, r
	}
	dev := c.dev.ordinal
	of, queues := c.dev.whole(), workQueuesOf(dev)
	if c.green != nil {
		of, queues = c.green.share, c.green.queues
	}
	raw, r := d.devResource(typ, of, queues)
	if r == ok {
		r = d.live(c.context)
	}
	if r != ok {
		return driver.DevResource{}, r
	}
	return raw, ok
}
