// Package poolimport counts the imports of pools of other processes, and the openings of their memory. All imports of a
// pool have one handle, and all openings of memory have one address. One call ends all openings, and perhaps also all
// imports: no driver has shown whether it counts those.
//
// The pool is destroyed by the memory.Pool that is closed last. The memory is freed by the DeviceMem that is closed
// last, after the work of all. That may be long after its Close. If the memory is opened again meanwhile, it is not
// freed.
package poolimport

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/memstate"
)

// Pools are the imported pools of a Driver.
type Pools struct{ handleUses[importedPool] }

// importedPool is a pool that values of memory.Pool have imported. Pools.mu guards it.
type importedPool struct{ open int }

// Get calls ask, which imports a pool.
func (p *Pools) Get(ask func() (driver.MemoryPool, driver.Result)) (raw driver.MemoryPool, res driver.Result) {
	res = p.handleUses.get(func() (h uint64, res driver.Result) {
		raw, res = ask()
		return uint64(raw), res
	}, func(x *importedPool) { x.open++ })
	return raw, res
}

// Leave ends one use of a pool. If it was the last one, the caller destroys the pool, and calls end
// afterwards. Otherwise end is nil.
func (p *Pools) Leave(raw driver.MemoryPool) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.at[uint64(raw)]
	if x.open--; x.open > 0 {
		return nil
	}
	return p.beginEnd(uint64(raw))
}

// Memory is the open memory of a Driver's imported pools.
type Memory struct{ handleUses[openedMemory] }

// openedMemory is memory that DeviceMems have opened at one address. Memory.mu guards it.
type openedMemory struct {
	open int // the number of DeviceMems that are not closed
	// last is the memory that frees it, if open is 0.
	last *memstate.Mem
	// used are the streams on which closed DeviceMems have used the memory.
	used core.StreamSet
}

// Open opens the memory that data of its exporter names. The caller has a call in flight on the pool.
func (o *Memory) Open(mc *memstate.Mem, data driver.MemPoolPtrExportData) driver.Result {
	res := o.get(func() (h uint64, res driver.Result) {
		pool, at := mc.Pool.(*memstate.Pool).Raw, driver.At{Context: mc.Ctx.Raw}
		mc.Raw, res = mc.Ctx.Drv.Table().MemPoolImportPointer(at, pool, data)
		return uint64(mc.Raw), res
	}, func(x *openedMemory) {
		x.open++
		x.last, mc.Opening = nil, &memstate.CountedOpening{
			Leave:     func() (last bool) { return x.leave(mc) },
			BeginFree: func() (end func(), may bool) { return x.beginFree(mc) },
		}
	})
	if res == driver.ResultSuccess {
		memstate.ObserveOpened(mc, struct {
			pool driver.MemoryPool
			data driver.MemPoolPtrExportData
		}{mc.Pool.(*memstate.Pool).Raw, data})
	}
	return res
}

func (x *openedMemory) leave(mc *memstate.Mem) (last bool) {
	if !mc.Left {
		mc.ObserveGone()
	}
	o := core.StateOf[Memory](mc.Ctx.Drv)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !mc.Left {
		mc.Left = true
		x.used.NoteAll(mc.UsedStreams)
		if x.open--; x.open == 0 {
			mc.UsedStreams.NoteAll(&x.used)
			x.last = mc
		}
	}
	return x.last == mc
}

func (x *openedMemory) beginFree(mc *memstate.Mem) (end func(), may bool) {
	o := core.StateOf[Memory](mc.Ctx.Drv)
	o.mu.Lock()
	defer o.mu.Unlock()
	if x.last != mc || o.at[uint64(mc.Raw)] != x {
		return func() {}, false
	}
	return o.beginEnd(uint64(mc.Raw)), true
}
