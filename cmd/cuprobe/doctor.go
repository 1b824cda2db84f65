package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/initresult"
	"github.com/purecu/purecu/loader"
)

func doctorCommand() command {
	return command{
		name:  "doctor",
		short: "find the problem, and how to fix it",
		long: `It examines the driver's library, the kernel module, the device files, the container
and the environment. Then it initialises the driver. On every device, or on the one
that -device names, it creates a context, compiles and times a kernel, and copies
data to the GPU and back. Its last lines are the verdict and, if there is a problem,
the fix. A fix that is a command can be pasted into a shell.

The exit status is 0 if CUDA works, 3 if there is no driver, 4 if there is no device,
and 1 if something else fails, or the bundle cannot be written.

With -driver soft it does not examine the machine. It runs the checks of a device on
the software driver, which tests purecu, and not a GPU.

If a library, a driver or a device hangs, the doctor continues after a minute at most.
If something else hangs later, it continues after ten seconds. While it waits, it
prints on stderr what it waits for.

-bundle writes the results, versions, the driver's features and missing functions, and
the environment variables for CUDA to one JSON file for a bug report, and prints a
description of the file. Home folders and user names in paths are replaced. Still,
read the file before you send it.

Fields with -json: report (null with -driver soft; the result of the loader's Diagnose: platform,
distribution, distributionIDs, wsl, jetson, onlyMusl, container, uid, environment,
environmentIgnored, namedBy, library: name, source, path, release, version,
simulated,
candidates: name, source, path, problem, error, remedy, ldLibraryPathElement, kernel:
release, flavor, loaded, uvm, nouveau, helperInstalled, helper, pciKnown, gpus:
address, id, driver, devices: path, access, error, mode, uid, gid, group, init:
code, name, findings: severity, title, detail, fix), driver and features (null if
the driver cannot be opened; features has version, contextID, streamID, paramInfo,
elapsedTimeV2, recordExternal, contextEvents, greenContexts), missing (export,
since: functions of the API of CUDA 13.0 that the driver lacks), devices, checks (device:
-1 stands for the driver itself, name, passed, detail, tookNS), verdict (severity:
fine or fault, title, detail, fix), bundle (null without -bundle: path, written,
error), and error if the driver cannot be opened or -device names no device. No
list is null.`,
		define: func(fs *flag.FlagSet) func(*call) error {
			bundle := fs.String("bundle", "", "write a bug report to this `FILE`, which must not exist")
			return func(c *call) error { return runDoctor(c, *bundle) }
		},
	}
}

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

// missingSymbol is a function of the newest API that the driver lacks.
type missingSymbol struct {
	Export string `json:"export"`
	Since  int    `json:"since"`
}

// check is a step of the test of a device.
type check struct {
	Device int    `json:"device"`
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Detail describes the result or the error.
	Detail string        `json:"detail"`
	Took   time.Duration `json:"tookNS"`

	err error // nil if it passed
}

// diagnose examines the machine, and adds the result of opening the driver.
func (c *call) diagnose(opened error) *loader.Report {
	r := c.look()
	addInit(r, opened)
	return r
}

// look examines the machine.
func (c *call) look() *loader.Report {
	var opts []loader.Option
	if path := c.library(); path != "" {
		opts = append(opts, loader.WithLibrary(path))
	}
	r := loader.Diagnose(opts...)
	if r.NamedBy == "program" && r.Library == nil && len(r.Findings) > 0 {
		// The user has named the library, and not the program.
		f := &r.Findings[0]
		f.Title = strings.Replace(f.Title, "the program names", c.named+" names", 1)
		f.Fix = "cuprobe doctor -driver auto # searches for NVIDIA's library"
		if !strings.ContainsAny(c.driver, `/\.`) { // perhaps a mistyped name
			f.Fix = "let " + c.named + " name auto, cuda, soft, or the path of a library"
		}
	}
	return r
}

// addInit adds the result of opening the driver to a report. If opening has failed, it makes sure
// that the report contains a fault.
func addInit(r *loader.Report, opened error) {
	var e *cu.Error
	switch {
	case opened == nil:
		r.AddInit(int32(cu.ResultSuccess))
		return
	case errors.Is(opened, errHangs):
		// This is more severe than all other findings.
		f := loader.Finding{Severity: loader.Fault, Title: "the driver hangs when it is opened",
			Detail: oneLine(opened.Error()), Fix: kernelLog}
		if v := r.Verdict(); v.Severity != loader.Fine {
			f.Detail, f.Fix = f.Detail+"; most likely because "+v.Title, v.Fix
		}
		r.Findings = slices.Insert(r.Findings, 0, f)
		return
	case errors.As(opened, &e) && e.Op == opInit:
		r.AddInit(int32(e.Result))
	}
	if r.Verdict().Severity != loader.Fine {
		return
	}
	f := loader.Finding{Severity: loader.Fault, Title: "the driver cannot be opened", Detail: oneLine(opened.Error()),
		Fix: kernelLog}
	if errors.Is(opened, cu.ErrNoDevice) { // cuInit itself has succeeded
		f.Title, f.Fix = "the driver reports no device", "nvidia-smi -L; env | grep ^CUDA_VISIBLE_DEVICES"
	}
	r.Findings = slices.Insert(r.Findings, 0, f)
}

