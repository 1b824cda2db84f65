package cutest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
)

// A software driver can replace the driver of a GPU in a program.
func Example() {
	drv, err := cu.Open(cu.WithSoftware(cusim.New()))
	if err != nil {
		log.Fatal(err)
	}
	dev, err := drv.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(dev)
	// Output: device 0 (Simulated H200)
}

// Virtual time does not advance until the test advances it, so that pending work stays pending.
func Example_virtualTime() {
	sim := cusim.New(cusim.VirtualTime(), spins)
	gpu, done := software(sim)
	defer done()
	s := try(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	var e cu.Event
	defer e.Close()

	spin(gpu, s, 1000*time.Second) // a kernel
	check(e.Record(s))
	fmt.Println(try(e.Query()))
	sim.Advance(999 * time.Second)
	fmt.Println(try(e.Query()))
	sim.Advance(time.Second)
	fmt.Println(try(e.Query()))
	// Output:
	// pending
	// pending
	// complete
}

// A held stream does nothing until it is released.
func Example_hold() {
	sim := cusim.New()
	gpu, done := software(sim)
	defer done()
	s := try(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	var e cu.Event
	defer e.Close()

	sim.Hold(s.Handle())
	check(e.Record(s))
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	fmt.Println(errors.Is(e.Wait(ctx), context.DeadlineExceeded))
	sim.Release(s.Handle())
	fmt.Println(e.Wait(context.Background()))
	// Output:
	// true
	// <nil>
}

// A stream that uses memory before another stream has written it is found, whatever the time.
func Example_races() {
	drv := try(cu.Open(cu.WithSoftware(cusim.New())))
	stop := try(drv.DetectRaces(func(r cu.Race) { fmt.Println(r.Summary() + "\n" + r.Remedy()) })) // r has stacks, too
	defer stop()
	gpu := try(try(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	load, compute := try(gpu.NewStream(cu.StreamNonBlocking)), try(gpu.NewStream(cu.StreamNonBlocking))
	defer load.Close()
	defer compute.Close()
	mem, host := try(gpu.Alloc(64)), try(gpu.AllocHost(64, cu.HostDefault))
	defer mem.Close()
	defer host.Close()

	check(load.Copy(mem, host))
	// check(compute.WaitStream(load)) is missing
	check(compute.Memset(mem.Span(32, 16), 0))
	// Output:
	// race: cuMemsetD8Async on stream 2 writes what cuMemcpyHtoDAsync on stream 1 writes, and nothing orders the two (device memory, bytes 32 to 47)
	// record an event on stream 1 after cuMemcpyHtoDAsync, and make stream 2 wait for it before cuMemsetD8Async: Stream.WaitStream, or Event.Record and Stream.WaitEvent
}

// A kernel can be a Go function.
func Example_kernel() {
	double := cusim.WithKernel("double", cusim.Kernel{Run: func(l *cusim.Launch) {
		mem := l.Mem(0)
		for i := range l.U32(1) {
			v := binary.LittleEndian.Uint32(mem[4*i:])
			binary.LittleEndian.PutUint32(mem[4*i:], 2*v)
		}
	}})
	gpu, done := software(cusim.New(double))
	defer done()
	s := try(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mod := try(gpu.LoadModule([]byte(`.version 6.0 .target sm_50 .address_size 64
		.entry double(.param .u64 p, .param .u32 n) { ret; }`)))
	defer mod.Close()
	mem := try(gpu.Alloc(8))
	defer mem.Close()

	check(mem.CopyFrom([]byte{1, 0, 0, 0, 21, 0, 0, 0}))
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 2}}
	check(try(mod.Function("double")).Launch(s, cfg, cu.Ptr(mem), cu.U32(2)))
	check(s.Synchronize())
	b := make([]byte, 8)
	check(mem.CopyTo(b))
	fmt.Println(b)
	// Output: [2 0 0 0 42 0 0 0]
}

// A driver can look for mistakes of kernels that a GPU does not tell, and count instructions.
func Example_checks() {
	sim := cusim.New(cusim.CheckKernels(cusim.CheckAll))
	gpu, done := software(sim)
	defer done()
	s := try(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mod := try(gpu.LoadModule([]byte(`.version 7.0 .target sm_70 .address_size 64
	.entry reverse(.param .u64 p) {
		.reg .b32 t, a, b, v; .reg .b64 x;
		.shared .b32 s[64];
		ld.param.u64 x, [p];
		mov.u32 t, %tid.x; mov.u32 a, s; mad.lo.u32 b, t, 4, a;
		mad.wide.u32 x, t, 4, x;
		ld.global.u32 v, [x];
		st.shared.u32 [b], v;
		// bar.sync 0 is missing here.
		mad.lo.u32 b, t, -4, a;
		ld.shared.u32 v, [b+252];
		st.global.u32 [x], v;
		ret;
	}`)))
	defer mod.Close()
	mem := try(gpu.Alloc(256))
	defer mem.Close()
	check(mem.CopyFrom(make([]byte, 252)))
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 64}}
	check(try(mod.Function("reverse")).Launch(s, cfg, cu.Ptr(mem)))
	check(s.Synchronize())
	for _, m := range sim.Misuses() {
		fmt.Println(m.What)
	}
	fmt.Println("at most 20 instructions for each of two warps:", sim.Instructions("reverse") <= 2*20)
	// Output:
	// kernel "reverse": thread (63, 0, 0) of block (0, 0, 0), at line 8 of the PTX, ld.global.u32 reads 4 bytes at 0x17f00000000fc: memory of the device that nothing has written
	// kernel "reverse": thread (32, 0, 0) of block (0, 0, 0), at line 9 of the PTX, st.shared.u32 writes 4 bytes at 0x480: a race in shared memory: another thread has read the memory, and nothing orders the two accesses; the other: thread (31, 0, 0) of block (0, 0, 0), at line 12 of the PTX, ld.shared.u32
	// kernel "reverse": thread (32, 0, 0) of block (0, 0, 0), at line 12 of the PTX, ld.shared.u32 reads 4 bytes at 0x47c: a race in shared memory: another thread has written the memory, and nothing orders the two accesses; the other: thread (31, 0, 0) of block (0, 0, 0), at line 9 of the PTX, st.shared.u32
	// kernel "reverse": thread (0, 0, 0) of block (0, 0, 0), at line 12 of the PTX, ld.shared.u32 reads 4 bytes at 0x4fc: shared memory that no thread of the block has written
	// at most 20 instructions for each of two warps: true
}

// A seed changes the order of the warps of a block. It finds a race, and finds it again.
func Example_seed() {
	const racy = `.version 7.0 .target sm_70 .address_size 64
	.entry count(.param .u64 p) {
		.reg .b32 v; .reg .b64 x; .reg .pred q;
		ld.param.u64 x, [p];
		mov.u32 v, %laneid; setp.ne.u32 q, v, 0; @q ret; // one thread of each warp counts
		ld.global.u32 v, [x]; // this should be red.global.add.u32 [x], 1
		add.u32 v, v, 1;
		st.global.u32 [x], v;
		ret;
	}`
	count := func(opts ...cusim.Option) byte {
		gpu, done := software(cusim.New(opts...))
		defer done()
		s := try(gpu.NewStream(cu.StreamNonBlocking))
		defer s.Close()
		mod := try(gpu.LoadModule([]byte(racy)))
		defer mod.Close()
		mem := try(gpu.Alloc(4))
		defer mem.Close()
		b := make([]byte, 4)
		check(mem.CopyFrom(b))
		cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 64}} // two warps
		check(try(mod.Function("count")).Launch(s, cfg, cu.Ptr(mem)))
		check(s.Synchronize())
		check(mem.CopyTo(b))
		return b[0]
	}
	fmt.Println("without a seed:", count())
	seed := uint64(1) // in a test: cutest.Seeds
	for count(cusim.Seed(seed)) == 2 {
		seed++
	}
	fmt.Println("with a seed:", count(cusim.Seed(seed)), count(cusim.Seed(seed)), count(cusim.Seed(seed)))
	// Output:
	// without a seed: 2
	// with a seed: 1 1 1
}

