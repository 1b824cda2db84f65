package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/loader"
)

func doctorCommand() command {
	return command{
		name:  "doctor",
		short: "find the problem, and how to fix it",
		long: `It examines the driver's library, the kernel module, the device files, the container
and the environment. Then it initialises the driver. On every device, or on the one
that -device names, it creates a context, compiles and times a kernel, and copies
data to the GPU and back. If NVML can be loaded, it asks NVML for faulty GPUs, and for
those that CUDA does not see, unless -driver names a library. Its last lines are the
verdict and, if there is a problem, the fix. A fix that is a command can be pasted into
a shell.

The exit status is 0 if CUDA works, 3 if there is no driver, 4 if there is no device,
and 1 if something else fails, or the bundle cannot be written.

With -driver soft it does not examine the machine. It runs the checks of a device on
the software driver, and reads the NVML of that. This tests purecu, and not a GPU.

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
		define: func(fs *flag.FlagSet) func(*invocation) error {
			bundle := fs.String("bundle", "", "write a bug report to this `FILE`, which must not exist")
			return func(c *invocation) error { return runDoctor(c, *bundle) }
		},
	}
}

func runDoctor(c *invocation, path string) error {
	early := ""
	r, openErr := c.doctor(&waiter{after: c.after, messages: c.err}, func(r *loader.Report) {
		// Print the known facts before a step that may hang.
		if !c.json {
			early = facts(r)
			io.WriteString(c.out, early) // c.out keeps the error
		}
	})
	var message string
	if path != "" {
		b := &bundleResult{Path: path}
		if err := c.writeBundle(path, r); err != nil {
			b.Error = err.Error()
		} else {
			b.Written, message = true, c.bundled(path)
		}
		r.Bundle = b // the file itself does not contain this
	}
	if err := c.showDoctor(r, early, message); err != nil {
		return err
	}
	s := r.status(openErr)
	if s == exitOK && r.Bundle != nil && !r.Bundle.Written {
		s = exitFailure
	}
	if s != exitOK {
		return reported(s)
	}
	return nil
}

// doctor examines the machine, passes the result to examined, and then examines the driver. It also
// returns the error of opening the driver.
func (c *invocation) doctor(w *waiter, examined func(*loader.Report)) (r *doctorReport, openErr error) {
	r = &doctorReport{Missing: []missingSymbol{}, Devices: []deviceInfo{}, Checks: []check{}}
	if !c.software() {
		// The search has its own timeouts, and finds more than this function could.
		look := func() (*loader.Report, error) { return c.look(), nil }
		r.Report, _ = within(&waiter{after: w.withoutTimeout, messages: w.messages}, examining, look)
		examined(r.Report)
	}
	openErr = r.examineDriver(c, w)
	r.judge(r.examineNVML(c, w, openErr)...)
	if r.Error != nil && r.Error.Fix == "" {
		r.Error.Fix = r.Verdict.Fix
	}
	return r, openErr
}

// showDoctor prints the report without the part that was printed before. The message about the
// bundle is above the verdict, or with -json on standard error.
func (c *invocation) showDoctor(r *doctorReport, early, message string) error {
	if c.json {
		io.WriteString(c.err, message) // an error could not be reported
		return c.show(r)
	}
	var body strings.Builder
	r.body(&body)
	io.WriteString(c.out, strings.TrimPrefix(body.String(), early)+message)
	r.textVerdict(c.out)
	if r.Bundle != nil && !r.Bundle.Written {
		fmt.Fprintln(c.err, "cuprobe: "+r.Bundle.Error)
	}
	return nil
}

// open looks up the driver's functions, and opens the driver.
func (r *doctorReport) open(c *invocation, w *waiter) (*cu.Driver, error) {
	if r.Report != nil && slices.ContainsFunc(r.Report.Candidates,
		func(f loader.CandidateFacts) bool { return f.Problem == loader.Stuck }) {
		// Loading the library again would hang again.
		return nil, &cu.Error{Op: "Open", Err: fmt.Errorf("%w: its library does not finish loading", cu.ErrNoDriver)}
	}
	// The lookup of functions needs no device. It comes before the steps that may hang.
	if r.Report != nil && r.Report.Library != nil {
		if lib, err := loader.Open(c.library()); err == nil {
			for _, s := range cu.LibrarySymbols(lib) {
				if s.Current && s.Since <= newestAPI && s.Err != nil {
					r.Missing = append(r.Missing, missingSymbol{s.Export, s.Since})
				}
			}
		}
	}
	return within(w, openingDriver, c.open)
}

// examineDriver opens the driver, and checks its devices. It returns the error of opening the driver.
func (r *doctorReport) examineDriver(c *invocation, w *waiter) (openErr error) {
	drv, openErr := r.open(c, w)
	if r.Report != nil {
		addInit(r.Report, openErr)
	}
	if openErr != nil {
		r.Error = newFailure(openErr, func() *loader.Report { return r.Report })
		return openErr
	}
	devs, err := c.devices(drv)
	if c.device != anyDevice && errors.Is(err, cu.ResultInvalidDevice) {
		r.Error = newFailure(err, func() *loader.Report { return r.Report })
		r.addFault(loader.Finding{Severity: loader.Fault, Title: fmt.Sprintf("there is no device %d", c.device),
			Detail: oneLine(err.Error()), Fix: "cuprobe devices # lists those that there are"})
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
func (r *doctorReport) examine(c *invocation, drv *cu.Driver, devs []*cu.Device, w *waiter) error {
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
