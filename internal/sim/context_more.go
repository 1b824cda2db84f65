package sim

import (
	"math/bits"

	"github.com/purecu/purecu/driver"
)

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
	of, queues := share{dev: dev, count: multiprocessors}, workQueuesOf(dev)
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

// ProfilerStart is cuProfilerStart. There is no profiler, so it does nothing. What NVIDIA's driver
// returns without a current context is unknown.
func (d *Driver) ProfilerStart(*driver.Thread) driver.Result {
	defer d.mu.Unlock()
	return d.begin("cuProfilerStart")
}

// ProfilerStop is cuProfilerStop.
func (d *Driver) ProfilerStop(*driver.Thread) driver.Result {
	defer d.mu.Unlock()
	return d.begin("cuProfilerStop")
}

// CtxGetExecAffinity is cuCtxGetExecAffinity.
func (d *Driver) CtxGetExecAffinity(th *driver.Thread, typ int32) (p driver.ExecAffinityParam, r driver.Result) {
	defer d.mu.Unlock()
	_, t, r := d.inContext("cuCtxGetExecAffinity", th)
	switch {
	case r != ok:
		return p, r
	case typ != driver.CU_EXEC_AFFINITY_TYPE_SM_COUNT:
		return p, driver.ResultUnsupportedExecAffinity
	case t.top().green != nil:
		return p, driver.ResultInvalidContext
	}
	p.Param.SmCount().Val = multiprocessors
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

// CtxSetCacheConfig is cuCtxSetCacheConfig. It has no effect but on cuCtxGetCacheConfig.
func (d *Driver) CtxSetCacheConfig(th *driver.Thread, config int32) driver.Result {
	defer d.mu.Unlock()
	c, _, r := d.inContext("cuCtxSetCacheConfig", th)
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
	_, _, r := d.inContext("cuCtxSetSharedMemConfig", th)
	if r == ok && (config < 0 || config > driver.CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE) {
		r = driver.ResultInvalidValue
	}
	return r
}

// DeviceGetLuid is cuDeviceGetLuid, which exists on Windows only.
func (d *Driver) DeviceGetLuid(_ *driver.Thread, dev driver.Device) (luid [8]byte, mask uint32, r driver.Result) {
	defer d.mu.Unlock()
	if _, r = d.aboutDevice("cuDeviceGetLuid", dev); r == ok {
		r = driver.ResultNotSupported
	}
	return luid, 0, r
}

// DeviceGetHostAtomicCapabilities is cuDeviceGetHostAtomicCapabilities: there are none over PCIe.
func (d *Driver) DeviceGetHostAtomicCapabilities(_ *driver.Thread, capabilities []uint32, operations []int32,
	dev driver.Device) driver.Result {
	defer d.mu.Unlock()
	_, r := d.aboutDevice("cuDeviceGetHostAtomicCapabilities", dev)
	if r == ok && (len(operations) == 0 || len(capabilities) != len(operations)) {
		r = driver.ResultInvalidValue
	}
	for _, o := range operations {
		if r == ok && (o < 0 || o > driver.CU_ATOMIC_OPERATION_FLOAT_MAX) {
			r = driver.ResultInvalidValue
		}
	}
	if r == ok {
		clear(capabilities)
	}
	return r
}

// DeviceGetTexture1DLinearMaxWidth is cuDeviceGetTexture1DLinearMaxWidth: 4 GiB of texels, but at most
// 1<<30 of them.
func (d *Driver) DeviceGetTexture1DLinearMaxWidth(_ *driver.Thread, format int32, channels uint32,
	dev driver.Device) (uint64, driver.Result) {
	defer d.mu.Unlock()
	if _, r := d.aboutDevice("cuDeviceGetTexture1DLinearMaxWidth", dev); r != ok {
		return 0, r
	}
	size := uint64(0)
	switch format {
	case driver.CU_AD_FORMAT_UNSIGNED_INT8, driver.CU_AD_FORMAT_SIGNED_INT8:
		size = 1
	case driver.CU_AD_FORMAT_UNSIGNED_INT16, driver.CU_AD_FORMAT_SIGNED_INT16, driver.CU_AD_FORMAT_HALF:
		size = 2
	case driver.CU_AD_FORMAT_UNSIGNED_INT32, driver.CU_AD_FORMAT_SIGNED_INT32, driver.CU_AD_FORMAT_FLOAT:
		size = 4
	}
	if size == 0 || channels > 4 || bits.OnesCount32(channels) != 1 {
		return 0, driver.ResultInvalidValue
	}
	return min(1<<32/(size*uint64(channels)), 1<<30), ok
}

// DeviceGetProperties is cuDeviceGetProperties.
func (d *Driver) DeviceGetProperties(_ *driver.Thread, dev driver.Device) (p driver.Devprop, r driver.Result) {
	defer d.mu.Unlock()
	if _, r = d.aboutDevice("cuDeviceGetProperties", dev); r != ok {
		return p, r
	}
	a := attributes
	return driver.Devprop{
		MaxThreadsPerBlock: a[driver.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
		MaxThreadsDim: [3]int32{a[driver.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X],
			a[driver.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y],
			a[driver.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z]},
		MaxGridSize: [3]int32{a[driver.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X],
			a[driver.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y],
			a[driver.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z]},
		SharedMemPerBlock:   a[driver.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK],
		TotalConstantMemory: a[driver.CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY],
		SIMDWidth:           a[driver.CU_DEVICE_ATTRIBUTE_WARP_SIZE],
		MemPitch:            a[driver.CU_DEVICE_ATTRIBUTE_MAX_PITCH],
		RegsPerBlock:        a[driver.CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK],
		ClockRate:           a[driver.CU_DEVICE_ATTRIBUTE_CLOCK_RATE],
		TextureAlign:        a[driver.CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT],
	}, ok
}
