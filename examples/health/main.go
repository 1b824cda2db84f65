// Command health reads the temperature, power, memory, utilization and ECC errors of every GPU through NVML, and with
// -watch 1m it reports XIDs as they happen. It needs no CUDA. Build it with -tags cu_static for a file that also starts
// where there is no glibc. It exits with 0 if all GPUs are well, 1 after an error, and 2 if a GPU is not well. An XID
// does not count if nothing must be done about the GPU itself, for example because only a program has failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/purecu/purecu/nvml"
)

func main() {
	duration := flag.Duration("watch", 0, "wait for XIDs for this long")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *duration)
	defer cancel()
	well, err := run(ctx, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "health:", err)
		os.Exit(1)
	case !well:
		os.Exit(2)
	}
}

// run reads every GPU, and reports XIDs until the context ends. It returns whether all GPUs are well.
func run(ctx context.Context, w io.Writer, opts ...nvml.Option) (well bool, err error) {
	// A GPU that fails may not answer for minutes. This program says so, and goes on with the next one.
	lib, err := nvml.Open(append(opts, nvml.WithTimeout(10*time.Second))...)
	if err != nil {
		return false, err
	}
	defer lib.Close()
	version, err := lib.DriverVersion()
	if err != nil {
		return false, err
	}
	count, err := lib.DeviceCount()
	if err != nil {
		return false, err
	}
	fmt.Fprintf(w, "driver %s, %d GPUs\n", version, count)
	well = true
	var watched []*nvml.Device
	for dev, err := range lib.Devices() {
		if err == nil {
			err = describe(w, dev, &well)
		}
		if err != nil { // the others may be well
			well = false
			fmt.Fprintln(w, err)
			continue
		}
		watched = append(watched, dev)
	}
	if ctx.Err() != nil || len(watched) == 0 {
		return well, nil
	}
	err = watch(ctx, lib, watched, func(e nvml.Event) {
		fmt.Fprintln(w, e)
		x, ok := e.XID()
		if ok {
			fmt.Fprintf(w, "\t%s To do: %s.\n", x.Meaning(), x.Action())
		}
		well = well && ok && harmless(x)
	})
	return well, err
}

// harmless reports whether an XID leaves the GPU well: nothing must be done about the GPU itself, or another XID says
// what.
func harmless(x nvml.XID) bool {
	switch x.Action() {
	case nvml.ActionNone, nvml.ActionFollowOther, nvml.ActionRestartApplication:
		return true
	}
	return false
}

// describe writes a line about a GPU. It clears well if the GPU has uncorrectable ECC errors. The error says that the
// GPU cannot be read; a value that the GPU does not have is left out.
func describe(w io.Writer, dev *nvml.Device, well *bool) error {
	name, err := dev.Name()
	if err != nil {
		return err
	}
	uuid, err := dev.UUID()
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%v: %s, %s", dev, name, uuid)
	temperature, err1 := dev.Temperature(nvml.TemperatureGPU)
	power, err2 := dev.PowerUsage()
	memory, err3 := dev.Memory()
	use, err4 := dev.Utilization()
	corrected, err5 := dev.ECCErrors(nvml.MemoryErrorCorrected, nvml.ECCVolatile)
	uncorrected, err6 := dev.ECCErrors(nvml.MemoryErrorUncorrected, nvml.ECCVolatile)
	for _, value := range []struct {
		err  error
		text string
	}{
		{err1, temperature.String()},
		{err2, power.String()},
		{err3, fmt.Sprintf("%.1f of %.1f GiB used", gib(memory.Used), gib(memory.Total))},
		{err4, fmt.Sprintf("GPU %v, memory %v", use.GPU, use.Memory)},
		{err5, fmt.Sprintf("ECC errors %d corrected", corrected)},
		{err6, fmt.Sprintf("%d uncorrected", uncorrected)},
	} {
		switch {
		case value.err == nil:
			line += ", " + value.text
		case !errors.Is(value.err, errors.ErrUnsupported):
			return value.err
		}
	}
	*well = *well && uncorrected == 0
	fmt.Fprintln(w, line)
	return nil
}

func gib(n uint64) float64 { return float64(n) / (1 << 30) }

// watch calls report for each XID and each uncorrectable ECC error of the devices until the context ends.
func watch(ctx context.Context, lib *nvml.Library, devices []*nvml.Device, report func(nvml.Event)) error {
	set, err := lib.NewEventSet()
	if err != nil {
		return err
	}
	defer set.Close()
	for _, dev := range devices {
		err := set.Add(dev, nvml.EventXIDCritical|nvml.EventDoubleBitECC)
		if errors.Is(err, errors.ErrUnsupported) { // without ECC
			err = set.Add(dev, nvml.EventXIDCritical)
		}
		if err != nil {
			return err
		}
	}
	for e, err := range set.All(ctx) {
		if err != nil {
			return err
		}
		report(e)
	}
	return nil
}
