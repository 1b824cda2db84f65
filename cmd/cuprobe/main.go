// Command cuprobe shows that CUDA works on this machine: it finds the driver,
// compiles a kernel that spins for a given time, and times it with events and
// with the host's clock.
//
// Usage:
//
//	cuprobe [-driver PATH] [-device N] [-spin DURATION]
//
// The exit status is 0 if all went well, 3 if there is no CUDA driver, 4 if
// there is a driver but no device, 2 for wrong usage, and 1 for any other
// failure.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/loader"
)

//go:embed spin.ptx
var spinPTX []byte

const (
	exitFailure  = 1
	exitUsage    = 2
	exitNoDriver = 3
	exitNoDevice = 4
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command with its arguments and output. It returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("cuprobe", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var (
		path   = fs.String("driver", "", "load the driver library at this `path` only")
		device = fs.Int("device", 0, "use the device with this `ordinal`")
		spin   = fs.Duration("spin", 10*time.Millisecond, "let the kernel run for this `duration`")
	)
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case fs.NArg() > 0 || *spin <= 0:
		fmt.Fprintln(stderr, "cuprobe: it takes no arguments but flags, and -spin must be positive; see cuprobe -h")
		return exitUsage
	}
	var opts []cu.Option
	if *path != "" {
		opts = append(opts, cu.WithLibrary(*path))
	}
	drv, err := cu.Open(opts...)
	if err == nil {
		err = probe(stdout, drv, *device, *spin)
	}
	if err != nil {
		given := *path != "" || os.Getenv(loader.Environment) != ""
		fmt.Fprintln(stderr, "cuprobe: "+explain(err, given))
	}
	return status(err)
}

// status returns the exit status for an error.
func status(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, cu.ErrNoDriver):
		return exitNoDriver
	case errors.Is(err, cu.ErrNoDevice):
		return exitNoDevice
	}
	return exitFailure
}

// explain returns an error as one paragraph. For a missing driver it says what
// was tried, and what to do; given says whether the user named the library.
func explain(err error, given bool) string {
	var le *loader.LoadError
	if !errors.As(err, &le) || len(le.Candidates) == 0 {
		return err.Error()
	}
	var tried []string
	for _, c := range le.Candidates {
		tried = append(tried, fmt.Sprintf("%s (%s): %v", c.Name, c.Source, c.Err))
	}
	if given {
		return fmt.Sprintf("the CUDA driver library that was named could not be loaded: %s. Leave -driver and %s away to search for one.",
			strings.Join(tried, "; "), loader.Environment)
	}
	return fmt.Sprintf("there is no CUDA driver on this machine that could be loaded. Tried %s. "+
		"Install the NVIDIA driver, run the container with its GPU runtime, or name the library with -driver or %s.",
		strings.Join(tried, "; "), loader.Environment)
}

// probe times the kernel on a device.
func probe(w io.Writer, drv *cu.Driver, ordinal int, spin time.Duration) error {
	version, err := drv.Version()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "driver  %v, CUDA %d.%d\n", drv, version/1000, version%1000/10)
	dev, err := drv.Device(ordinal)
	if err != nil {
		return err
	}
	name, err := dev.Name()
	if err != nil {
		return err
	}
	major, minor, err := dev.ComputeCapability()
	if err != nil {
		return err
	}
	mem, err := dev.TotalMem()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "device  %d: %s, compute capability %d.%d, %.1f GiB\n", ordinal, name, major, minor, float64(mem)/(1<<30))

	gpu, err := dev.PrimaryContext()
	if err != nil {
		return err
	}
	defer gpu.Close()
	began := time.Now()
	mod, err := gpu.LoadModule(spinPTX)
	if err != nil {
		return err
	}
	defer mod.Close()
	fmt.Fprintf(w, "kernel  cusim_spin, compiled from PTX in %v\n", time.Since(began).Round(100*time.Microsecond))

	t, err := timeKernel(gpu, mod, spin)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "poll    %d × %v, then %v\n", t.pending, cu.Pending, cu.Complete)
	fmt.Fprintf(w, "events  %v\n", t.events)
	fmt.Fprintf(w, "host    %v (%+.2f %%)\n", t.host, 100*(t.host.Seconds()/t.events.Seconds()-1))
	return nil
}

// timing is what was seen of one run of the kernel.
type timing struct {
	pending      int           // answers of Pending before the answer of Complete
	events, host time.Duration // by either clock
}

// timeKernel runs the kernel twice, so that the first run's set-up costs do not
// count, and times the second run.
func timeKernel(gpu *cu.Context, mod *cu.Module, spin time.Duration) (t timing, err error) {
	kernel, err := mod.Function("cusim_spin")
	if err != nil {
		return t, err
	}
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		return t, err
	}
	defer s.Close()
	start, err := gpu.NewEvent(cu.EventDefault)
	if err != nil {
		return t, err
	}
	defer start.Close()
	stop, err := gpu.NewEvent(cu.EventDefault)
	if err != nil {
		return t, err
	}
	defer stop.Close()

	for _, d := range []time.Duration{time.Microsecond, spin} {
		t = timing{}
		began := time.Now()
		if err := start.Record(s); err != nil {
			return t, err
		}
		if err := kernel.Launch(s, cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}, cu.U64(uint64(d))); err != nil {
			return t, err
		}
		if err := stop.Record(s); err != nil {
			return t, err
		}
		st, err := stop.Query()
		for ; err == nil && st == cu.Pending; st, err = stop.Query() {
			t.pending++
			runtime.Gosched()
		}
		if err != nil {
			return t, err
		}
		t.host = time.Since(began)
		if t.events, _, err = stop.Since(start); err != nil {
			return t, err
		}
	}
	return t, nil
}
