// Command nodecheck runs a kernel on every device of a node, and exits with 0 if CUDA works, 10 without
// a driver, 11 without a device, 12 if the driver is too old, 13 if a context is poisoned, 14 if a device
// is busy or lost, or a driver does not open it in time, 15 after another error of CUDA, and 16 after any other error.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	_ "github.com/purecu/purecu/cusim/auto"
)

//go:embed spin.ptx
var ptx []byte

func main() {
	log.SetFlags(0)
	log.SetPrefix("nodecheck: ")
	sim := flag.String("sim", "", "use a software driver: ok, or one that fails: "+
		"old, nodevice, mismatch, unknown, stub, busy, oom, hang, poisoned or lost")
	limit := flag.Duration("limit", 10*time.Second, "how long the driver may take to open the devices")
	flag.Parse()
	opts := []cu.Option{cu.WithMinVersion(12, 4)}
	if option, known := software[*sim]; known {
		opts = append(opts, cu.WithSoftware(cusim.New(option)))
	} else if *sim != "" {
		log.Fatalf("there is no -sim %s: see -help", *sim)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	for _, dev := range must(must(cu.OpenContext(ctx, opts...)).Devices()) {
		log.SetPrefix(fmt.Sprintf("nodecheck: %v: ", dev))
		gpu := must(dev.RetainPrimaryContext(ctx))
		s := must(gpu.NewStream(cu.StreamNonBlocking))
		mod := must(gpu.LoadModule(ptx))
		spin := must(mod.Function("spin"))
		must(s.Time(ctx, func() error { return spin.Launch(s, cu.Grid1D(1, 1), cu.U64(1000)) }))
		must(0, errors.Join(mod.Close(), s.Close(), gpu.Close())) // only the error matters
	}
	fmt.Println("ok")
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Print(err)
		os.Exit(status(err))
	}
	return v
}

// status returns the exit status that tells an error from others.
func status(err error) int {
	for i, kind := range [][]error{{cu.ErrNoDriver}, {cu.ErrNoDevice}, {errors.ErrUnsupported}, {cu.ErrContextPoisoned},
		{cu.ErrDeviceLost, cu.ResultDeviceUnavailable, context.DeadlineExceeded}} {
		if slices.ContainsFunc(kind, func(target error) bool { return errors.Is(err, target) }) {
			return 10 + i
		}
	}
	if _, cuda := errors.AsType[*cu.Error](err); cuda {
		return 15
	}
	return 16
}

func fault(function string, code int, slow time.Duration) cusim.Option {
	return cusim.Faults(cusim.Fault{Function: function, Every: true, Code: code, Slow: slow})
}

// software are the software drivers of -sim.
var software = map[string]cusim.Option{
	"ok": cusim.Devices(1), "old": cusim.Version(11080), "nodevice": cusim.Devices(0),
	"mismatch": fault("cuInit", 803, 0), "unknown": fault("cuInit", 999, 0), "stub": fault("cuInit", 34, 0),
	"busy": fault("cuDevicePrimaryCtxRetain", 46, 0), "oom": fault("cuDevicePrimaryCtxRetain", 2, 0),
	"hang":     fault("cuDevicePrimaryCtxRetain", 0, 3*time.Second),
	"poisoned": func(d *cusim.Driver) { d.Poison(700) }, "lost": (*cusim.Driver).LoseDevice,
}
