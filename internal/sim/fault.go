package sim

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/purecu/purecu/driver"
)

// Fault is a cusim.Fault.
type Fault struct {
	Function string
	Nth      int
	Every    bool
	Code     int
	Slow     time.Duration
}

// fault is what is set for a function.
type fault struct {
	calls []*pendingFault
	rates []*faultRate
}

// pendingFault is a Fault, and how many calls have to come before it.
type pendingFault struct {
	Fault
	before int
	over   bool
}

// faultRate makes a part of all calls fail.
type faultRate struct {
	random *rand.Rand
	p      float64
	code   driver.Result
}

// failures are the reasons for which calls fail.
type failures struct {
	faults      map[string]*fault // by the function; "" is for all
	lost        driver.Result     // the first sticky error, after which nothing works any more
	unreachable bool              // objects can no longer be destroyed: see Census
}

// Faults is cusim.Faults.
func Faults(faults ...Fault) Option {
	return func(d *Driver) {
		for _, f := range faults {
			d.inject(f)
		}
	}
}

// FaultRate is cusim.FaultRate.
func FaultRate(seed uint64, p float64, code int, functions ...string) Option {
	return func(d *Driver) {
		rate := &faultRate{rand.New(rand.NewPCG(seed, 0)), p, driver.Result(code)}
		if len(functions) == 0 {
			functions = []string{""}
		}
		for _, name := range functions {
			f := d.faultOf(name)
			f.rates = append(f.rates, rate)
		}
	}
}

// Inject sets a fault from now on.
func (d *Driver) Inject(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inject(f)
}

func (d *Driver) inject(f Fault) {
	to := d.faultOf(f.Function)
	to.calls = append(to.calls, &pendingFault{Fault: f, before: max(f.Nth, 1) - 1})
}

// faultOf returns what is set for a function, by the name without a version: calls
// go by that.
func (d *Driver) faultOf(name string) *fault {
	if base, version, found := strings.Cut(name, "_v"); found && strings.Trim(version, "0123456789") == "" {
		name = base
	}
	if d.faults[name] == nil {
		d.faults[name] = new(fault)
	}
	return d.faults[name]
}

// ClearFaults takes back all faults that were set. A driver that is lost stays lost.
func (d *Driver) ClearFaults() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.faults)
}

// MeetFault returns what a call of a function has to return because of a fault that is
// set for its name, if that is not success. It is for functions that the driver does not
// have, and that are made of its own: those meet the faults that are set for all, and say
// that they are not permitted where they are not, in a function that a stream calls.
func (d *Driver) MeetFault(function string) driver.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.host(); h != nil && !h.permits(function) {
		return driver.ResultNotPermitted
	}
	return d.meet(d.faults[function])
}

// fault returns what a call has to return because of a fault, if that is not
// success. The driver is unlocked while a call is slow.
func (d *Driver) fault(name string) driver.Result { return d.meet(d.faults[name], d.faults[""]) }

// meet is fault with what is set, where nil stands for nothing.
func (d *Driver) meet(faults ...*fault) driver.Result {
	r, slow := ok, time.Duration(0)
	for _, f := range faults {
		if f == nil {
			continue
		}
		for _, c := range f.calls {
			switch {
			case c.over:
				continue
			case c.before > 0:
				c.before--
				continue
			}
			c.over = !c.Every
			slow += c.Slow
			if r == ok {
				r = driver.Result(c.Code)
			}
			d.unreachable = d.unreachable || c.Function == "" && c.Every && isLoss(driver.Result(c.Code))
		}
		for _, rate := range f.rates {
			if rate.random.Float64() < rate.p && r == ok {
				r = rate.code
			}
		}
	}
	if slow > 0 {
		d.mu.Unlock()
		d.clock.sleep(slow)
		d.mu.Lock()
	}
	return r
}

// LoseDevice makes the driver fail as if a device had fallen off the bus.
func (d *Driver) LoseDevice() { d.Poison(int(driver.ResultDeviceUnavailable)) }

// Poison makes the driver fail with a code, as a kernel does that had a fault. The first code
// stays.
func (d *Driver) Poison(code int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if code != 0 {
		d.engine.catchUp()
		d.poison(driver.Result(code))
	}
}

// poison is Poison for whoever holds the lock.
func (d *Driver) poison(r driver.Result) {
	if d.lost == ok {
		d.lost = r
		d.unreachable = d.unreachable || !r.Sticky() // after a sticky error destroying counts as done
		d.engine.poison()
	}
}

// isLoss reports whether a driver that answers every call with a code has lost its device.
func isLoss(r driver.Result) bool {
	switch r {
	case driver.ResultDeviceUnavailable, driver.ResultECCUncorrectable, driver.ResultUnknown:
		return true
	}
	return r.Sticky()
}
