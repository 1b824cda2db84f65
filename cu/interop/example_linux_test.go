package interop_test

import (
	"context"
	"fmt"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
)

// A renderer in Vulkan has memory that CUDA fills, and a timeline semaphore: 1 says that the memory is
// filled, and 2 that it may be filled again. Here the test is the renderer.
func ExampleSemaphore() {
	sim := cusim.New()
	drv := must(cu.Open(cu.WithSoftware(sim)))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()

	// In Vulkan: vkGetMemoryFdKHR, vkGetSemaphoreFdKHR.
	theirs := must(memory.NewPhysical(gpu, 1, memory.PhysicalOptions{Shareable: true}))
	defer theirs.Close()
	memoryFile := must(theirs.Export())
	renderer := must(sim.NewExternalSemaphore(true))
	defer renderer.Close()
	semaphoreFile := must(renderer.File())

	mem := must(interop.ImportMem(gpu, interop.MemHandle{Type: interop.MemOpaqueFD, Handle: memoryFile.Fd()}, theirs.Size()))
	defer mem.Close()
	frame := must(interop.ImportSemaphore(gpu, interop.SemaphoreHandle{Type: interop.SemaphoreTimelineFD,
		Handle: semaphoreFile.Fd()}))
	defer frame.Close()
	check(memoryFile.Close()) // what was imported stays
	check(semaphoreFile.Close())

	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	pixels := mem.Span(0, 4) // a buffer within the memory
	check(s.Memset(pixels, 7))
	check(interop.Signal(s, frame.At(1)))
	check(interop.Wait(s, frame.At(2))) // the stream waits, this program does not
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