// softFix is the advice if a check fails on the software driver, which has no hardware that could
// be faulty.
const softFix = "cuprobe doctor -driver soft -bundle FILE # this is a bug in purecu: FILE belongs to the report"

// kernelLog is a command that shows the messages of the driver's kernel module.
const kernelLog = "sudo dmesg | grep -e NVRM -e Xid"

// maxWait is how long opening the driver may take, and all checks of a device. The first context of
// a process takes about a second, and longer on large machines. After something has hung, other
// steps are likely to hang, and get maxWaitHung.
const (
	maxWait       = time.Minute
	maxWaitHung   = 10 * time.Second
	silence       = 3 * time.Second // after this time a message says what is waited for
	examining     = "the driver's library and the device files"
	openingDriver = "the driver, which is being opened"
)

// errHangs is the error of a call that does not return.
var errHangs = errors.New("it has not ended: the GPU or the driver hangs")

// waiter waits for calls that may hang.
type waiter struct {
	after func(time.Duration) <-chan time.Time
	say   io.Writer
	hung  bool         // a call has hung
	beats atomic.Int64 // how often a long call has shown that it continues
}

// timeout returns a channel that ends the wait for a call.
func (w *waiter) timeout() <-chan time.Time {
	if w.hung {
		return w.after(maxWaitHung)
	}
	return w.after(maxWait)
}

// waiting prints what is waited for.
func (w *waiter) waiting(what string) { fmt.Fprintf(w.say, "cuprobe: waiting for %s\n", what) }

// within calls f, and returns an error after the timeout, which begins anew with each beat. Then f
// continues to run, as a call of a driver cannot be interrupted.
func within[T any](w *waiter, what string, f func() (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := f()
		done <- outcome{v, err}
	}()
	seen := w.beats.Load()
	for tooLong, quiet := w.timeout(), w.after(silence); ; {
		var expired <-chan time.Time
		select {
		case o := <-done:
			return o.v, o.err
		case <-quiet:
			expired = quiet
		case <-tooLong:
			expired = tooLong
		}
		switch n := w.beats.Load(); {
		case n != seen: // it continues
			seen, tooLong, quiet = n, w.timeout(), w.after(silence)
		case expired == quiet:
			w.waiting(what)
			quiet = nil
		default:
			w.hung = true
			var none T
			return none, errHangs
		}
	}
}

func runDoctor(c *call, path string) error {
	early := ""
	r, opened := c.doctor(&waiter{after: c.after, say: c.err}, func(r *loader.Report) {
		// Print the known facts before a step that may hang.
		if !c.json {
			early = facts(r)
			io.WriteString(c.out, early) // c.out keeps the error
		}
	})
	var said string
	if path != "" {
		b := &bundleResult{Path: path}
		if err := c.writeBundle(path, r); err != nil {
			b.Error = err.Error()
		} else {
			b.Written, said = true, c.bundled(path)
		}
		r.Bundle = b // the file itself does not contain this
	}
	if err := c.showDoctor(r, early, said); err != nil {
		return err
	}
	s := r.status(opened)
	if s == exitOK && r.Bundle != nil && !r.Bundle.Written {
		s = exitFailure
	}
	if s != exitOK {
		return reported(s)
	}
	return nil
}

// doctor examines the machine, passes the result to looked, and then examines the driver. It also
// returns the error of opening the driver.
func (c *call) doctor(w *waiter, looked func(*loader.Report)) (r *doctorReport, opened error) {
	r = &doctorReport{Missing: []missingSymbol{}, Devices: []deviceInfo{}, Checks: []check{}}
	if !c.software() {
		// The search has its own timeouts, and finds more than this function could.
		look := func() (*loader.Report, error) { return c.look(), nil }
		r.Report, _ = within(&waiter{after: w.endless, say: w.say}, examining, look)
		looked(r.Report)
	}
	opened = r.examineDriver(c, w)
	r.judge()
	if r.Error != nil && r.Error.Fix == "" {
		r.Error.Fix = r.Verdict.Fix
	}
	return r, opened
}

