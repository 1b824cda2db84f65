package cu_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// To the device and back, waiting each time.
func ExampleContext_Alloc() {
	mem, err := gpu.Alloc(16)
	if err != nil {
		log.Fatal(err) // cu.ResultOutOfMemory, perhaps
	}
	defer mem.Close()
	if err := mem.CopyFrom([]byte("as good as new.\n")); err != nil {
		log.Fatal(err)
	}
	got := make([]byte, mem.Size())
	if err := mem.CopyTo(got); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", got)
}

// Numbers are copied as bytes.
func ExampleDeviceMem_CopyFrom() {
	b, err := binary.Append(nil, binary.NativeEndian, []float32{1, 2, 3, 4})
	if err != nil {
		log.Fatal(err)
	}
	mem, err := gpu.Alloc(uint64(len(b)))
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	if err := mem.CopyFrom(b); err != nil {
		log.Fatal(err)
	}
}

func ExampleDeviceMem_CopyTo() {
	mem, err := gpu.Alloc(16)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	if err := mem.Memset(0); err != nil {
		log.Fatal(err)
	}
	b := make([]byte, 16)
	if err := mem.CopyTo(b); err != nil {
		log.Fatal(err)
	}
	numbers := make([]float32, 4)
	if _, err := binary.Decode(b, binary.NativeEndian, numbers); err != nil {
		log.Fatal(err)
	}
	fmt.Println(numbers)
}

// Memory is an io.ReaderAt and an io.WriterAt.
func ExampleDeviceMem_ReadAt() {
	mem, err := gpu.Alloc(8)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	if _, err := mem.WriteAt([]byte{5, 6, 7, 8}, 4); err != nil {
		log.Fatal(err)
	}
	tail, err := io.ReadAll(io.NewSectionReader(mem, 4, 4))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tail)
}

// What does not fit is not written, not even in part.
func ExampleDeviceMem_WriteAt() {
	mem, err := gpu.Alloc(8)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	n, err := mem.WriteAt([]byte{1, 2, 3, 4}, 6)
	fmt.Println(n, errors.Is(err, cu.ResultInvalidValue))
}

// A part of an allocation, for copies and kernels.
func ExampleDeviceMem_Span() {
	mem, err := gpu.Alloc(1024)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	if err := s.Memset(mem, 0); err != nil {
		log.Fatal(err)
	}
	if err := s.Memset32(mem.Span(512, 256), 1); err != nil { // 64 words
		log.Fatal(err)
	}
	if err := s.Synchronize(); err != nil {
		log.Fatal(err)
	}
	b := make([]byte, 8)
	if _, err := mem.ReadAt(b, 508); err != nil {
		log.Fatal(err)
	}
	fmt.Println(b[:4], binary.NativeEndian.Uint32(b[4:]))

	err = s.Memset(mem.Span(1000, 100), 0) // 24 bytes are left
	fmt.Println(errors.Is(err, cu.ResultInvalidValue))
}

// A span of nothing has its size, and no use: whatever it is used for fails.
func ExampleSpan_nil() {
	var none *cu.DeviceMem
	part := none.Span(256, 512)
	fmt.Println(part.Size())
	err := none.Memset(0)
	fmt.Println(errors.Is(err, cu.ErrNil))
	// Output:
	// 512
	// true
}

// A copy that goes on while the program does takes pinned memory.
func ExampleStream_Copy() {
	host, err := gpu.AllocHost(1<<20, cu.HostDefault)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	mem, err := gpu.Alloc(1 << 20)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()

	if _, err := host.WriteAt([]byte("hello"), 0); err != nil {
		log.Fatal(err)
	}
	if err := s.Copy(mem, host); err != nil { // to the device
		log.Fatal(err)
	}
	if err := s.Copy(host.Span(512, 512), mem.Span(0, 512)); err != nil { // some of it back
		log.Fatal(err)
	}
	if err := s.Synchronize(); err != nil { // only now may host be looked at
		log.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := host.ReadAt(b, 512); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", b)
}

// Many small copies in one call of the driver. If one cannot be made, the error says which.
func ExampleStream_CopyAll() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mem := must(gpu.Alloc(64))
	defer mem.Close()
	host := must(gpu.AllocHost(64, cu.HostDefault))
	defer host.Close()
	check(host.View(func(b []byte) error {
		for i := range b {
			b[i] = byte(i)
		}
		return nil
	}))

	var copies []cu.MemCopy
	for i := range uint64(4) { // the first byte of each 16
		copies = append(copies, cu.MemCopy{Dst: mem.Span(i, 1), Src: host.Span(16*i, 1)})
	}
	check(s.CopyAll(copies))
	check(s.Synchronize())
	b := make([]byte, 4)
	check(mem.CopyTo(b))
	fmt.Println(b)
	err := s.CopyAll([]cu.MemCopy{{Dst: mem, Src: host}, {Dst: mem.Span(0, 8), Src: host}})
	var batch *cu.BatchError
	fmt.Println(errors.As(err, &batch), batch.Errs[0] == nil, errors.Is(batch.Errs[1], cu.ResultInvalidValue))
	// Output:
	// [0 16 32 48]
	// true true true
}

