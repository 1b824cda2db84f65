package cu

import "github.com/purecu/purecu/driver"

// This file counts the imports of pools, and the openings of their memory. All imports of a pool have
// one handle, and all openings of memory have one address. One call ends all openings, and perhaps also
// all imports: no driver has shown whether it counts those.
//
// The pool is destroyed by the MemPool that is closed last. The memory is freed by the DeviceMem that is
// closed last, after the work of all. That may be long after its Close. If the memory is opened again
// meanwhile, it is not freed.

// imports are the imported pools.
type imports struct{ handleUses[importedPool] }

// importedPool is a pool that MemPools have imported. imports.mu guards it.
type importedPool struct{ open int }

// get calls ask, which imports a pool.
func (i *imports) get(ask func() (driver.MemoryPool, driver.Result)) (raw driver.MemoryPool, res driver.Result) {
	res = i.handleUses.get(func() (h uint64, res driver.Result) {
		raw, res = ask()
		return uint64(raw), res
	}, func(x *importedPool) { x.open++ })
	return raw, res
}

// leave ends one use of a pool. If it was the last one, the caller destroys the pool, and calls end
// afterwards. Otherwise end is nil.
func (i *imports) leave(raw driver.MemoryPool) (end func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	x := i.at[uint64(raw)]
	if x.open--; x.open > 0 {
		return nil
	}
	return i.beginEnd(uint64(raw))
}

// openings are the memory of imported pools that is open.
type openings struct{ handleUses[openedMemory] }

// openedMemory is memory that DeviceMems have opened at one address. openings.mu guards it.
type openedMemory struct {
	open int // the number of DeviceMems that are not closed
	// last is the memory that frees it, if open is 0.
	last *memCore
	// used are the streams on which closed DeviceMems have used the memory.
	used streamSet
}

// open opens the memory that data of its exporter names. The caller has a call in flight on the pool.
func (o *openings) open(mc *memCore, data driver.MemPoolPtrExportData) driver.Result {
	res := o.get(func() (h uint64, res driver.Result) {
		pool, at := mc.pool.(*memPoolCore).raw, driver.At{Context: mc.ctx.raw}
		mc.raw, res = mc.ctx.drv.table().MemPoolImportPointer(at, pool, data)
		return uint64(mc.raw), res
	}, func(x *openedMemory) {
		x.open++
		x.last, mc.opening = nil, &countedOpening{
			leave:     func() (last bool) { return x.leave(mc) },
			beginFree: func() (end func(), may bool) { return x.beginFree(mc) },
		}
	})
	if res == driver.ResultSuccess {
		observeOpened(mc, struct {
			pool driver.MemoryPool
			data driver.MemPoolPtrExportData
		}{mc.pool.(*memPoolCore).raw, data})
	}
	return res
}

func (x *openedMemory) leave(mc *memCore) (last bool) {
	if !mc.left {
		mc.observeGone()
	}
	o := stateOf[openings](mc.ctx.drv)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !mc.left {
		mc.left = true
		x.used.noteAll(mc.usedStreams)
		if x.open--; x.open == 0 {
			mc.usedStreams.noteAll(&x.used)
			x.last = mc
		}
	}
	return x.last == mc
}

func (x *openedMemory) beginFree(mc *memCore) (end func(), may bool) {
	o := stateOf[openings](mc.ctx.drv)
	o.mu.Lock()
	defer o.mu.Unlock()
	if x.last != mc || o.at[uint64(mc.raw)] != x {
		return func() {}, false
	}
	return o.beginEnd(uint64(mc.raw)), true
}
