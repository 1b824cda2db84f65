package fuzz

import (
	"bytes"
	"slices"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/descriptor"
)

// This file has devices and contexts, pools of devices, and green contexts. What a call changes it puts back, because
// later sequences have the same context.

// anyDevice returns the first device, or rarely none.
func (c *caller) anyDevice() driver.Device {
	dev := one[driver.Device](c, 0, 0, 0, 0, 99)
	c.say("device %d ", dev)
	return dev
}

// aboutDevice returns a call that asks a device for a value that does not depend on it.
func aboutDevice(name string, f func(c *caller, dev driver.Device) (uint64, driver.Result)) randomCall {
	return randomCall{name, func(c *caller) []uint64 {
		v, r := f(c, c.anyDevice())
		return answers(r, v)
	}}
}

// putBack returns a call that sets a value of the context, asks for it, and sets the old one.
func putBack(name string, values []int32, get func(c *caller) (int32, driver.Result),
	set func(c *caller, v int32) driver.Result) randomCall {
	return randomCall{name, func(c *caller) []uint64 {
		v := one(c, values...)
		c.say("%d", v)
		old, _ := get(c)
		r := set(c, v)
		now, q := get(c)
		return answers(r, uint64(q), uint64(uint32(now)), uint64(set(c, old)))
	}}
}

func cacheConfig(c *caller) (int32, driver.Result)  { return c.CtxGetCacheConfig(c.at) }
func sharedConfig(c *caller) (int32, driver.Result) { return c.CtxGetSharedMemConfig(c.at) }

// limitValue returns a value for a limit. Large values that a driver takes would take the memory of the other processes
// that make calls.
func (c *caller) limitValue(limit int32, old uint64) uint64 {
	switch limit {
	case driver.CU_LIMIT_STACK_SIZE:
		return one(c, old, 2*old, 0, 1, old-1, old+1, 4096, 1<<20, 1<<30, 1<<40)
	case driver.CU_LIMIT_PRINTF_FIFO_SIZE:
		return one(c, old, 2*old, 0, 1024, 512<<10, 1<<20, 1<<20+1, old-1, old+1)
	case driver.CU_LIMIT_MALLOC_HEAP_SIZE:
		return one(c, old, 2*old, 0, 1024, 4<<20, old-1, old+1, 12345678)
	case driver.CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
		return one(c, old, 2*old, 1024)
	}
	return 1024
}

