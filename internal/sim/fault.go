package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/engine"
)

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

// faultOf returns the faults of a function, by its name without a version.
func (d *Driver) faultOf(name string) *fault {
	if base, version, found := strings.Cut(name, "_v"); found && strings.Trim(version, "0123456789") == "" {
		name = base
	}
	if _, known := driver.FindSymbol(name); !known && name != "" {
		d.misuse("cusim.Fault", 0, fmt.Sprintf("CUDA has no function %q, so no call has this fault", name), nil)
	}
	if d.faults[name] == nil {
		d.faults[name] = new(fault)
	}
	return d.faults[name]
}

// ClearFaults removes all faults. It does not undo LoseDevice and Poison.
func (d *Driver) ClearFaults() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.faults)
}

// fault returns the result of a fault for a call, or ok. The driver is unlocked during the delay of
// a slow call.
func (d *Driver) fault(name string) driver.Result { return d.meet(name, d.faults[name], d.faults[""]) }

// meet returns the result of the given faults of a call, each of which may be nil.
func (d *Driver) meet(name string, faults ...*fault) driver.Result {
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
				if r = driver.Result(c.Code); r != ok && c.Log != "" {
					d.explain(name, c.Log, r)
				}
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
		d.engine.Clock.Sleep(slow)
		d.mu.Lock()
	}
	return r
}

// LoseDevice makes the driver fail as if a device were lost.
func (d *Driver) LoseDevice() { d.Poison(int(driver.ResultDeviceUnavailable)) }

// Poison makes the driver fail with a code, as after a kernel with a fault. Later calls of Poison
// have no effect.
func (d *Driver) Poison(code int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if code != 0 {
		d.engine.CatchUp()
		d.poison(driver.Result(code))
	}
}

// poison is Poison for a caller that holds the lock.
func (d *Driver) poison(r driver.Result) {
	if d.lost == ok {
		d.lost = r
		d.unreachable = d.unreachable || !r.Sticky() // after a sticky error a destruction counts as done
		var held []*engine.Stream
		for _, dev := range d.devices {
			for _, c := range dev.contexts {
				for _, s := range c.streams {
					if s.Held() {
						held = append(held, &s.Stream)
					}
				}
			}
		}
		d.engine.Poison(held)
	}
}

// isLoss reports whether a code means that the device is lost, if every call returns it.
func isLoss(r driver.Result) bool {
	switch r {
	case driver.ResultDeviceUnavailable, driver.ResultECCUncorrectable, driver.ResultUnknown:
		return true
	}
	return r.Sticky()
}
