package cusim

import (
	"slices"
	"time"

	"github.com/purecu/purecu/internal/simnvml"
	"github.com/purecu/purecu/nvml/raw"
)

// NVML returns the software NVML of the driver, which is always the same, or nil for a nil Driver.
//
//	sim := cusim.New(cusim.Devices(2))
//	lib, err := nvml.Open(nvml.WithSoftware(sim.NVML()))
//
// Its GPUs are all devices of the driver, also those that [VisibleDevices] hides, with the same UUIDs, PCI addresses,
// memory and processes. Results, and values that do not change by themselves, are those of an H200. Utilization is the
// share of the last second of the driver's time in which the device worked; power, temperature, clocks and energy
// follow from it. Settings, such as locked clocks, are those of the GPU for all programs. CUDA does not know them.
// Those that are not modelled are refused with NVML_ERROR_NOT_SUPPORTED. A GPU can be divided into MIG devices. The
// driver does not know them, so NVML shows all processes of the GPU in the first one.
func (d *Driver) NVML() raw.Software {
	switch {
	case d == nil || d.nvml == nil:
		return nil
	case d.err != nil:
		return wrongNVML{d.nvml, d.err}
	}
	return d.nvml
}

// wrongNVML is the NVML of a driver whose options are wrong.
type wrongNVML struct {
	*simnvml.NVML
	err error
}

// Err returns what is wrong with the options.
func (n wrongNVML) Err() error { return n.err }

// NVMLFault makes calls of the software NVML fail, hang, or last longer.
type NVMLFault struct {
	// GPUs are the numbers of the GPUs whose calls are affected, also calls that look one of these up. If there are none,
	// all calls are affected.
	GPUs []int
	// Function is the name of a function in C. A name without a version, such as "nvmlDeviceGetMemoryInfo", means all
	// versions. "" means all functions but nvmlErrorString.
	Function string
	// Nth is the number of the affected call since the fault was set. 0 means all calls.
	Nth int
	// Every extends the fault to all calls after the one that Nth says.
	Every bool
	// Result is what the calls return, such as raw.NVML_ERROR_NO_PERMISSION. [raw.Lacks] returns that of a function
	// which an older library does not have.
	Result raw.Return
	// Slow is a delay at the beginning of the calls, in the driver's time.
	Slow time.Duration
	// Hangs makes calls wait for [Driver.ClearFaults]. Then they return Result, or are made if it is NVML_SUCCESS. A
	// bounded call of package nvml can still find the GPU occupied for a moment after that. If GPUs are given, and no
	// Function, calls that look a GPU up do not hang.
	Hangs bool
}

// InjectNVML sets a fault of the software NVML from now on. [Driver.ClearFaults] removes it.
func (d *Driver) InjectNVML(f NVMLFault) { d.nvml.Inject(simnvml.Fault(f)) }

// XID makes NVML report an event of a GPU: the XID with this number. It changes nothing else.
func (d *Driver) XID(gpu, number int) { d.nvml.XID(gpu, uint64(number)) }

// ECCErrors adds errors to NVML's counters of a GPU's memory, volatile and aggregate, and reports them as events.
func (d *Driver) ECCErrors(gpu int, corrected, uncorrected uint64) {
	d.nvml.ECCErrors(gpu, corrected, uncorrected)
}

// RemappedRows are the rows of a GPU's memory that were replaced by spare ones.
type RemappedRows struct {
	Corrected, Uncorrected int  // because of errors of these kinds
	Pending                bool // a row will be replaced when the GPU is reset
	Failed                 bool // a row could not be replaced
}

// SetRemappedRows sets what NVML says of replaced rows, and reports it as an event.
func (d *Driver) SetRemappedRows(gpu int, rows RemappedRows) {
	d.nvml.RemappedRows(gpu, uint32(rows.Corrected), uint32(rows.Uncorrected), rows.Pending, rows.Failed)
}

// SetClockReasons sets why the clocks of a GPU are not higher: a sum of raw.ClocksEventReason….
func (d *Driver) SetClockReasons(gpu int, reasons uint64) { d.nvml.ClocksEventReasons(gpu, reasons) }

// NVLinks makes NVML show that each device has NVLinks, 18 at most, to the NVSwitches of a machine such as an HGX H200.
// A GPU of another [Profile] has no more than its kind: an A100 has 12, and a T4 none. Without this option there are
// none, as on the H200 whose answers were recorded. CUDA does not know them: copies between devices are not faster, and
// not counted. Unverified: what NVML says of them follows the documentation.
func NVLinks(n int) Option {
	return func(d *Driver) { d.scripts = slices.Insert(d.scripts, 0, links(n)) } // before faults of the links
}

func links(n int) func(*simnvml.NVML) { return func(v *simnvml.NVML) { v.Links(n) } }

// SetNVLink makes an NVLink of a GPU active, or not: then NVML reports XID 74. See [NVLinks].
func (d *Driver) SetNVLink(gpu, link int, active bool) { d.nvml.SetLink(gpu, link, active) }

// NVLinkErrors adds to a counter of errors of an NVLink: raw.NVML_NVLINK_ERROR_…. See [NVLinks].
func (d *Driver) NVLinkErrors(gpu, link int, kind raw.NvLinkErrorCounter, count uint64) {
	d.nvml.LinkErrors(gpu, link, kind, count)
}

// ResetGPU resets a GPU that no program uses, as nvidia-smi -r does. An ECC mode and a MIG mode that wait for it take
// effect, and what NVML has set else is undone, except the persistence mode. In MIG mode there are no instances
// then. The volatile counters of errors are zero, and no row waits to be replaced. Unverified: what a reset undoes
// follows the documentation.
func (d *Driver) ResetGPU(gpu int) { d.nvml.Reset(gpu) }

// LoseGPU makes all calls of NVML about a GPU return NVML_ERROR_GPU_IS_LOST, as if it had fallen off the bus, and
// reports XID 79. CUDA does not notice it: see [Driver.LoseDevice].
func (d *Driver) LoseGPU(gpu int) { d.nvml.LoseGPU(gpu) }
