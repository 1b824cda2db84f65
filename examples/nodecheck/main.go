// Command nodecheck runs a kernel on every device of a node, and exits with 0 if CUDA works, 10 without
// a driver, 11 without a device, 12 if the driver is too old, 13 if a context is poisoned, 14 if a device
// is busy or lost, 15 after another error of CUDA, and 16 after any other error.
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
	sim := flag.String("sim", "", "use a software driver: ok, "+
		"or old, nodevice, mismatch, unknown, stub, busy, oom, hang, poisoned or lost, to see what is reported")
	flag.Parse()
	opts := []cu.Option{cu.WithMinVersion(12, 4)}
	if *sim != "" {
		opts = append(opts, cu.WithSoftware(cusim.New(software(*sim))))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, dev := range must(must(cu.Open(opts...)).Devices()) {
		log.SetPrefix(fmt.Sprintf("nodecheck: %v: ", dev))
		gpu := must(dev.PrimaryContext())
		s := must(gpu.NewStream(cu.StreamNonBlocking))
		mod := must(gpu.LoadModule(ptx))
		spin := must(mod.Function("cusim_spin"))
		must(s.Time(ctx, func() error { return spin.Launch(s, cu.Grid1D(1, 1), cu.U64(1000)) }))
		must(dev, errors.Join(mod.Close(), s.Close(), gpu.Close()))
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

func status(err error) int {
	is := func(target error) bool { return errors.Is(err, target) }
	_, cuda := errors.AsType[*cu.Error](err)
	lost := is(cu.ErrDeviceLost) || is(cu.ResultDeviceUnavailable)
	return 10 + slices.Index([]bool{is(cu.ErrNoDriver), is(cu.ErrNoDevice), is(errors.ErrUnsupported),
		is(cu.ErrContextPoisoned), lost, cuda, true}, true)
}

// software returns what makes a software driver fail.
func software(how string) cusim.Option {
	fault := func(function string, code int, slow time.Duration) cusim.Option {
		return cusim.Faults(cusim.Fault{Function: function, Every: true, Code: code, Slow: slow})
	}
	return map[string]cusim.Option{
		"old":      cusim.Version(11080),
		"nodevice": cusim.Devices(0),
		"mismatch": fault("cuInit", 803, 0),
		"unknown":  fault("cuInit", 999, 0),
		"stub":     fault("cuInit", 34, 0),
		"busy":     fault("cuDevicePrimaryCtxRetain", 46, 0),
		"oom":      fault("cuDevicePrimaryCtxRetain", 2, 0),
		"hang":     fault("cuDevicePrimaryCtxRetain", 0, 3*time.Second),
		"poisoned": func(d *cusim.Driver) { d.Poison(700) },
		"lost":     (*cusim.Driver).LoseDevice,
	}[how]
}
