package drivercall

import (
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/clock"
)

// Access is what every call of a driver needs: its functions, the tracers, and what errors say. It knows no
// contexts.
type Access struct {
	// Tracers is nil if there are neither tracers nor a race detector: the fast paths make a call only then. It and
	// the next fields, up to the first of Functions, share a cache line: every call reads them, and they change
	// seldom.
	Tracers atomic.Pointer[Tracers]
	// Capturing counts the captures, each from before its beginning until after its end. Records and
	// waits read captures only if it is not 0.
	Capturing atomic.Int32
	// NeedContext are the work functions of package core that are called in the stream's context.
	NeedContext atomic.Uint32
	// Sequenced says that records note their sequence numbers, because many records have been waited
	// for.
	Sequenced atomic.Bool
	// Functions is the driver's table of functions: see Table.
	Functions driver.TableState

	Name string
	// Simulated says that the library is purecu's software driver.
	Simulated bool
	Hook      func(LeakReport)
	Losses    losses // of all devices
	Log       DriverLog
	driverTime
}

// driverTime relates the driver's clock to the machine's.
type driverTime struct {
	// Opened is the time of Open by the driver's clock, and Since measures from the same moment.
	Opened time.Time
	Since  clock.Watch
}

// LeakReport is a report about an object that was never closed, or that was destroyed when no call waited for the
// result. It has the fields of cu.Leak, whose comments describe them.
type LeakReport struct {
	Kind      string
	Handle    uintptr
	Abandoned bool
	Err       error
}

// Leak calls the hook, if there is one, on a new goroutine. The caller's goroutine may hold locks
// that the hook needs, and a cleanup's goroutine runs all cleanups of the process.
func (d *Access) Leak(l LeakReport) {
	if d.Hook != nil && (l.Abandoned || l.Err != nil) {
		go d.Hook(l)
	}
}

// Has reports whether the driver has the current version of a function. A software driver has it if
// the driver's CUDA version is high enough.
func (d *Access) Has(name string) bool {
	sym, ok := driver.FindSymbol(name)
	if !ok {
		return false
	}
	if d.Table().Software() {
		v, res := d.Table().DriverGetVersion(driver.At{})
		return res == driver.ResultSuccess && int(v) >= sym.Info().Version
	}
	_, err := d.Table().Resolve(sym)
	return err == nil
}

// Table makes the calls.
func (d *Access) Table() *driver.Table { return (*driver.Table)(&d.Functions) }
