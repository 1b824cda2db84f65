package sim

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/engine"
)

// Driver is a software driver. It is safe for concurrent use, and need not be closed. One lock
// guards all its parts, because a call may change several of them at once.
type Driver struct {
	driver.Unimplemented // the functions that it lacks: docs/software-functions.md

	// mu is not locked while functions of the program are called, and while something may take long, such as a file
	// system that allocates or frees memory that processes share: see unlocked.
	mu sync.Mutex

	machine
	engine     engine.Engine // and the clock
	objects    objects
	space      addressSpace
	pools      []*memPool // of no device
	captures   []*capture // the captures in progress
	noThread   thread     // the thread of calls without a pinned thread; it has no state
	misuses    []Misuse
	report     io.Writer // nil without Report
	log        errorLog
	printer    printer
	semaphores map[fileID]*ExternalSemaphore
	// processes are the states of other processes that are not running.
	processes map[int32]int32
	kernelTable
	failures
	waiting
	hostThreads hostThreads
	blockSizes  func(f uintptr, threads int32) uint64
	room        func(n uint64) bool // nil if memory has no limit
	polls       bool                // Go's poller has been started: see startPoller
	// readClock and print are functions for each launch of a kernel in PTX.
	readClock func() int64
	print     func(text []byte, failed bool)
	// allocateFile is reserveFile, punchFile gives a part of a file back, closeFile closes a file, and newIPCFile
	// creates one. Tests replace them.
	allocateFile func(f *os.File, offset, n uint64) error
	punchFile    func(f *memoryFile, offset, n uint64) bool
	closeFile    func(f *memoryFile)
	newIPCFile   func(named bool) (*ipcFile, error)
	// ids are the last assigned numbers, by kind.
	ids struct{ context, stream, event, capture, thread, split, launch, condition uint64 }
	// conditions are those of all graphs.
	conditions map[driver.GraphConditionalHandle]*condition
	// descriptors are those of parts of devices, by their content.
	descriptors map[resourceDescriptor]driver.DevResourceDesc
}

// machine contains the devices and the properties of the driver.
type machine struct {
	version    int32
	ready      bool                                           // cuInit was called
	opens      int                                            // successful calls of cuInit, less those of Closed
	installed  []*device                                      // those of the machine
	devices    []*device                                      // those of them that the program sees, by their ordinals
	lookup     func(variable string) (value string, set bool) // nil: there are no variables
	disordered bool                                           // cuInit has read an order that does not exist
	attributes map[int32]int32                                // the attributes that DeviceAttribute has set
}

var _ driver.Software = (*Driver)(nil)

// Option configures the driver that [New] returns.
type Option func(*Driver)

// Devices is cusim.Devices.
func Devices(n int) Option {
	return func(d *Driver) {
		d.installed = nil
		for i := range n {
			d.installed = append(d.installed, newDevice(i))
		}
		d.devices = d.installed
	}
}

// Version is cusim.Version.
func Version(v int) Option {
	return func(d *Driver) { d.version = int32(v) }
}

// VirtualTime is cusim.VirtualTime.
func VirtualTime() Option {
	return func(d *Driver) { d.engine.Clock.Virtual = true }
}

// New is cusim.New.
func New(opts ...Option) *Driver {
	d := &Driver{machine: machine{version: 13000}, kernelTable: kernelTable{kernels: make(map[string]Kernel),
		instructions: make(map[string]uint64), goLaunches: make(map[string]uint64)},
		failures: failures{faults: make(map[string]*fault)}}
	d.engine.Init(&d.mu)
	d.noThread.anyThread = true
	d.readClock, d.print = d.engine.Clock.At, d.output
	d.allocateFile, d.punchFile, d.closeFile = reserveFile, (*memoryFile).punch, (*memoryFile).close
	d.newIPCFile = newIPCFile
	Devices(1)(d)
	for _, o := range opts {
		if o != nil {
			o(d)
		}
	}
	return d
}

// Clock returns the driver's clock, which package cu uses for waits and measurements.
func (d *Driver) Clock() driver.Clock { return &d.engine.Clock }