var contextCalls = []randomCall{
	{"cuCtxGetCurrent", func(c *caller) []uint64 {
		ctx, r := c.CtxGetCurrent(c.at)
		return answers(r, uint64(boolean(ctx == c.ctx)))
	}},
	{"cuCtxGetDevice", func(c *caller) []uint64 {
		dev, r := c.CtxGetDevice(c.at)
		return answers(r, uint64(dev))
	}},
	{"cuCtxGetFlags", func(c *caller) []uint64 {
		flags, r := c.CtxGetFlags(c.at)
		// An H200 had set this flag in all processes that had instantiated graphs with kernels, and in no other.
		// Whether a launch or the kernel node alone is enough is not known.
		return answers(r, uint64(flags&^driver.CU_CTX_LMEM_RESIZE_TO_MAX))
	}},
	{"cuCtxGetApiVersion", func(c *caller) []uint64 {
		_, r := c.CtxGetApiVersion(c.at, c.ctx)
		return answers(r)
	}},
	{"cuCtxGetId", func(c *caller) []uint64 {
		id, r := c.CtxGetId(c.at, c.ctx)
		again, q := c.CtxGetId(c.at, 0) // of the current one
		return answers(r, uint64(q), uint64(boolean(id == again)))
	}},
	{"cuCtxGetStreamPriorityRange", func(c *caller) []uint64 {
		least, greatest, r := c.CtxGetStreamPriorityRange(c.at)
		return answers(r, uint64(uint32(least)), uint64(uint32(greatest)))
	}},
	{"cuCtxPushCurrent", func(c *caller) []uint64 {
		r := c.CtxPushCurrent(c.at, c.ctx)
		if r != ok {
			return answers(r)
		}
		ctx, q := c.CtxPopCurrent(c.at)
		return answers(r, uint64(q), uint64(boolean(ctx == c.ctx)))
	}},
	{"cuCtxPopCurrent", func(c *caller) []uint64 {
		ctx, r := c.CtxPopCurrent(c.at)
		_, q := c.CtxGetDevice(c.at)
		none, p := c.CtxGetCurrent(c.at)
		return answers(r, uint64(boolean(ctx == c.ctx)), uint64(q), uint64(p), uint64(boolean(none == 0)),
			uint64(c.CtxPushCurrent(c.at, c.ctx)))
	}},
	{"cuCtxSetCurrent", func(c *caller) []uint64 {
		r := c.CtxSetCurrent(c.at, one(c, c.ctx, 0))
		_, q := c.CtxGetDevice(c.at)
		return answers(r, uint64(q), uint64(c.CtxSetCurrent(c.at, c.ctx)))
	}},
	{"cuCtxSetLimit", func(c *caller) []uint64 {
		limit := one[int32](c, driver.CU_LIMIT_STACK_SIZE, driver.CU_LIMIT_STACK_SIZE, driver.CU_LIMIT_PRINTF_FIFO_SIZE,
			driver.CU_LIMIT_MALLOC_HEAP_SIZE, driver.CU_LIMIT_MAX_L2_FETCH_GRANULARITY,
			driver.CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 99, -1)
		old, r := c.CtxGetLimit(c.at, limit)
		v := c.limitValue(limit, old)
		c.say("%d, %d instead of %d", limit, v, old)
		if r != ok {
			return answers(r, uint64(c.CtxSetLimit(c.at, limit, v)))
		}
		r = c.CtxSetLimit(c.at, limit, v)
		now, q := c.CtxGetLimit(c.at, limit)
		return answers(r, uint64(q), now, uint64(c.CtxSetLimit(c.at, limit, old)))
	}},
	putBack("cuCtxSetCacheConfig", []int32{0, 1, 2, 3, 4, -1}, cacheConfig, func(c *caller, v int32) driver.Result {
		return c.CtxSetCacheConfig(c.at, v)
	}),
	putBack("cuCtxSetSharedMemConfig", []int32{0, 1, 2, 3}, sharedConfig, func(c *caller, v int32) driver.Result {
		return c.CtxSetSharedMemConfig(c.at, v)
	}),
	{"cuCtxGetCacheConfig", func(c *caller) []uint64 {
		v, r := cacheConfig(c)
		return answers(r, uint64(v))
	}},
	{"cuCtxGetSharedMemConfig", func(c *caller) []uint64 {
		v, r := sharedConfig(c)
		return answers(r, uint64(v))
	}},
	{"cuCtxResetPersistingL2Cache", func(c *caller) []uint64 { return answers(c.CtxResetPersistingL2Cache(c.at)) }},
	{"cuCtxSynchronize", func(c *caller) []uint64 { return answers(c.CtxSynchronize(c.at)) }},
	aboutDevice("cuDevicePrimaryCtxGetState", func(c *caller, dev driver.Device) (uint64, driver.Result) {
		_, active, r := c.DevicePrimaryCtxGetState(c.at, dev)
		return uint64(active), r
	}),
	aboutDevice("cuDevicePrimaryCtxRetain", func(c *caller, dev driver.Device) (uint64, driver.Result) {
		ctx, r := c.DevicePrimaryCtxRetain(c.at, dev)
		if r != ok {
			return 0, r
		}
		return uint64(c.DevicePrimaryCtxRelease(c.at, dev))<<1 | uint64(boolean(ctx == c.ctx)), r
	}),
	{"cuDevicePrimaryCtxRelease", func(c *caller) []uint64 { // of one more reference
		_, r := c.DevicePrimaryCtxRetain(c.at, 0)
		if r != ok {
			return noOperands
		}
		r = c.DevicePrimaryCtxRelease(c.at, 0)
		_, active, q := c.DevicePrimaryCtxGetState(c.at, 0)
		return answers(r, uint64(q), uint64(active))
	}},
}