// A trace shows what one thread of a kernel does, with the values of the registers.
func Example_trace() {
	sim := cusim.New(cusim.TraceThread(cusim.Thread{Kernel: "scale", Thread: cusim.Dim3{X: 2}}, os.Stdout))
	gpu, done := software(sim)
	defer done()
	launchScale(gpu, 3, 4)
	// Output:
	// kernel "scale", launch 1: thread (2, 0, 0) of block (0, 0, 0)
	//      4  mov.u32 t, %tid.x;                       // %tid.x=2 -> t=2
	//      5  ld.param.u32 n, [count];                 // -> n=3
	//      6  setp.ge.u32 q, t, n;                     // t=2 n=3 -> q=false
	//      7  @q bra end;                              // q=false skipped
	//      8  ld.param.u64 x, [p];                     // -> x=0x17f0000000000
	//      9  mad.wide.u32 x, t, 4, x;                 // t=2 x=0x17f0000000000 -> x=0x17f0000000008
	//     10  ld.global.f32 f, [x];                    // x=0x17f0000000008 -> f=3
	//     11  setp.lt.f32 q, f, 0f00000000;            // f=3 -> q=false
	//     12  @q bra negative;                         // q=false skipped
	//     13  mul.f32 f, f, 0f40000000;                // f=3 -> f=6
	//     14  st.global.f32 [x], f;                    // x=0x17f0000000008 f=6
	//     16  ret;
}