// Advance advances the virtual time. Work completes in the order of its times, and timers fire.
func (d *Driver) Advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.engine.Clock.Virtual && by >= 0 {
		d.engine.Pass(by)
	}
}

// Misuse is a cusim.Misuse.
type Misuse struct {
	Op        string
	Handle    uintptr
	What      string
	Destroyed string
	Count     int
}

// String returns a text with all fields.
func (m Misuse) String() string {
	s := fmt.Sprintf("%s(%#x): %s", m.Op, m.Handle, m.What)
	if m.Destroyed != "" {
		s += "; it was destroyed here:\n" + m.Destroyed
	}
	return s
}

// Misuses returns all misuses so far.
func (d *Driver) Misuses() []Misuse {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reclaim()
	d.checkAllStale()
	return append([]Misuse(nil), d.misuses...)
}

// misuse records a call in which NVIDIA's driver may crash.
func (d *Driver) misuse(op string, h uintptr, what string, destroyed []uintptr) {
	m := Misuse{Op: op, Handle: h, What: what, Destroyed: inProgram(destroyed), Count: 1}
	if n := len(d.misuses); n > 0 {
		if last := &d.misuses[n-1]; last.Op == m.Op && last.Handle == m.Handle && last.What == m.What {
			last.Count++
			return
		}
	}
	if len(d.misuses) < maxMisuses {
		d.misuses = append(d.misuses, m)
	}
}

// maxMisuses is how many misuses are kept at most.
const maxMisuses = 1000

const ok = driver.ResultSuccess

// begin begins a call. It locks the driver, which the caller unlocks, and completes the work that
// is due. If its result is not ok, the call has to return it at once.
func (d *Driver) begin(op string) driver.Result {
	d.mu.Lock()
	if h := d.host(); h != nil && !h.permits(op) {
		return driver.ResultNotPermitted
	}
	if len(d.faults) > 0 {
		if r := d.fault(op); r != ok {
			return r
		}
	}
	if !d.ready {
		return driver.ResultNotInitialized
	}
	d.engine.CatchUp()
	d.reclaim()
	d.space.building = false
	return ok
}

// unlocked calls f, which may take long, while the driver is unlocked. Other calls may change what
// the caller has looked at before.
func (d *Driver) unlocked(f func()) {
	d.mu.Unlock()
	defer d.mu.Lock()
	f()
}

// Init is cuInit.
func (d *Driver) Init(_ *driver.Thread, flags uint32) driver.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.fault("cuInit"); r != ok {
		return r
	}
	if flags != 0 {
		return driver.ResultInvalidValue
	}
	if !d.polls {
		if r := startPoller(); r != ok {
			return r
		}
		d.polls = true
	}
	if !d.ready {
		if r := d.see(); r != ok {
			return r
		}
	}
	d.ready = true
	d.opens++
	return ok
}

// DriverGetVersion is cuDriverGetVersion.
func (d *Driver) DriverGetVersion(*driver.Thread) (int32, driver.Result) { return d.version, ok }

// GetErrorName is cuGetErrorName.
func (d *Driver) GetErrorName(_ *driver.Thread, code driver.Result) (string, driver.Result) {
	if !d.hasResult(code) {
		return "", driver.ResultInvalidValue
	}
	return code.Name(), ok
}

// GetErrorString is cuGetErrorString.
func (d *Driver) GetErrorString(_ *driver.Thread, code driver.Result) (string, driver.Result) {
	if !d.hasResult(code) {
		return "", driver.ResultInvalidValue
	}
	return code.Text(), ok
}

// hasResult reports whether the driver's version has a result.
func (d *Driver) hasResult(code driver.Result) bool {
	since := int32(0)
	switch code {
	case driver.ResultStreamDetached:
		since = 13010
	case driver.ResultGraphRecaptureFailure:
		since = 13030
	case driver.ResultMulticastResourceFull, driver.ResultInsufficientLoaderVersion, driver.ResultFabricNotReady:
		since = 13040
	}
	return code.Name() != "" && d.version >= since
}
