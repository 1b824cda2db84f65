package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/purecu/purecu/nvml"
)

// The limits of NVML. To open it takes longer, because it wakes the GPUs up.
const (
	nvmlOpens   = 10 * time.Second
	nvmlAnswers = 2 * time.Second
)

// asksNVML reports whether NVML is asked: the devices of a library that the user names may not be the machine's.
func (c *invocation) asksNVML() bool { return c.nvml != nil || c.library() == "" }

// openNVML opens NVML, which knows what CUDA does not say. The software driver has its own.
func (c *invocation) openNVML() (*nvml.Library, error) {
	open := c.nvml
	if open == nil {
		opts := []nvml.Option{nvml.WithTimeout(nvmlOpens)}
		if c.software() {
			sim, err := c.softwareDriver()
			if err != nil {
				return nil, err
			}
			opts = append(opts, nvml.WithSoftware(sim.NVML()))
		}
		open = func() (*nvml.Library, error) { return nvml.Open(opts...) }
	}
	lib, err := open()
	return lib.WithTimeout(nvmlAnswers), err
}

// nvmlInfo is the part of a report about NVML itself.
type nvmlInfo struct {
	Version string `json:"version"`
	// Error says why NVML cannot be asked, or is "".
	Error string `json:"error"`
}

func (n *nvmlInfo) text(w io.Writer) {
	if n.Error != "" {
		fmt.Fprintf(w, "nvml     none: %s\n", n.Error)
		return
	}
	fmt.Fprintf(w, "nvml     %s\n", n.Version)
}

// nvmlFacts is what NVML says about a device. What the device lacks is left out.
type nvmlFacts struct {
	Temperature  *nvml.Celsius `json:"temperatureCelsius,omitempty"`
	Power        *nvml.Power   `json:"powerMilliwatts,omitempty"`
	PowerLimit   *nvml.Power   `json:"powerLimitMilliwatts,omitempty"`
	SMClock      *nvml.MHz     `json:"smClockMHz,omitempty"`
	MemoryClock  *nvml.MHz     `json:"memoryClockMHz,omitempty"`
	Busy         *nvml.Percent `json:"busyPercent,omitempty"`
	MemoryBusy   *nvml.Percent `json:"memoryBusyPercent,omitempty"`
	ClockReasons string        `json:"clocksLimitedBy,omitempty"`
	// MemoryUsed is the memory that all processes use.
	MemoryUsed *uint64 `json:"memoryUsedBytes,omitempty"`
	// Corrected and Uncorrected are the ECC errors since the driver was loaded.
	Corrected   *uint64       `json:"eccCorrected,omitempty"`
	Uncorrected *uint64       `json:"eccUncorrected,omitempty"`
	Rows        *rowsReplaced `json:"rows,omitempty"`
	Processes   []gpuProcess  `json:"processes,omitempty"`
	// Error says which value could not be read, or that the GPU does not answer.
	Error string `json:"error,omitempty"`

	err error // of Error, or nil
}

// rowsReplaced says how many rows of the memory were replaced by spare ones.
type rowsReplaced struct {
	Replaced int  `json:"replaced"`
	Pending  bool `json:"pending"`
	Failed   bool `json:"failed"`
}

// gpuProcess is a program that uses a device.
type gpuProcess struct {
	PID  uint32 `json:"pid"`
	Name string `json:"name,omitempty"` // only in top
	// MemoryUsed is 0 if it is not known.
	MemoryUsed uint64 `json:"memoryUsedBytes"`
}

// shortNVML returns the first line of an error.
func shortNVML(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimPrefix(strings.TrimPrefix(line, "nvml: "), "Open: loader: ")
}

// nvmlFactsOf returns what NVML says about one of CUDA's devices, or nil if NVML does not know it. CUDA does not say
// whether a UUID is that of a MIG device.
func nvmlFactsOf(lib *nvml.Library, uuid string) *nvmlFacts {
	dev, err := lib.DeviceByUUID(nvml.UUID(uuid))
	if unknownToNVML(err) {
		if dev, err = lib.DeviceByUUID(nvml.UUID("MIG-" + bareUUID(uuid))); unknownToNVML(err) {
			return nil
		}
	}
	if err != nil {
		return &nvmlFacts{Error: shortNVML(err), err: err}
	}
	return newNVMLFacts(dev)
}

func unknownToNVML(err error) bool {
	return errors.Is(err, nvml.ErrNotFound) || errors.Is(err, nvml.ErrInvalidArgument)
}

// bareUUID returns a UUID without GPU- or MIG-.
func bareUUID(uuid string) string {
	_, bare, _ := strings.Cut(uuid, "-")
	return bare
}

// ask returns a value, or nil if the device lacks it, or a call before has said that the GPU does not answer.
func ask[T any](f *nvmlFacts, get func() (T, error)) *T {
	if failsNVML(f.err) {
		return nil
	}
	v, err := get()
	switch {
	case err == nil:
		return &v
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, nvml.ErrNoPermission), unknownToNVML(err):
	case f.err == nil || failsNVML(err):
		f.Error, f.err = shortNVML(err), err
	}
	return nil
}

