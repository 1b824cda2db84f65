package graph_test

import (
	"context"
	"fmt"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cusim"
)

// A graph has signals and waits for another API as nodes. A launch can use other values.
func ExampleExec_Set_semaphores() {
	sim := cusim.New()
	drv := must(cu.Open(cu.WithSoftware(sim)))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	renderer := must(sim.NewExternalSemaphore(true))
	defer renderer.Close()
	file := must(renderer.File())
	frame := must(interop.ImportSemaphore(gpu, interop.SemaphoreHandle{Type: interop.SemaphoreTimelineFD,
		Handle: file.Fd()}))
	defer frame.Close()
	check(file.Close())
	mem := must(gpu.Alloc(64))
	defer mem.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()

	g := must(graph.New(gpu))
	defer g.Close()
	wait := must(g.Add(&graph.ExternalWait{Ops: []cu.ExternalOp{frame.At(0)}}))
	fill := must(g.Add(&graph.Memset{Dst: mem, Value: 1}, wait))
	signal := must(g.Add(&graph.ExternalSignal{Ops: []cu.ExternalOp{frame.At(0)}}, fill))
	x := must(g.Instantiate())
	defer x.Close()
	for i := range uint64(3) {
		check(x.Set(wait, &graph.ExternalWait{Ops: []cu.ExternalOp{frame.At(2 * i)}}))
		check(x.Set(signal, &graph.ExternalSignal{Ops: []cu.ExternalOp{frame.At(2*i + 1)}}))
		check(x.Launch(s))
		check(renderer.Wait(context.Background(), 2*i+1))
		renderer.Signal(2*i + 2) // the renderer has used the frame
	}
	check(s.Synchronize())
	fmt.Println("the semaphore is at", renderer.Value())
	// Output: the semaphore is at 6
}
