package cu

// This file has what the tests of package cu_test need besides the API. They are not of package cu, whose tests cannot
// use a package that imports it.

import (
	"runtime"
	"sync/atomic"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/eventpool"
	"github.com/purecu/purecu/internal/eventuse"
	"github.com/purecu/purecu/internal/launch"
	"github.com/purecu/purecu/internal/loaded"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/timelines"
	"github.com/purecu/purecu/internal/waits"
)

// Of anyevent.go and arg.go.

var ErrEmbeddedEvent = eventuse.ErrEmbeddedEvent

type KernelParam = launch.Param

// AnyParam returns a parameter that takes arguments of any kind.
func AnyParam(size uint32) KernelParam { return launch.Param{Size: size, Takes: launch.Any} }

func SetArg(a *Arg, k *core.KernelArgs, i int) error { return a.core().SetIn(k, i) }

// Of batch.go.

var BeginBatched = beginBatched

// KeptBatchIsEmpty reports whether a batch from the pool of the Driver holds nothing.
func KeptBatchIsEmpty(d *core.Driver) bool {
	b := newBatch(d)
	return b.n == 0 && b.items == [drivercall.BatchSize]batchItem{}
}

// Of device.go, driver.go and opencontext.go.

const Hangs = hangs

type Options = options

var (
	DeviceOf = deviceOf
	NoDriver = noDriver
)

// UnusedDriver returns a Driver that no call has asked for anything. Its table is not loaded.
func UnusedDriver() *Driver {
	d := &Driver{devices: make(map[driver.Device]*Device)}
	d.driverRef = core.RefTo(&d.core)
	return d
}

// ChosenByVariable returns the options after the environment variable was read, and whether it chooses a driver.
func ChosenByVariable() (o Options, chooses bool) {
	err := o.useVariable()
	return o, err != nil || o.path != "" || o.software != nil
}

func CloseUnused(c *Context) { c.closeUnused() }

// Of eventpool.go, eventpooled.go, eventtime.go and ticket.go.

var ElapsedIn = elapsed

func PoolShare(p *EventPool) *eventpool.Share             { return p.share }
func PooledEntry(p Pooled) *eventpool.Entry               { return p.core().Entry }
func PooledGeneration(p Pooled) uint32                    { return p.core().Generation }
func EnterPooled(p Pooled, op string) (*core.Slot, error) { return p.core().Enter(op) }
func LeavePooled(p Pooled, sl *core.Slot)                 { p.leave(sl) }
func TicketState(t *Ticket) *waits.Ticket                 { return t.core }

// Of features.go and zenums.go.

var NamesDeviceAttribute = namesDeviceAttribute

// NewerFunctions returns the C functions that some drivers lack, in the order of the table.
func NewerFunctions() (list []string) {
	for _, n := range newer {
		list = append(list, n.function)
	}
	return list
}

// Of launch.go, library.go and module.go.

func NormalDim(d Dim3) Dim3                   { return d.normalize() }
func ModuleState(m *Module) *loaded.Module    { return m.core() }
func ModuleOf(f *Function) *Module            { return f.core().Owner.(*Module) }
func RawFunction(f *Function) driver.Function { return f.core().Raw }
func FunctionParams(f *Function) (params []KernelParam, known bool) {
	return f.core().Params, f.core().Known
}

func UseAll(f *Function, w *core.Work, cfg *LaunchConfig, args []Arg) (driver.KernelParams, error) {
	c := cfg.core()
	return f.useAll(w, &c, args, nil)
}

// Of mem.go, hostmem.go, library.go, module.go and typed.go.

var (
	RegisteredMemory = registeredMemory
)

func WholeOf(m Memory) Span { return spanOf(m) }
func MemoryState(m Memory) *memstate.Mem {
	s := spanOf(m)
	return s.core().Mem
}

// Of thread.go.

var ErrUnbalanced = errUnbalanced

func RawThread(t *Thread) *driver.Thread { return t.raw }

// Of timeline.go.

func TimelineState(t *Timeline) *timelines.Timeline { return t.core }
func TimelineWord(t *Timeline) *atomic.Uint64       { return t.word }
func TimelineCleanup(t *Timeline) runtime.Cleanup   { return t.cleanup }

// Of wait.go.

var (
	ErrPending = errPending
	LeaveAll   = leaveAll
	WatchAll   = watchAll
)

func EnterAll[E AnyEvent](op string, events []E) (list []awaited, pending int) {
	return enterAll(op, events)
}

func AwaitedErr(list []awaited, i int) error { return list[i].err }
