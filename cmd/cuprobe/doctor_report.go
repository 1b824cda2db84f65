package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/initresult"
	"github.com/purecu/purecu/loader"
)

// doctorReport contains the results of cuprobe doctor.
type doctorReport struct {
	// Report is nil if the software driver was examined instead of the machine.
	Report   *loader.Report  `json:"report"`
	Driver   *driverInfo     `json:"driver"`
	Features *cu.Features    `json:"features"`
	Missing  []missingSymbol `json:"missing"`
	Devices  []deviceInfo    `json:"devices"`
	Checks   []check         `json:"checks"`
	Verdict  loader.Finding  `json:"verdict"`
	Bundle   *bundleResult   `json:"bundle"`
	Error    *failure        `json:"error,omitempty"`
}

// newestAPI is the newest version of CUDA whose functions a driver is said to lack. Those of later versions, which
// package driver knows in part, are not counted.
const newestAPI = 13000

// missingSymbol is a function of the API of that version that the driver lacks.
type missingSymbol struct {
	Export string `json:"export"`
	Since  int    `json:"since"`
}

// bundleResult is the outcome of -bundle.
type bundleResult struct {
	Path    string `json:"path"`
	Written bool   `json:"written"`
	// Error says why the file was not written, or is "".
	Error string `json:"error"`
}

// addFault adds a fault that is more severe than the previous findings. For the software driver, which
// has no report, it sets the verdict.
func (r *doctorReport) addFault(f loader.Finding) {
	if r.Report == nil {
		r.Verdict = f
		return
	}
	r.Report.Findings = slices.Insert(r.Report.Findings, 0, f)
}

// judge adds findings for the checks and their causes, and sets the verdict.
func (r *doctorReport) judge(causes ...loader.Finding) {
	if i := slices.IndexFunc(r.Checks, func(c check) bool { return !c.Passed }); i >= 0 {
		r.addFault(r.faultOf(r.Checks[i]))
	}
	for _, f := range slices.Backward(causes) {
		r.addFault(f)
	}
	if r.Report == nil {
		switch {
		case r.Verdict.Severity == loader.Fault:
		case r.Error != nil:
			r.Verdict = loader.Finding{Severity: loader.Fault,
				Title: "the software driver cannot be used: " +
					oneLine(strings.TrimSuffix(r.Error.Message, "; "+initresult.See)),
				Fix: initresult.Settings + " # configures it"}
		default:
			r.Verdict = loader.Finding{Severity: loader.Fine,
				Title: "the software driver works; it says nothing about a GPU"}
		}
		return
	}
	r.Verdict = r.Report.Verdict()
	if l := r.Report.Library; l != nil && l.Simulated {
		if len(r.Checks) > 0 && r.Verdict.Severity == loader.Fine {
			r.Verdict.Title = "the driver is simulated: " + count(len(r.Devices), "device") +
				" of it passed every check, which says nothing about a GPU"
		}
		return
	}
	if len(r.Checks) > 0 && r.Verdict.Severity == loader.Fine {
		r.Verdict = loader.Finding{Severity: loader.Fine, Title: "CUDA works: " + count(len(r.Devices), "device") +
			" passed every check"}
	}
}

// softFix is the advice if a check fails on the software driver, which has no hardware that could
// be faulty.
const softFix = "cuprobe doctor -driver soft -bundle FILE # this is a bug in purecu: FILE belongs to the report"

// faultOf returns the finding for a check that has faultOf.
func (r *doctorReport) faultOf(c check) loader.Finding {
	f := loader.Finding{Severity: loader.Fault, Title: "the driver fails: " + c.Name, Detail: oneLine(c.Detail)}
	if c.Device != anyDevice {
		f.Title = fmt.Sprintf("device %d fails: %s", c.Device, c.Name)
	}
	if r.Report == nil {
		f.Fix = softFix
		return f
	}
	var e *cu.Error
	if errors.As(c.err, &e) {
		switch e.Result {
		case cu.ResultInvalidValue, cu.ResultInvalidHandle, cu.ResultInvalidContext, cu.ResultNotFound,
			cu.ResultNotPermitted:
			// The remedies of these results are for programs that use the driver incorrectly.
		default:
			f.Fix = e.Remedy()
		}
	}
	if f.Fix == "" {
		f.Fix = "nvidia-smi -q; " + kernelLog
		// nvidia-smi does not use CUDA's ordinals.
		if i := slices.IndexFunc(r.Devices, func(d deviceInfo) bool { return d.Ordinal == c.Device }); i >= 0 &&
			r.Devices[i].PCIBusID != "" {
			f.Fix = "nvidia-smi -q -i " + r.Devices[i].PCIBusID + "; " + kernelLog
		}
	}
	return f
}

// faulty returns the ordinals of devices that failed a check.
func (r *doctorReport) faulty() []int {
	var list []int
	for _, c := range r.Checks {
		if !c.Passed && c.Device != anyDevice && !slices.Contains(list, c.Device) {
			list = append(list, c.Device)
		}
	}
	return list
}

// status returns the exit status for the report.
func (r *doctorReport) status(openErr error) int {
	if openErr == nil && r.Verdict.Severity != loader.Fine {
		return exitFailure
	}
	return status(openErr)
}

func (r *doctorReport) text(w io.Writer) {
	r.body(w)
	r.textVerdict(w)
}

// facts returns the part of a report's text that does not depend on findings.
func facts(r *loader.Report) string {
	var b strings.Builder
	for line := range strings.Lines(r.String()) {
		switch label, _, _ := strings.Cut(line, " "); label {
		case "cuInit", "fault", "warning", "note", "verdict":
			return b.String()
		}
		b.WriteString(line)
	}
	return b.String()
}

// textLine prints a line of the doctor's text.
func textLine(w io.Writer) func(label, format string, args ...any) {
	return func(label, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", label, fmt.Sprintf(format, args...))
	}
}

// body prints the report without the verdict.
func (r *doctorReport) body(w io.Writer) {
	line := textLine(w)
	if r.Report != nil {
		// Omit the verdict of the report's own text, as it does not include the checks.
		text := r.Report.String()
		if i := strings.LastIndex(text, "\nverdict "); i >= 0 {
			text = text[:i+1]
		}
		io.WriteString(w, text) // w keeps the error
		if r.Report.Library != nil {
			line("symbols", "it lacks %s of the API of CUDA %s", count(len(r.Missing), "function"),
				cu.Version(newestAPI))
		}
	} else if r.Driver != nil {
		line("driver", "%s, CUDA %s", r.Driver.Library, r.Driver.CUDA)
	}
	for _, d := range r.Devices {
		line("device", "%d: %s, %s, compute capability %s, %s GiB", d.Ordinal, d.Name, d.PCIBusID, d.ComputeCapability,
			gibibytes(d.MemoryTotal))
		r.textChecks(line, d.Ordinal)
	}
	r.textChecks(line, anyDevice)
}

func (r *doctorReport) textVerdict(w io.Writer) {
	line := textLine(w)
	line("verdict", "%s", oneLine(r.Verdict.Title))
	if r.Verdict.Fix != "" {
		line("fix", "%s", oneLine(r.Verdict.Fix))
	}
}

// textChecks prints a line for each check of a device.
func (r *doctorReport) textChecks(line func(label, format string, args ...any), ordinal int) {
	for _, c := range r.Checks {
		passed := "passed"
		if !c.Passed {
			passed = "FAILED"
		}
		if c.Device == ordinal {
			line("", "%s %s: %s", passed, c.Name, oneLine(c.Detail))
		}
	}
}
