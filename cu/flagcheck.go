package cu

import (
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// check refuses combinations that the driver would refuse.
func (f EventFlags) check() error {
	const op = "cuEventCreate"
	switch {
	case f&^(EventBlockingSync|EventDisableTiming|EventInterprocess|EventExternal) != 0:
		return core.BadValue(op, nil, fmt.Sprintf("unknown event flags %v: see EventFlags", f))
	case f&EventInterprocess != 0 && f&EventDisableTiming == 0:
		return core.BadValue(op, nil, "an interprocess event cannot record the time: add EventDisableTiming")
	case f&EventInterprocess != 0 && f&EventExternal != 0:
		return core.BadValue(op, nil, "an interprocess event cannot be part of a graph: omit EventExternal or EventInterprocess")
	}
	return nil
}

// check refuses combinations that the driver would refuse.
func (f ContextFlags) check(op string) error {
	if f&^driver.CU_CTX_FLAGS_MASK != 0 {
		return core.BadValue(op, nil, "unknown context flags "+f.String()+": see ContextFlags")
	}
	if sched := f & (ContextSchedSpin | ContextSchedYield | ContextSchedBlockingSync); sched&(sched-1) != 0 {
		return core.BadValue(op, nil, "a context waits in one way only: choose one of "+sched.String())
	}
	return nil
}