func ExampleStream_Memset() {
	mem, err := gpu.Alloc(1 << 20)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	if err := s.Memset(mem, 0xff); err != nil { // in the stream's order
		log.Fatal(err)
	}
}

func ExampleContext_AllocHost() {
	host, err := gpu.AllocHost(1<<20, cu.HostPortable|cu.HostWriteCombined)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	fmt.Println(host.Size(), "bytes are pinned")
}

// The memory is not Go's, and is there for as long as View runs.
func ExampleHostMem_View() {
	host, err := gpu.AllocHost(4, cu.HostDefault)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	err = host.View(func(b []byte) error {
		copy(b, "ping")
		fmt.Println(string(b))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleHostMem_ReadAt() {
	host, err := gpu.AllocHost(4, cu.HostDefault)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	if _, err := host.WriteAt([]byte("pong"), 0); err != nil {
		log.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(host, 1, 2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(b))
}

// Close waits for the GPU: memory is never freed under a kernel that uses it.
func ExampleDeviceMem_Close() {
	mem, err := gpu.Alloc(4 * 256)
	if err != nil {
		log.Fatal(err)
	}
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 256}}
	if err := scale.Launch(s, cfg, cu.Ptr(mem), cu.F32(2), cu.U64(256)); err != nil {
		log.Fatal(err)
	}
	if err := mem.Close(); err != nil {
		log.Fatal(err)
	}
	err = s.Memset(mem, 0)
	fmt.Println(errors.Is(err, cu.ErrClosed))
}

func ExampleHostFlags() {
	fmt.Println(cu.HostDefault)
	fmt.Println(cu.HostPortable | cu.HostWriteCombined)
	// Output:
	// HostDefault
	// HostPortable|HostWriteCombined
}

// A slice goes to the GPU, which doubles its elements, and back.
func ExampleAllocFrom() {
	v := []float32{1, 2, 3}
	mem, err := cu.AllocFrom(gpu, v)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	if err := scale.Launch(s, cu.Grid1D(len(v), 256), cu.Ptr(mem), cu.F32(2), cu.U64(uint64(len(v)))); err != nil {
		log.Fatal(err)
	}
	if err := s.Synchronize(); err != nil {
		log.Fatal(err)
	}
	if err := cu.CopyTo(mem, v); err != nil {
		log.Fatal(err)
	}
	fmt.Println(v)
}

// Pinned memory is a slice while View calls the function.
func ExampleView() {
	mem, err := cu.AllocHostFor[float32](gpu, 3, cu.HostDefault)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	err = cu.View(mem, func(v []float32) error {
		for i := range v {
			v[i] = float32(i)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Copy(x, mem); err != nil { // and not before
		log.Fatal(err)
	}
}

// The last two of four values are set.
func ExampleSpanOf() {
	mem, err := cu.AllocFrom(gpu, []uint32{1, 2, 3, 4})
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()
	if err := s.Memset32(cu.SpanOf[uint32](mem, 2, 2), 9); err != nil {
		log.Fatal(err)
	}
	if err := s.Synchronize(); err != nil {
		log.Fatal(err)
	}
	v := make([]uint32, 4)
	if err := cu.CopyTo(mem, v); err != nil {
		log.Fatal(err)
	}
	fmt.Println(v)
}

// 1000 threads are four blocks of 256. The kernel ignores the last 24 threads.
func ExampleGrid1D() {
	fmt.Println(cu.Grid1D(1000, 256).Grid.X)
}

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
