// Command two-streams runs two kernels on two streams, and polls until both are done. The second
// stream waits for the first one on the GPU.
package main

import (
	_ "embed"
	"fmt"
	"log"
	"time"

	"github.com/purecu/purecu/cu"
	_ "github.com/purecu/purecu/cusim/auto"
)

//go:embed spin.ptx
var ptx []byte

func main() {
	drv := must(cu.Open())
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	mod := must(gpu.LoadModule(ptx))
	defer mod.Close()
	spin := must(mod.Function("spin"))
	load, compute := must(gpu.NewStream(cu.StreamNonBlocking)), must(gpu.NewStream(cu.StreamNonBlocking))
	defer load.Close()
	defer compute.Close()
	var loaded, done cu.Event // created by their first record
	defer loaded.Close()
	defer done.Close()

	one := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	check(spin.Launch(load, one, cu.U64(2e6))) // 2 ms of work
	check(loaded.Record(load))
	check(compute.WaitEvent(&loaded)) // the stream waits, this program does not
	check(spin.Launch(compute, one, cu.U64(5e6)))
	check(done.Record(compute))

	begin := time.Now()
	for must(done.Query()) == cu.Pending {
		time.Sleep(100 * time.Microsecond) // or do something useful
	}
	fmt.Println("both kernels are done, after", time.Since(begin).Round(time.Millisecond))
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