var deviceCalls = []randomCall{
	{"cuDeviceGet", func(c *caller) []uint64 {
		i := one[int32](c, 0, 0, 99, -1)
		c.say("%d", i)
		dev, r := c.DeviceGet(c.at, i)
		return answers(r, uint64(dev))
	}},
	{"cuDeviceGetCount", func(c *caller) []uint64 {
		n, r := c.DeviceGetCount(c.at)
		return answers(r, uint64(boolean(n > 0)))
	}},
	aboutDevice("cuDeviceGetAttribute", func(c *caller, dev driver.Device) (uint64, driver.Result) {
		attr := one[int32](c, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 31, 40, 41, 81, 82, 83, 89, 115, 0, 9999)
		c.say("%d", attr)
		v, r := c.DeviceGetAttribute(c.at, attr, dev)
		return uint64(uint32(v)), r
	}),
	aboutDevice("cuDeviceGetName", func(c *caller, dev driver.Device) (uint64, driver.Result) {
		name := make([]byte, 100)
		r := c.DeviceGetName(c.at, name, dev)
		return uint64(boolean(bytes.IndexByte(name, 0) > 0)), r
	}),
	aboutDevice("cuDeviceTotalMem", func(c *caller, dev driver.Device) (uint64, driver.Result) {
		n, r := c.DeviceTotalMem(c.at, dev)
		return uint64(boolean(n > 1<<30)), r
	}),
	aboutDevice("cuDeviceGetUuid_v2", func(c *caller, dev driver.Device) (uint64, driver.Result) {
		id, r := c.DeviceGetUUID(c.at, dev)
		return uint64(boolean(id != driver.UUID{})), r
	}),
	aboutDevice("cuDeviceGetPCIBusId", func(c *caller, dev driver.Device) (uint64, driver.Result) {
		id := make([]byte, 13)
		r := c.DeviceGetPCIBusId(c.at, id, dev)
		return uint64(bytes.IndexByte(id, 0)), r
	}),
	{"cuDeviceGetByPCIBusId", func(c *caller) []uint64 {
		id := make([]byte, 13)
		if r := c.DeviceGetPCIBusId(c.at, id, 0); r != ok {
			return answers(r)
		}
		name := one(c, string(bytes.TrimRight(id, "\x00")), "ffff:ff:1f.0", "")
		c.say("%d", len(name))
		dev, r := c.DeviceGetByPCIBusId(c.at, name)
		return answers(r, uint64(dev))
	}},
	aboutDevice("cuDeviceCanAccessPeer", func(c *caller, dev driver.Device) (uint64, driver.Result) {
		can, r := c.DeviceCanAccessPeer(c.at, 0, dev)
		return uint64(can), r
	}),
	{"cuGetErrorName", func(c *caller) []uint64 {
		code := driver.Result(one(c, c.IntN(1000), c.IntN(8), 100+c.IntN(2), 200+c.IntN(20), 700+c.IntN(22)))
		c.say("%d", code)
		name, r := c.GetErrorName(c.at, code)
		return answers(r, text(name))
	}},
	{"cuGetErrorString", func(c *caller) []uint64 {
		code := driver.Result(one(c, c.IntN(8), 100+c.IntN(2), 200+c.IntN(20), 700+c.IntN(22)))
		c.say("%d", code)
		s, r := c.GetErrorString(c.at, code)
		return answers(r, uint64(boolean(s != ""))) // the driver's own words
	}},
	{"cuDriverGetVersion", func(c *caller) []uint64 {
		v, r := c.DriverGetVersion(c.at)
		return answers(r, uint64(boolean(v >= 11000)))
	}},
	{"cuMemGetInfo", func(c *caller) []uint64 {
		free, total, r := c.MemGetInfo(c.at)
		return answers(r, uint64(boolean(free <= total)))
	}},
	{"cuMemImportFromShareableHandle", func(c *caller) []uint64 {
		fd, r := c.memoryFile()
		if r != ok {
			return answers(r)
		}
		defer descriptor.Close(fd)
		typ := one[int32](c, 1, 1, 1, 0, 99)
		c.say("%d", typ)
		m, r := c.MemImportFromShareableHandle(c.at, driver.HostPtr(fd), typ)
		if r != ok {
			return answers(r)
		}
		return answers(r, uint64(c.MemRelease(c.at, m)))
	}},
}