// failsNVML reports whether further calls about a GPU fail, too.
func failsNVML(err error) bool {
	return errors.Is(err, nvml.ErrTimeout) || errors.Is(err, nvml.ErrGPULost) || errors.Is(err, nvml.ErrResetRequired)
}

// newNVMLFacts asks about a device.
func newNVMLFacts(dev *nvml.Device) *nvmlFacts {
	ecc := func(e nvml.MemoryError) func() (uint64, error) {
		return func() (uint64, error) { return dev.ECCErrors(e, nvml.ECCVolatile) }
	}
	f := &nvmlFacts{}
	f.askLoad(dev)
	f.MemoryClock = ask(f, func() (nvml.MHz, error) { return dev.Clock(nvml.ClockMemory) })
	if reasons := ask(f, dev.ClockReasons); reasons != nil {
		f.ClockReasons = reasons.String()
	}
	if m := ask(f, dev.Memory); m != nil {
		f.MemoryUsed = &m.Used
	}
	f.Corrected, f.Uncorrected = ask(f, ecc(nvml.MemoryErrorCorrected)), ask(f, ecc(nvml.MemoryErrorUncorrected))
	if rows := ask(f, dev.RemappedRows); rows != nil {
		f.Rows = &rowsReplaced{rows.Corrected + rows.Uncorrected, rows.Pending, rows.Failed}
	}
	f.askProcesses(dev)
	return f
}

// askLoad asks how busy a device is, and for its temperature, power and clock, which depend on that.
func (f *nvmlFacts) askLoad(dev *nvml.Device) {
	f.Temperature = ask(f, func() (nvml.Celsius, error) { return dev.Temperature(nvml.TemperatureGPU) })
	f.Power, f.PowerLimit = ask(f, dev.PowerUsage), ask(f, dev.EnforcedPowerLimit)
	f.SMClock = ask(f, func() (nvml.MHz, error) { return dev.Clock(nvml.ClockSM) })
	if u := ask(f, dev.Utilization); u != nil {
		f.Busy, f.MemoryBusy = &u.GPU, &u.Memory
	}
}

// askProcesses asks who uses a device.
func (f *nvmlFacts) askProcesses(dev *nvml.Device) {
	for _, list := range []func() ([]nvml.Process, error){dev.ComputeProcesses, dev.GraphicsProcesses} {
		if all := ask(f, list); all != nil {
			f.addProcesses(*all)
		}
	}
}

// addProcesses adds processes. One that computes and draws is in both of NVML's lists.
func (f *nvmlFacts) addProcesses(all []nvml.Process) {
	for _, p := range all {
		if !slices.ContainsFunc(f.Processes, func(q gpuProcess) bool { return q.PID == p.PID }) {
			f.Processes = append(f.Processes, gpuProcess{PID: p.PID, MemoryUsed: p.UsedMemory})
		}
	}
}

// state describes the temperature, the power and the clocks.
func (f *nvmlFacts) state() (parts []string) {
	parts = described(parts, f.Temperature, "%d C")
	if parts = described(parts, f.Power, "%v"); f.Power != nil && f.PowerLimit != nil {
		parts[len(parts)-1] += fmt.Sprintf(" of %v", *f.PowerLimit)
	}
	parts = described(described(parts, f.SMClock, "SM %v"), f.MemoryClock, "memory %v")
	if f.ClockReasons != "" && f.ClockReasons != nvml.ClockReasons(0).String() {
		parts = append(parts, "clocks limited by: "+f.ClockReasons)
	}
	return parts
}

// Lines describes the device in a few lines, each of which begins with a label.
func (f *nvmlFacts) Lines() (lines []string) {
	var busy, ecc []string
	busy = described(described(busy, f.Busy, "busy %v"), f.MemoryBusy, "memory busy %v")
	if f.MemoryUsed != nil {
		busy = append(busy, gibibytes(*f.MemoryUsed)+" GiB used by all processes")
	}
	ecc = described(described(ecc, f.Corrected, "ECC %d corrected"), f.Uncorrected, "%d uncorrected")
	if r := f.Rows; r != nil {
		ecc = append(ecc, count(r.Replaced, "row")+" replaced")
		if r.Pending {
			ecc = append(ecc, "a reset replaces more")
		}
		if r.Failed {
			ecc = append(ecc, "one could not be replaced")
		}
	}
	for _, l := range []struct {
		label string
		parts []string
	}{{"state", f.state()}, {"use", busy}, {"errors", ecc}} {
		if len(l.parts) > 0 {
			lines = append(lines, fmt.Sprintf("%-8s %s", l.label, strings.Join(l.parts, ", ")))
		}
	}
	for _, p := range f.Processes {
		line := fmt.Sprintf("%-8s %d", "process", p.PID)
		if p.MemoryUsed > 0 {
			line += ": " + gibibytes(p.MemoryUsed) + " GiB"
		}
		lines = append(lines, line)
	}
	if f.Error != "" {
		lines = append(lines, fmt.Sprintf("%-8s %s", "unknown", oneLine(f.Error)))
	}
	return lines
}

// described adds a value, unless the device lacks it.
func described[T any](parts []string, v *T, format string) []string {
	if v != nil {
		parts = append(parts, fmt.Sprintf(format, *v))
	}
	return parts
}
