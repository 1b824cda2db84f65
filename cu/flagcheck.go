package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
)

// check refuses combinations that the driver would refuse.
func (f ContextFlags) check(op string) error {
	if f&^driver.CU_CTX_FLAGS_MASK != 0 {
		return drivercall.BadValue(op, nil, "unknown context flags "+f.String()+": see ContextFlags")
	}
	if sched := f & (ContextSchedSpin | ContextSchedYield | ContextSchedBlockingSync); sched&(sched-1) != 0 {
		return drivercall.BadValue(op, nil, "a context waits in one way only: choose one of "+sched.String())
	}
	return nil
}
