package memory_test

import (
	"errors"
	"fmt"
	"math"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
)

// A pool of the program's own keeps its memory when the program waits for the GPU.
func ExamplePool() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()

	pool := must(memory.NewPool(gpu, memory.PoolOptions{}))
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
func ExamplePool_AllocHost() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mem := must(gpu.Alloc(4))
	defer mem.Close()

	pool := must(memory.NewPool(gpu, memory.PoolOptions{Kind: memory.PoolPinned}))
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

// The host and kernels use managed memory at the same address.
func ExampleAllocManaged() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mem := must(memory.AllocManaged(gpu, 16, memory.AttachGlobal))
	defer mem.Close()

	check(memory.Prefetch(s, mem, memory.LocationOf(gpu.Device())))
	check(s.Memset(mem, 3)) // or a kernel, with cu.Ptr(mem)
	check(s.Synchronize())
	check(mem.View(func(b []byte) error {
		fmt.Println(b[:4])
		return nil
	}))
	// Output: [3 3 3 3]
}

// What the host has read is not needed any more: the memory goes back to the GPU without its content.
func ExampleDiscardAndPrefetch() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mem := must(memory.AllocManaged(gpu, 4, memory.AttachGlobal))
	defer mem.Close()

	there := []memory.Move{{Mem: mem, To: memory.LocationOf(gpu.Device())}}
	for step := range byte(3) {
		check(memory.DiscardAndPrefetch(s, there))
		check(errors.Join(s.Memset(mem, step), s.Synchronize()))
		check(mem.View(func(b []byte) error { fmt.Println(b); return nil }))
	}
	check(memory.Discard(s, mem)) // nobody reads it before the next write
	// Output:
	// [0 0 0 0]
	// [1 1 1 1]
	// [2 2 2 2]
}

// A buffer grows without moving. What kernels and graphs know of its address stays valid.
func ExampleVirtual() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()

	buf := must(memory.Reserve(gpu, 1<<30)) // addresses, no memory
	defer buf.Close()
	check(buf.Grow(4 << 20))
	check(cu.CopyFrom(buf.Mem(), []int32{1, 2, 3}))
	before := buf.Handle()

	check(buf.Grow(64 << 20))
	values := make([]int32, 3)
	check(cu.CopyTo(buf.Mem(), values))
	fmt.Println(values, "at the same address:", buf.Handle() == before)
	fmt.Println(buf.Size()>>20, "of", buf.Cap()>>20, "MiB")

	check(buf.Shrink(4 << 20)) // gives the memory back, and keeps the addresses
	fmt.Println(buf.Size()>>20, "MiB")
	// Output:
	// [1 2 3] at the same address: true
	// 64 of 1024 MiB
	// 4 MiB
}

// Physical memory that is mapped twice, one place behind the other, makes a ring: what is written
// across the end appears at the beginning.
func ExampleVirtual_Map() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()

	mem := must(memory.NewPhysical(gpu, 2<<20, memory.PhysicalOptions{}))
	ring := must(memory.Reserve(gpu, 2*mem.Size()))
	defer ring.Close()
	check(ring.Map(0, mem))
	check(ring.Map(mem.Size(), mem))
	check(mem.Close()) // the mappings keep the memory

	must(ring.Mem().WriteAt([]byte("tail, head"), int64(mem.Size())-6))
	head := make([]byte, 4)
	check(ring.Mem().CopyTo(head))
	fmt.Printf("%s\n", head)
	// Output: head
}

// A tensor of other code, as a DLTensor or __cuda_array_interface__ describes it, becomes memory: parts
// of it are slices of float32, and the whole is rows with a pitch.
func ExampleWrap() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	theirs := must(cu.AllocFrom(gpu, []float32{1, 2, 3, -1, 4, 5, 6, -1})) // stands for the other code's
	defer theirs.Close()

	t := struct {
		data           uint64
		shape, strides [2]uint64 // strides are in elements, as in a DLTensor
	}{theirs.Handle(), [2]uint64{2, 3}, [2]uint64{4, 1}}

	const size = 4 // of a float32
	rows, columns, pitch := t.shape[0], t.shape[1], size*t.strides[0]
	mem := must(memory.Wrap(gpu, t.data, (rows-1)*pitch+columns*size))
	defer mem.Close() // frees nothing
	host := must(cu.AllocHostFor[float32](gpu, int(rows*columns), cu.HostDefault))
	defer host.Close()

	second := cu.SpanOf[float32](mem, int(t.strides[0]), int(columns)) // the second row
	check(s.Memset(second.Span(0, size), 0))                           // its first element
	check(s.Copy2D(cu.Rows{Mem: host}, cu.Rows{Mem: mem, Pitch: pitch}, size*columns, rows))
	check(s.Synchronize())
	check(cu.View(host, func(v []float32) error { fmt.Println(v); return nil }))
	// Output: [1 2 3 0 5 6]
}

// The driver knows pinned memory, and no other memory of the host.
func ExamplePointerInfoOf() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	mem := must(gpu.Alloc(1000))
	defer mem.Close()
	info := must(memory.PointerInfoOf(gpu, mem.Handle()+10))
	fmt.Println(info.Type, info.Size, info.Start == mem.Handle())
	fmt.Println(must(memory.PointerInfoOf(gpu, 10)).Type)
	// Output:
	// device 1000 true
	// unregistered
}
