package simnvml

import (
	"fmt"
	"slices"
	"strings"

	"github.com/purecu/purecu/nvml/raw"
)

// Fault makes calls fail, or hang.
type Fault struct {
	// GPUs are the numbers of the GPUs whose calls are affected. Without any, all calls are.
	GPUs []int
	// Function is the name of a function in C, with or without its version, such as "nvmlDeviceGetTemperature". "" is
	// every function but nvmlErrorString.
	Function string
	// Result is what the calls return.
	Result raw.Return
	// Hangs makes calls wait until the fault is cleared. They return Result then, or are made if it is NVML_SUCCESS.
	Hangs bool
}

// faults are the faults that are set. mu of the state guards them.
type faults struct {
	list    []Fault
	cleared chan struct{} // closed when the faults are cleared, and replaced
}

func newFaults() faults { return faults{cleared: make(chan struct{})} }

// Inject sets a fault from now on. A GPU or a function that is not there is a misuse.
func (n *model) Inject(f Fault) {
	if f.Function != "" && !hasFunction(f.Function) {
		n.machine.Misuse("NVMLFault", fmt.Sprintf("NVML has no function %q, so no call has this fault", f.Function))
	}
	for _, i := range f.GPUs {
		if i < 0 || i >= len(n.gpus) {
			n.machine.Misuse("NVMLFault", fmt.Sprintf("there is no GPU %d, so no call has this fault", i))
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f.GPUs = slices.Clone(f.GPUs)
	n.list = append(n.list, f)
}

// hasFunction reports whether there is a function with this name, with or without a version.
func hasFunction(name string) bool {
	if raw.Lacks(name) != raw.NVML_ERROR_FUNCTION_NOT_FOUND {
		return true
	}
	for _, version := range []string{"_v1", "_v2", "_v3", "_v4"} {
		if raw.Lacks(name+version) != raw.NVML_ERROR_FUNCTION_NOT_FOUND {
			return true
		}
	}
	return false
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

// meet returns the result of a fault of a function, by its name in package raw, or NVML_SUCCESS.
func (s *state) meet(name string, gpus []int) raw.Return {
	s.mu.Lock()
	cleared := s.cleared
	i := slices.IndexFunc(s.list, func(f Fault) bool {
		if f.Hangs && f.Function == "" && len(f.GPUs) > 0 && strings.HasPrefix(name, lookup) {
			return false // the driver knows of a GPU that does not answer
		}
		return (len(f.GPUs) == 0 || slices.ContainsFunc(gpus, func(i int) bool { return slices.Contains(f.GPUs, i) })) &&
			(f.Function == "" || f.Function == export(name) || f.Function == unversioned(export(name)))
	})
	if i < 0 {
		s.mu.Unlock()
		return raw.NVML_SUCCESS
	}
	f := s.list[i]
	s.mu.Unlock()
	if f.Hangs {
		<-cleared
	}
	return f.Result
}

// unversioned returns the name of a function without its version.
func unversioned(name string) string {
	base, version, _ := strings.Cut(name, "_v")
	if strings.Trim(version, "0123456789") != "" {
		return name
	}
	return base
}
