package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/code"
)

// This file has the configuration of contexts, and functions of profilers, which do nothing.

// ProfilerStart is cuProfilerStart. There is no profiler, so it does nothing.
func (d *Driver) ProfilerStart(th *driver.Thread) driver.Result {
	return d.profile("cuProfilerStart", th)
}

// ProfilerStop is cuProfilerStop.
func (d *Driver) ProfilerStop(th *driver.Thread) driver.Result {
	return d.profile("cuProfilerStop", th)
}

// profile is for both functions.
func (d *Driver) profile(op string, th *driver.Thread) driver.Result {
	defer d.mu.Unlock()
	_, r := d.changing(op, th)
	return r
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
	p.Param.SmCount().Val = code.Multiprocessors
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