// endless is an after without a timeout: it ends the silence, but never the wait.
func (w *waiter) endless(d time.Duration) <-chan time.Time {
	if d == silence {
		return w.after(d)
	}
	return nil
}

// showDoctor prints the report without the part that was printed before. The message about the
// bundle is above the verdict, or with -json on standard error.
func (c *call) showDoctor(r *doctorReport, early, said string) error {
	if c.json {
		io.WriteString(c.err, said) // an error could not be reported
		return c.show(r)
	}
	var body strings.Builder
	r.body(&body)
	io.WriteString(c.out, strings.TrimPrefix(body.String(), early)+said)
	r.textVerdict(c.out)
	if r.Bundle != nil && !r.Bundle.Written {
		fmt.Fprintln(c.err, "cuprobe: "+r.Bundle.Error)
	}
	return nil
}

// examineDriver opens the driver, looks up its functions, and checks its devices. It returns the
// error of opening the driver.
func (r *doctorReport) examineDriver(c *call, w *waiter) (opened error) {
	if r.Report != nil && slices.ContainsFunc(r.Report.Candidates,
		func(f loader.CandidateFacts) bool { return f.Problem == loader.Stuck }) {
		// Loading the library again would hang again.
		opened = &cu.Error{Op: "Open", Err: fmt.Errorf("%w: its library does not finish loading", cu.ErrNoDriver)}
		addInit(r.Report, opened)
		r.Error = newFailure(opened, func() *loader.Report { return r.Report })
		return opened
	}
	// The lookup of functions needs no device. It comes before the steps that may hang.
	if r.Report != nil && r.Report.Library != nil {
		if lib, err := loader.Open(c.library()); err == nil {
			for _, s := range cu.LibrarySymbols(lib) {
				if s.Current && s.Err != nil {
					r.Missing = append(r.Missing, missingSymbol{s.Export, s.Since})
				}
			}
		}
	}
	drv, opened := within(w, openingDriver, c.open)
	if r.Report != nil {
		addInit(r.Report, opened)
	}
	if opened != nil {
		r.Error = newFailure(opened, func() *loader.Report { return r.Report })
		return opened
	}
	devs, err := c.devices(drv)
	if c.device != anyDevice && errors.Is(err, cu.ResultInvalidDevice) {
		r.Error = newFailure(err, func() *loader.Report { return r.Report })
		f := loader.Finding{Severity: loader.Fault, Title: fmt.Sprintf("there is no device %d", c.device),
			Detail: oneLine(err.Error()),
			Fix:    "cuprobe devices # lists those that there are"}
		r.found(f)
		devs, err = nil, nil
	}
	if err == nil {
		err = r.examine(c, drv, devs, w)
	}
	if err != nil {
		r.Checks = append(r.Checks, check{Device: anyDevice, Name: "querying the driver", Detail: err.Error(),
			err: err})
	}
	return nil
}

// examine queries the driver's properties, and checks the devices.
func (r *doctorReport) examine(c *call, drv *cu.Driver, devs []*cu.Device, w *waiter) error {
	info, err := c.driverInfo(drv)
	if err != nil {
		return err
	}
	features, err := drv.Features()
	if err != nil {
		return err
	}
	r.Driver, r.Features = &info, &features
	for _, dev := range devs {
		// If a device hangs, queries of other devices may hang, too.
		info, err := within(w, fmt.Sprintf("the properties of device %d", dev.Ordinal()),
			func() (deviceInfo, error) { return newDeviceInfo(dev) })
		if err != nil {
			return err
		}
		r.Devices = append(r.Devices, info)
		r.Checks = append(r.Checks, checkDevice(dev, w)...)
	}
	return nil
}

// found adds a fault that is more severe than the previous findings. For the software driver, which
// has no report, it sets the verdict.
func (r *doctorReport) found(f loader.Finding) {
	if r.Report == nil {
		r.Verdict = f
		return
	}
	r.Report.Findings = slices.Insert(r.Report.Findings, 0, f)
}

// judge adds findings for the checks, and sets the verdict.
func (r *doctorReport) judge() {
	if i := slices.IndexFunc(r.Checks, func(c check) bool { return !c.Passed }); i >= 0 {
		r.found(r.failed(r.Checks[i]))
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

// failed returns the finding for a check that has failed.
func (r *doctorReport) failed(c check) loader.Finding {
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

// status returns the exit status for the report.
func (r *doctorReport) status(opened error) int {
	if opened == nil && r.Verdict.Severity != loader.Fine {
		return exitFailure
	}
	return status(opened)
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
			line("symbols", "it lacks %s of the API of CUDA 13.0", count(len(r.Missing), "function"))
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
