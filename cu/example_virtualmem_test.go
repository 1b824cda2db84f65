package cu_test

import (
	"fmt"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// A buffer grows without moving. What kernels and graphs know of its address stays valid.
func ExampleVirtualMem() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()

	buf := must(gpu.Reserve(1 << 30)) // addresses, no memory
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
func ExampleVirtualMem_Map() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()

	mem := must(gpu.NewPhysicalMem(2<<20, cu.PhysicalOptions{}))
	ring := must(gpu.Reserve(2 * mem.Size()))
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