// poolPlace returns a place that pools are for, most often the first device, and the type of the memory.
func (c *caller) poolPlace() (driver.MemLocation, int32) {
	at := driver.MemLocation{Type: one[int32](c, 1, 1, 1, 0), ID: one[int32](c, 0, 0, 0, 99)}
	typ := one[int32](c, 1, 1, 1, 0)
	c.say("%v, %d", at, typ)
	return at, typ
}

// isDefault reports whether a pool is the default one of the device.
func (c *caller) isDefault(p driver.MemoryPool) uint64 {
	d, _ := c.DeviceGetDefaultMemPool(c.at, 0)
	return uint64(boolean(p == d))
}

// setsPool sets the pool of the device, allocates memory from it, and puts the default one back.
func (c *caller) setsPool(set func(p driver.MemoryPool) driver.Result) []uint64 {
	i := some(c, c.pools)
	old, r := c.DeviceGetDefaultMemPool(c.at, 0)
	if i < 0 || r != ok {
		return noOperands
	}
	r = set(c.pools[i])
	now, q := c.DeviceGetMemPool(c.at, 0)
	p, s := c.MemAllocAsync(c.at, 512, 0)
	answer := answers(r, uint64(q), uint64(boolean(now == c.pools[i])), uint64(s))
	if s == ok {
		answer = append(answer, uint64(c.MemFreeAsync(c.at, p, 0)))
	}
	return append(answer, uint64(c.DeviceSetMemPool(c.at, 0, old)))
}

var devicePoolCalls = []randomCall{
	aboutDevice("cuDeviceGetDefaultMemPool", func(c *caller, dev driver.Device) (uint64, driver.Result) {
		p, r := c.DeviceGetDefaultMemPool(c.at, dev)
		return uint64(boolean(p != 0)), r
	}),
	aboutDevice("cuDeviceGetMemPool", func(c *caller, dev driver.Device) (uint64, driver.Result) {
		p, r := c.DeviceGetMemPool(c.at, dev)
		return c.isDefault(p), r
	}),
	{"cuDeviceSetMemPool", func(c *caller) []uint64 {
		return c.setsPool(func(p driver.MemoryPool) driver.Result { return c.DeviceSetMemPool(c.at, 0, p) })
	}},
	{"cuMemGetDefaultMemPool", func(c *caller) []uint64 {
		at, typ := c.poolPlace()
		p, r := c.MemGetDefaultMemPool(c.at, at, typ)
		return answers(r, c.isDefault(p))
	}},
	{"cuMemGetMemPool", func(c *caller) []uint64 {
		at, typ := c.poolPlace()
		p, r := c.MemGetMemPool(c.at, at, typ)
		return answers(r, c.isDefault(p))
	}},
	{"cuMemSetMemPool", func(c *caller) []uint64 {
		return c.setsPool(func(p driver.MemoryPool) driver.Result {
			return c.MemSetMemPool(c.at, driver.MemLocation{Type: 1}, driver.CU_MEM_ALLOCATION_TYPE_PINNED, p)
		})
	}},
	{"cuMemPoolSetAccess", func(c *caller) []uint64 {
		i := some(c, c.pools)
		if i < 0 {
			return noOperands
		}
		d := driver.MemAccessDesc{Location: driver.MemLocation{Type: one[int32](c, 1, 1, 1, 0),
			ID: one[int32](c, 0, 0, 0, 99)}, Flags: one[int32](c, 3, 3, 3, 0, 1, 2)}
		c.say("%v", d)
		r := c.MemPoolSetAccess(c.at, c.pools[i], []driver.MemAccessDesc{d})
		flags, q := c.MemPoolGetAccess(c.at, c.pools[i], driver.MemLocation{Type: 1})
		return answers(r, uint64(q), uint64(flags))
	}},
}

// contextsTopic is about devices and contexts, and devicePoolsTopic about pools.
var (
	contextsTopic = callTopic{
		[]randomCall{large, attributeCalls[0]},
		slices.Concat(contextCalls, deviceCalls),
	}
	devicePoolsTopic = callTopic{
		[]randomCall{poolCalls[0], poolCalls[0], attributeCalls[0]},
		slices.Concat(devicePoolCalls, devicePoolCalls, poolCalls, poolCalls[:1], memoryCalls[5:9]),
	}
)
