package cu_test

import (
	"errors"
	"fmt"
	"math"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// Memory of a pool is allocated and freed in the order of a stream. Only Synchronize waits for the GPU.
func ExampleStream_Alloc() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()

	seen := make(map[uint64]bool)
	for i := range 3 {
		mem := must(s.Alloc(1 << 20))
		seen[mem.Handle()] = true
		check(s.Memset(mem, byte(i)))
		check(mem.Close()) // after the memset; the next allocation uses the memory again
	}
	check(s.Synchronize())
	fmt.Println("addresses:", len(seen))
	// Output: addresses: 1
}

// A pool of the program's own keeps its memory when the program waits for the GPU.
func ExampleMemPool() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()

	pool := must(gpu.NewMemPool(cu.MemPoolOptions{}))
	defer pool.Close()
	check(pool.SetReleaseThreshold(math.MaxUint64))
	mem := must(pool.Alloc(s, 1<<20))
	before := must(pool.Stats())
	check(mem.Close())
	check(s.Synchronize())
	after := must(pool.Stats())
	fmt.Println("used:", before.Used, after.Used)
	fmt.Println("kept:", after.Reserved > 0)
	// Output:
	// used: 1048576 0
	// kept: true
}

// Buffers of pinned memory are allocated and freed in the order of a stream.
func ExampleMemPool_AllocHost() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mem := must(gpu.Alloc(4))
	defer mem.Close()

	pool := must(gpu.NewMemPool(cu.MemPoolOptions{Kind: cu.MemPoolPinned}))
	defer pool.Close()
	check(pool.SetReleaseThreshold(math.MaxUint64))
	for i := range 3 {
		host := must(pool.AllocHost(s, 4))
		check(s.Memset(mem, byte(i))) // or a kernel that computes a result
		check(s.Copy(host, mem))
		check(s.Synchronize())
		check(host.View(func(b []byte) error {
			fmt.Println(b)
			return nil
		}))
		check(host.Close()) // the next allocation uses the memory again
	}
	// Output:
	// [0 0 0 0]
	// [1 1 1 1]
	// [2 2 2 2]
}

// A rectangle of an image is copied from the device.
func ExampleStream_Copy2D() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	const width, height = 100, 4
	mem, pitch, err := gpu.AllocPitch(width, height, 4)
	check(err)
	defer mem.Close()
	part := must(gpu.AllocHost(3*2, cu.HostDefault))
	defer part.Close()

	image := cu.Rows{Mem: mem, Pitch: pitch}
	check(s.Memset2D(image, 1, width, height))
	check(s.Memset2D(image.At(50, 1), 7, 2, 2))
	check(s.Copy2D(cu.Rows{Mem: part}, image.At(49, 1), 3, 2)) // two rows of three bytes
	check(s.Synchronize())
	check(part.View(func(b []byte) error {
		fmt.Println(b[:3], b[3:])
		return nil
	}))
	// Output: [1 7 7] [1 7 7]
}

// The driver knows pinned memory, and no other memory of the host.
func ExampleContext_PointerInfo() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	mem := must(gpu.Alloc(1000))
	defer mem.Close()
	info := must(gpu.PointerInfo(mem.Handle() + 10))
	fmt.Println(info.Type, info.Size, info.Start == mem.Handle())
	fmt.Println(must(gpu.PointerInfo(10)).Type)
	// Output:
	// device 1000 true
	// unregistered
}

// The host and kernels use managed memory at the same address.
func ExampleContext_AllocManaged() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mem := must(gpu.AllocManaged(16, cu.AttachGlobal))
	defer mem.Close()

	check(s.Prefetch(mem, gpu.Device().Location()))
	check(s.Memset(mem, 3)) // or a kernel, with cu.Ptr(mem)
	check(s.Synchronize())
	check(mem.View(func(b []byte) error {
		fmt.Println(b[:4])
		return nil
	}))
	// Output: [3 3 3 3]
}

// The program's own memory is pinned while it is registered.
func ExampleContext_RegisterHost() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mem := must(gpu.Alloc(4096))
	defer mem.Close()
	own := make([]byte, 4096) // better: of syscall.Mmap
	pinned := must(gpu.RegisterHost(own, cu.HostDefault))
	defer pinned.Close()

	check(s.Memset(mem, 5))
	check(s.Copy(pinned, mem))
	check(s.Synchronize())
	fmt.Println(own[:3])
	// Output: [5 5 5]
}

// What the host has read is not needed any more: the memory goes back to the GPU without its content.
func ExampleStream_DiscardAndPrefetch() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mem := must(gpu.AllocManaged(4, cu.AttachGlobal))
	defer mem.Close()

	there := []cu.MemPrefetch{{Mem: mem, To: gpu.Device().Location()}}
	for step := range byte(3) {
		check(s.DiscardAndPrefetch(there))
		check(errors.Join(s.Memset(mem, step), s.Synchronize()))
		check(mem.View(func(b []byte) error { fmt.Println(b); return nil }))
	}
	check(s.Discard(mem)) // nobody reads it before the next write
	// Output:
	// [0 0 0 0]
	// [1 1 1 1]
	// [2 2 2 2]
}