// Coverage shows which lines of a kernel no thread has executed.
func Example_coverage() {
	var cover cusim.Coverage // in a test: cutest.Cover
	gpu, done := software(cusim.New(cusim.Cover(&cover)))
	defer done()
	launchScale(gpu, 3, 4)
	check(cover.WriteListing(os.Stdout))
	// Output:
	// scale.ptx: 85.7% (12 of 14) of lines, 75.0% (3 of 4) of branches
	//
	//                    1  .version 7.0 .target sm_70 .address_size 64
	//                    2  .entry scale(.param .u64 p, .param .u32 count) {
	//                    3  	.reg .b32 t, n; .reg .f32 f; .reg .b64 x; .reg .pred q;
	//            4       4  	mov.u32 t, %tid.x;
	//            4       5  	ld.param.u32 n, [count];
	//            4       6  	setp.ge.u32 q, t, n;
	//            4       7  	@q bra end; // @q: 1 true, 3 false
	//            3       8  	ld.param.u64 x, [p];
	//            3       9  	mad.wide.u32 x, t, 4, x;
	//            3      10  	ld.global.f32 f, [x];
	//            3      11  	setp.lt.f32 q, f, 0f00000000; // is it negative?
	//            3 !    12  	@q bra negative; // @q: 0 true, 3 false
	//            3      13  	mul.f32 f, f, 0f40000000;
	//            3      14  	st.global.f32 [x], f;
	//                   15  end:
	//            4      16  	ret;
	//                   17  negative:
	//            0 !    18  	st.global.f32 [x], 0f00000000;
	//            0 !    19  	ret;
	//                   20  }
}

const scalePTX = `.version 7.0 .target sm_70 .address_size 64
.entry scale(.param .u64 p, .param .u32 count) {
	.reg .b32 t, n; .reg .f32 f; .reg .b64 x; .reg .pred q;
	mov.u32 t, %tid.x;
	ld.param.u32 n, [count];
	setp.ge.u32 q, t, n;
	@q bra end;
	ld.param.u64 x, [p];
	mad.wide.u32 x, t, 4, x;
	ld.global.f32 f, [x];
	setp.lt.f32 q, f, 0f00000000; // is it negative?
	@q bra negative;
	mul.f32 f, f, 0f40000000;
	st.global.f32 [x], f;
end:
	ret;
negative:
	st.global.f32 [x], 0f00000000;
	ret;
}`

