// Command compile compiles a kernel with NVRTC, for the GPU that there is, and launches it. Programs that ship compiled
// PTX do not need NVRTC: see vecadd. With -cache=FOLDER the PTX is kept there, and not compiled again.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/purecu/purecu/cu"
	_ "github.com/purecu/purecu/cusim/auto"
)

//go:embed add.cu
var source string

func main() {
	log.SetFlags(0)
	log.SetPrefix("compile: ")
	folder := flag.String("cache", "", "a `folder` for compiled PTX")
	flag.Parse()
	if flag.NArg() > 0 { // a file instead
		source = string(must(os.ReadFile(flag.Arg(0))))
	}
	c := must(open())
	dev := must(must(cu.Open()).Device(0))
	major, minor := must(dev.Attribute(cu.DeviceAttributeComputeCapabilityMajor)),
		must(dev.Attribute(cu.DeviceAttributeComputeCapabilityMinor))
	options := []string{fmt.Sprintf("--gpu-architecture=compute_%d%d", major, minor), "--std=c++17"}
	var ptx []byte
	done := "compiled"
	if *folder == "" {
		ptx = must(c.compile(source, "add.cu", options...))
	} else {
		var found bool
		if ptx, found = must2(c.cached(*folder, source, "add.cu", options...)); found {
			done = "found what was compiled"
		}
	}

	const n = 1000
	x, y, sum := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], y[i] = float32(i), 2*float32(i)
	}
	gpu := must(dev.PrimaryContext())
	s, mod := must(gpu.NewStream(cu.StreamNonBlocking)), must(gpu.LoadModule(ptx))
	dx, dy, dsum := must(cu.AllocFrom(gpu, x)), must(cu.AllocFrom(gpu, y)), must(cu.AllocFor[float32](gpu, n))
	add := must(mod.Function("add_f32"))
	must(0, errors.Join(add.Launch(s, cu.Grid1D(n, 256), cu.Ptr(dsum), cu.Ptr(dx), cu.Ptr(dy), cu.U32(n)),
		s.Synchronize(), cu.CopyTo(dsum, sum)))
	must(0, errors.Join(dsum.Close(), dy.Close(), dx.Close(), mod.Close(), s.Close(), gpu.Close()))
	for i, v := range sum {
		if v != 3*float32(i) {
			log.Fatalf("sum[%d] = %v", i, v)
		}
	}
	var release [2]int32
	must(0, c.version(&release[0], &release[1]))
	fmt.Printf("%s with NVRTC %d.%d, and correct\n", done, release[0], release[1])
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func must2[T, U any](v T, w U, err error) (T, U) { return must(v, err), w }
