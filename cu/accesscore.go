package cu

import (
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/clock"
)

// driverAccess is what every call of a driver needs: its functions, the tracers, and what errors say. It knows no
// contexts.
type driverAccess struct {
	// tracers (nil if there are none) and the next fields, up to the first of calls, share a cache
	// line: every call reads them, and they change seldom.
	tracers atomic.Pointer[tracers]
	// capturing counts the captures, each from before its beginning until after its end. Records and
	// waits read captures only if it is not 0.
	capturing atomic.Int32
	// needContext are the workFunctions that are called in the stream's context.
	needContext atomic.Uint32
	// sequenced says that records note their sequence numbers, because many records have been waited
	// for.
	sequenced atomic.Bool
	calls     driver.TableState

	name string
	// simulated says that the library is purecu's software driver.
	simulated bool
	hook      func(leakReport)
	losses    losses // of all devices
	log       driverLog
	driverTime
}

// driverTime relates the driver's clock to the machine's.
type driverTime struct {
	// opened is the time of Open by the driver's clock, and since measures from the same moment.
	opened time.Time
	since  clock.Watch
}

// leakReport is a report about an object that was never closed, or that was destroyed when no call waited for the
// result. It has the fields of Leak, whose comments describe them.
type leakReport struct {
	Kind      string
	Handle    uintptr
	Abandoned bool
	Err       error
}

// leak calls the hook, if there is one, on a new goroutine. The caller's goroutine may hold locks
// that the hook needs, and a cleanup's goroutine runs all cleanups of the process.
func (d *driverAccess) leak(l leakReport) {
	if d.hook != nil && (l.Abandoned || l.Err != nil) {
		go d.hook(l)
	}
}

// has reports whether the driver has the current version of a function. A software driver has it if
// the driver's CUDA version is high enough.
func (d *driverAccess) has(name string) bool {
	sym, ok := driver.FindSymbol(name)
	if !ok {
		return false
	}
	if d.table().Software() {
		v, res := d.table().DriverGetVersion(driver.At{})
		return res == driver.ResultSuccess && int(v) >= sym.Info().Version
	}
	_, err := d.table().Resolve(sym)
	return err == nil
}

// table makes the calls.
func (d *driverAccess) table() *driver.Table { return (*driver.Table)(&d.calls) }