// launchScale launches a kernel that doubles n numbers, with a number of threads.
func launchScale(gpu *cu.Context, n int, threads uint32) {
	mod := try(gpu.LoadModule([]byte(scalePTX)))
	defer mod.Close()
	s := try(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	mem := try(cu.AllocFrom(gpu, []float32{1, 2.5, 3}))
	defer mem.Close()
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: threads}}
	check(try(mod.Function("scale")).Launch(s, cfg, cu.Ptr(mem), cu.U32(uint32(n))))
	check(s.Synchronize())
}

// An older driver lacks functions, so a program may need alternatives.
func Example_version() {
	drv := try(cu.Open(cu.WithSoftware(cusim.New(cusim.Version(11080)))))
	f := try(drv.Features())
	fmt.Println(f.StreamID, f.ElapsedTimeV2)
	gpu := try(try(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := try(gpu.NewStream(cu.StreamDefault))
	defer s.Close()
	_, err := s.ID()
	fmt.Println(errors.Is(err, errors.ErrUnsupported))
	// Output:
	// false false
	// true
}

// A program that looks after the GPUs of a machine can be tested with GPUs that fail.
func Example_nvml() {
	sim := cusim.New(cusim.Devices(3))
	lib := try(nvml.Open(nvml.WithSoftware(sim.NVML()), nvml.WithTimeout(time.Second))) // in a test: cutest.NVML
	defer lib.Close()
	set := try(lib.NewEventSet())
	for dev, err := range lib.Devices() {
		check(err)
		check(set.Add(dev, nvml.EventXIDCritical))
	}
	// unwell is the program. It returns the GPUs that should get no more work.
	unwell := func() (list []string) {
		for i := range try(lib.DeviceCount()) {
			dev, err := lib.Device(i)
			if err == nil {
				_, err = dev.Temperature(nvml.TemperatureGPU)
			}
			switch {
			case errors.Is(err, nvml.ErrTimeout):
				list = append(list, fmt.Sprintf("GPU %d does not answer", i))
			case err != nil:
				list = append(list, fmt.Sprintf("GPU %d is lost: %t", i, errors.Is(err, nvml.ErrGPULost)))
			case try(dev.ECCErrors(nvml.MemoryErrorUncorrected, nvml.ECCVolatile)) > 0:
				list = append(list, fmt.Sprintf("GPU %d has bad memory", i))
			}
		}
		return list
	}
	fmt.Println(unwell())

	sim.LoseGPU(0)
	sim.ECCErrors(1, 0, 2)
	sim.InjectNVML(cusim.NVMLFault{GPUs: []int{2}, Hangs: true})
	fmt.Println(try(set.Wait(context.Background())))
	for _, why := range unwell() {
		fmt.Println(why)
	}
	sim.ClearFaults() // GPU 2 answers again, as soon as the call has returned that hangs
	// Output:
	// []
	// device 0: XID 79: the GPU has fallen off the bus
	// GPU 0 is lost: true
	// GPU 1 has bad memory
	// GPU 2 does not answer
}

// software opens a software driver and its first device.
func software(sim *cusim.Driver) (gpu *cu.Context, done func()) {
	drv := try(cu.Open(cu.WithSoftware(sim)))
	gpu = try(try(drv.Device(0)).PrimaryContext())
	return gpu, func() { check(gpu.Close()) }
}

// spins is a driver's option: the kernel spin takes exactly the time of its argument.
var spins = cusim.WithKernel("spin", cusim.Kernel{Time: func(l *cusim.Launch) time.Duration {
	return time.Duration(l.U64(0))
}})

const spinPTX = `.version 6.0 .target sm_50 .address_size 64
.entry spin(.param .u64 ns) {
	.reg .u64 limit, begin, now; .reg .pred more;
	ld.param.u64 limit, [ns];
	mov.u64 begin, %globaltimer;
again:
	mov.u64 now, %globaltimer;
	sub.u64 now, now, begin;
	setp.lt.u64 more, now, limit;
	@more bra again;
	ret;
}`

// spin enqueues a kernel that takes d.
func spin(gpu *cu.Context, s *cu.Stream, d time.Duration) {
	mod := try(gpu.LoadModule([]byte(spinPTX)))
	check(try(mod.Function("spin")).Launch(s, cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}},
		cu.U64(uint64(d))))
}

func try[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
