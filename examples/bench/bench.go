// Package bench measures a kernel on the software driver, and with PURECU_TEST_GPU=1 on the GPU:
//
//	go test -bench . ./examples/bench
package bench

import (
	"cmp"
	_ "embed"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cubench"
)

//go:embed mine.ptx
var ptx []byte

func measure(b *testing.B, drv *cu.Driver, opts ...cubench.Option) {
	dev, err1 := drv.Device(0) // the calls after a failed one return errors, too
	gpu, err2 := dev.PrimaryContext()
	mod, err3 := gpu.LoadModule(ptx)
	defer func() { _ = cmp.Or(mod.Close(), gpu.Close()) }()
	f, err4 := mod.Function("mine")
	launch, err5 := f.Prepare(cu.Grid1D(1, 1), cu.U32(20_000))
	if err := cmp.Or(err1, err2, err3, err4, err5); err != nil {
		b.Fatal(err)
	}
	cubench.Run(b, gpu, launch.Launch, opts...)
}
