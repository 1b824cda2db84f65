package cu_test

import (
	"context"
	"fmt"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// A renderer in Vulkan has memory that CUDA fills, and a timeline semaphore: 1 says that the memory is
// filled, and 2 that it may be filled again. Here the test is the renderer.
func ExampleExternalSemaphore() {
	sim := cusim.New()
	drv := must(cu.Open(cu.WithSoftware(sim)))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()

	// In Vulkan: vkGetMemoryFdKHR, vkGetSemaphoreFdKHR.
	theirs := must(gpu.NewPhysicalMem(1, cu.PhysicalOptions{Shareable: true}))
	defer theirs.Close()
	memory := must(theirs.Export())
	renderer := must(sim.NewExternalSemaphore(true))
	defer renderer.Close()
	semaphore := must(renderer.File())

	mem := must(gpu.ImportMem(cu.ExternalMemHandle{Type: cu.ExternalMemOpaqueFD, Handle: memory.Fd()}, theirs.Size()))
	defer mem.Close()
	frame := must(gpu.ImportSemaphore(cu.ExternalSemaphoreHandle{Type: cu.ExternalSemaphoreTimelineFD,
		Handle: semaphore.Fd()}))
	defer frame.Close()
	check(memory.Close()) // what was imported stays
	check(semaphore.Close())

	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	pixels := mem.Span(0, 4) // a buffer within the memory
	check(s.Memset(pixels, 7))
	check(s.SignalExternal(frame.At(1)))
	check(s.WaitExternal(frame.At(2))) // the stream waits, this program does not
	check(s.Memset(pixels, 8))

	check(renderer.Wait(context.Background(), 1))
	seen := make([]byte, 4)
	check(mem.CopyTo(seen))
	fmt.Println("the renderer sees", seen)
	renderer.Signal(2)
	check(s.Synchronize())
	check(mem.CopyTo(seen))
	fmt.Println("the next frame is", seen)
	// Output:
	// the renderer sees [7 7 7 7]
	// the next frame is [8 8 8 8]
}

// A graph has signals and waits for another API as nodes. A launch can use other values.
func ExampleGraphExec_Set_semaphores() {
	sim := cusim.New()
	drv := must(cu.Open(cu.WithSoftware(sim)))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	renderer := must(sim.NewExternalSemaphore(true))
	defer renderer.Close()
	file := must(renderer.File())
	frame := must(gpu.ImportSemaphore(cu.ExternalSemaphoreHandle{Type: cu.ExternalSemaphoreTimelineFD,
		Handle: file.Fd()}))
	defer frame.Close()
	check(file.Close())
	mem := must(gpu.Alloc(64))
	defer mem.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()

	g := must(gpu.NewGraph())
	defer g.Close()
	wait := must(g.Add(&cu.ExternalWaitNode{Ops: []cu.ExternalOp{frame.At(0)}}))
	fill := must(g.Add(&cu.MemsetNode{Dst: mem, Value: 1}, wait))
	signal := must(g.Add(&cu.SignalNode{Ops: []cu.ExternalOp{frame.At(0)}}, fill))
	x := must(g.Instantiate())
	defer x.Close()
	for i := range uint64(3) {
		check(x.Set(wait, &cu.ExternalWaitNode{Ops: []cu.ExternalOp{frame.At(2 * i)}}))
		check(x.Set(signal, &cu.SignalNode{Ops: []cu.ExternalOp{frame.At(2*i + 1)}}))
		check(x.Launch(s))
		check(renderer.Wait(context.Background(), 2*i+1))
		renderer.Signal(2*i + 2) // the renderer has used the frame
	}
	check(s.Synchronize())
	fmt.Println("the semaphore is at", renderer.Value())
	// Output: the semaphore is at 6
}
