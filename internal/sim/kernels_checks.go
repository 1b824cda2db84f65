package sim

import (
	"fmt"
	"strings"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// ParseChecks returns the checks in a list of names, separated by commas.
func ParseChecks(s string) (c Checks, err error) {
	for name := range strings.SplitSeq(s, ",") {
		one, is := map[string]Checks{"memory": CheckMemory, "races": CheckRaces, "barriers": CheckBarriers,
			"all": CheckAll}[strings.TrimSpace(name)]
		if !is {
			return 0, fmt.Errorf("%q is none of memory, races, barriers and all", name)
		}
		c |= one
	}
	return c, nil
}

// CheckKernels is cusim.CheckKernels. found, which may be nil, gets a text about each mistake before the
// launch ends. Several goroutines may call it at once, and it may call the driver.
func CheckKernels(c Checks, found func(text string)) Option {
	return func(d *Driver) { d.checks, d.found = c, found }
}

// checksOf returns the checks of a launch, or nil.
func (d *Driver) checksOf() *vm.Checks {
	if d.checks == 0 {
		return nil
	}
	return &vm.Checks{Memory: d.checks&CheckMemory != 0, Races: d.checks&CheckRaces != 0,
		Barriers: d.checks&CheckBarriers != 0, Defined: d.definedAt}
}

// definedAt returns which bytes of the memory at an address were written, if that is known. Kernels call
// it without the driver's lock.
func (d *Driver) definedAt(addr uint64) (base, size uint64, _ *vm.Defined) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.space.ForKernels(addr); b != nil {
		return b.addr, b.size, b.defined
	}
	return addr, 1, nil
}

// describeFound returns texts about what the checks of a launch have found, with which it calls the
// function of CheckKernels. The driver is not locked.
func (d *Driver) describeFound(list []*vm.Fault) (texts []string) {
	for _, f := range list {
		text := fmt.Sprintf("kernel %q: %s: %s", f.Kernel, faultPlace(f), f.Reason)
		if o := f.Other; o != nil {
			text += "; the other: " + faultPlace(o)
		}
		if texts = append(texts, text); d.found != nil {
			d.found(text)
		}
	}
	return texts
}

// faultPlace describes where a fault is: the thread, the instruction, and the access.
func faultPlace(f *vm.Fault) string {
	var b strings.Builder
	fmt.Fprintf(&b, "thread (%d, %d, %d) of block (%d, %d, %d), at line %d of the PTX", f.Thread[0], f.Thread[1],
		f.Thread[2], f.Block[0], f.Block[1], f.Block[2], f.Line)
	if f.File != "" {
		fmt.Fprintf(&b, " (%s:%d)", f.File, f.Source)
	}
	return b.String() + ", " + f.Instruction + accessText(f)
}

// accessText describes the access of a fault, or returns "".
func accessText(f *vm.Fault) string {
	verb := "reads"
	switch {
	case !f.Access:
		return ""
	case f.Write:
		verb = "writes"
	}
	return fmt.Sprintf(" %s %d bytes at %#x", verb, f.Size, f.Address)
}
