package simnvml

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// Fault makes calls fail, hang, or last longer.
type Fault struct {
	// GPUs are the numbers of the GPUs whose calls are affected. Without any, all calls are.
	GPUs []int
	// Function is the name of a function in C, with or without its version, such as "nvmlDeviceGetTemperature". "" is
	// every function but nvmlErrorString.
	Function string
	// Nth is the number of the affected call since the fault was set. 0 means all calls.
	Nth int
	// Every extends the fault to all later calls.
	Every bool
	// Result is what the calls return.
	Result raw.Return
	// Slow is a delay at the begin of the calls, by the CUDA driver's clock.
	Slow time.Duration
	// Hangs makes calls wait until the fault is cleared. They return Result then, or are made if it is NVML_SUCCESS.
	Hangs bool
}

// pendingFault is a fault with the number of the calls that it has seen.
type pendingFault struct {
	Fault
	calls int
}

// faults are the faults that are set. mu of the state guards them.
type faults struct {
	list    []*pendingFault
	cleared chan struct{} // closed when the faults are cleared, and replaced
}

func newFaults() faults { return faults{cleared: make(chan struct{})} }

// Inject sets a fault from now on. One that no call can have is a misuse.
func (n *model) Inject(f Fault) {
	if why := n.wrong(f); why != "" {
		n.machine.Misuse("NVMLFault", why+", so no call has this fault")
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f.GPUs = slices.Clone(f.GPUs)
	n.list = append(n.list, &pendingFault{Fault: f})
}

// wrong returns why no call can have a fault, or "".
func (n *model) wrong(f Fault) string {
	switch {
	case f.Function != "" && !hasFunction(f.Function):
		return fmt.Sprintf("NVML has no function %q", f.Function)
	case f.Nth < 0:
		return fmt.Sprintf("calls count from 1, and Nth is %d", f.Nth)
	case f.Slow < 0:
		return fmt.Sprintf("calls do not take %v less time", -f.Slow)
	}
	for _, i := range f.GPUs {
		if i < 0 || i >= len(n.gpus) {
			return fmt.Sprintf("there is no GPU %d", i)
		}
	}
	return ""
}

// hasFunction reports whether there is a function with this name, with or without a version.
func hasFunction(name string) bool {
	return raw.Lacks(name) != raw.NVML_ERROR_FUNCTION_NOT_FOUND || slices.Contains(Fallible(), name)
}

// Fallible returns the names in C, without versions, of the functions that can have a fault.
func Fallible() (names []string) {
	t := reflect.TypeFor[raw.Software]()
	for i := range t.NumMethod() {
		if name := t.Method(i).Name; name != "ErrorString" {
			names = append(names, unversioned(export(name)))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ClearFaults removes all faults. Calls that hang go on.
func (n *model) ClearFaults() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = nil
	close(n.cleared)
	n.cleared = make(chan struct{})
}

// lookup is the begin of the names of functions that return a GPU.
const lookup = "DeviceGetHandleBy"

// meet returns the result of the faults of a function, by its name in package raw, or NVML_SUCCESS.
func (s *state) meet(name string, gpus []int) raw.Return {
	r, slow, hangs := raw.NVML_SUCCESS, time.Duration(0), false
	s.mu.Lock()
	cleared := s.cleared
	for _, f := range s.list {
		if !f.affects(name, gpus) {
			continue
		}
		if f.calls++; f.Nth > 0 && f.calls != f.Nth && !(f.Every && f.calls > f.Nth) {
			continue
		}
		slow += f.Slow
		if r == raw.NVML_SUCCESS {
			r, hangs = f.Result, hangs || f.Hangs
		}
	}
	s.mu.Unlock()
	if slow > 0 {
		timer := s.machine.Clock().NewTimer(slow)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-cleared:
		}
	}
	if hangs {
		<-cleared
	}
	return r
}

// affects reports whether a call of a function, about these GPUs, counts for a fault.
func (f *Fault) affects(name string, gpus []int) bool {
	if f.Hangs && f.Function == "" && len(f.GPUs) > 0 && strings.HasPrefix(name, lookup) {
		return false // the driver knows of a GPU that does not answer
	}
	return (len(f.GPUs) == 0 || slices.ContainsFunc(gpus, func(i int) bool { return slices.Contains(f.GPUs, i) })) &&
		(f.Function == "" || f.Function == export(name) || f.Function == unversioned(export(name)))
}

// unversioned returns the name of a function without its version.
func unversioned(name string) string {
	base, version, _ := strings.Cut(name, "_v")
	if strings.Trim(version, "0123456789") != "" {
		return name
	}
	return base
}
