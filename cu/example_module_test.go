package cu_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// PTX is compiled by the driver, for the GPU that there is.
func ExampleContext_LoadModule() {
	mod, err := gpu.LoadModule(ptx) // a []byte, often embedded: //go:embed kernels.ptx
	if errors.Is(err, cu.ResultInvalidPTX) {
		log.Fatal(err) // holds what the compiler said
	}
	if err != nil {
		log.Fatal(err)
	}
	defer mod.Close()
	spin, err := mod.Function("spin")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(spin.Name())
}

func ExampleContext_LoadModuleFile() {
	mod, err := gpu.LoadModuleFile("spin.ptx", cu.JITLineInfo())
	if err != nil {
		log.Fatal(err)
	}
	defer mod.Close()
}

// What each kernel uses, as the compiler counted it.
func ExampleModule_Log() {
	mod, err := gpu.LoadModule(ptx, cu.JITVerbose(), cu.JITMaxRegisters(64))
	if err != nil {
		log.Fatal(err)
	}
	defer mod.Close()
	fmt.Println(mod.Log() != "")
}

func ExampleModule_Function() {
	mod, err := gpu.LoadModule(ptx)
	if err != nil {
		log.Fatal(err)
	}
	defer mod.Close()
	_, err = mod.Function("spim")
	fmt.Println(errors.Is(err, cu.ResultNotFound))
}

// A __device__ variable of the module, as memory.
func ExampleModule_Global() {
	mod, err := gpu.LoadModule(ptx)
	if err != nil {
		log.Fatal(err)
	}
	defer mod.Close()
	counter, err := mod.Global("counter")
	if err != nil {
		log.Fatal(err)
	}
	defer counter.Close() // frees nothing: the variable is the module's
	if err := counter.Memset(0); err != nil {
		log.Fatal(err)
	}
	fmt.Println(counter.Size(), "bytes")
}

// Arguments have types: a number that does not say its size does not compile.
func ExampleFunction_Launch() {
	const n = 1000
	mem, err := gpu.Alloc(4 * n)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()

	cfg := cu.LaunchConfig{
		Grid:  cu.Dim3{X: (n + 255) / 256},
		Block: cu.Dim3{X: 256},
	}
	if err := scale.Launch(s, cfg, cu.Ptr(mem), cu.F32(2), cu.U64(n)); err != nil {
		log.Fatal(err)
	}
	if err := s.Synchronize(); err != nil {
		log.Fatal(err)
	}
}

// A prepared launch is checked once. An argument can be replaced between two launches.
func ExampleFunction_Prepare() {
	const n = 1000
	mem, err := gpu.Alloc(4 * n)
	if err != nil {
		log.Fatal(err)
	}
	defer mem.Close()

	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: (n + 255) / 256}, Block: cu.Dim3{X: 256}}
	step, err := scale.Prepare(cfg, cu.Ptr(mem), cu.F32(1), cu.U64(n))
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		if err := step.SetArg(1, cu.F32(float32(i+1))); err != nil {
			log.Fatal(err)
		}
		if err := step.Launch(s); err != nil {
			log.Fatal(err)
		}
	}
	if err := s.Synchronize(); err != nil {
		log.Fatal(err)
	}
}

// A launch that would let the driver read wild memory is refused.
func ExampleFunction_Params() {
	sizes, known := scale.Params()
	fmt.Println(sizes, known)
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	err := scale.Launch(s, cfg, cu.F32(2), cu.U64(0)) // one is missing
	fmt.Println(errors.Is(err, cu.ResultInvalidValue))
}

// All blocks of a cooperative launch run at once, and can wait for each other.
func ExampleLaunchFlags() {
	perSM, err := spin.MaxActiveBlocks(128, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("blocks fit:", perSM > 0) // times the number of multiprocessors
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 128}, Flags: cu.LaunchCooperative}
	if err := spin.Launch(s, cfg, cu.U64(1000)); err != nil {
		log.Fatal(err)
	}
	if err := s.Synchronize(); err != nil {
		log.Fatal(err)
	}
}

// The blocks of a cluster run at the same time, and can use the shared memory of each other. The
// attributes are made once, for any number of launches.
func ExampleLaunchWith() {
	soft := cusim.New(cusim.WithKernel("reduce", cusim.Kernel{Run: func(l *cusim.Launch) {
		fmt.Println(l.Grid.X, "blocks in clusters of", l.Cluster.X)
	}}))
	drv := must(cu.Open(cu.WithSoftware(soft))) // on a machine with a GPU: cu.Open()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	mod := must(gpu.LoadModule([]byte(`.version 7.8
		.target sm_90
		.address_size 64
		.visible .entry reduce() { ret; }`)))
	defer mod.Close()
	reduce, s := must(mod.Function("reduce")), must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()

	attrs := cu.LaunchWith(cu.LaunchCluster(cu.Dim3{X: 2}), cu.LaunchPriority(-1))
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 8}, Block: cu.Dim3{X: 128}, Attributes: attrs}
	check(reduce.Launch(s, cfg))
	check(s.Synchronize())
	cfg.Grid.X = 9 // not a multiple of the cluster's size
	fmt.Println(errors.Is(reduce.Launch(s, cfg), cu.ResultInvalidClusterSize))
	// Output:
	// 8 blocks in clusters of 2
	// true
}

func ExampleFunction_SuggestBlockSize() {
	blocks, threads, err := scale.SuggestBlockSize(0, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("blocks and threads that fill the GPU:", blocks > 0, threads > 0)
}

func ExampleFunction_MaxActiveBlocks() {
	n, err := scale.MaxActiveBlocks(256, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a multiprocessor holds", n, "blocks of 256 threads")
}

func ExampleFunction_Attribute() {
	n, err := scale.Attribute(cu.FunctionAttributeMaxThreadsPerBlock)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("up to", n, "threads in a block")
}

// More than 48 KiB of dynamic shared memory has to be asked for, up to
// DeviceAttributeMaxSharedMemoryPerBlockOptin.
func ExampleFunction_SetAttribute() {
	const size = 64 << 10
	if err := scale.SetAttribute(cu.FunctionAttributeMaxDynamicSharedSizeBytes, size); err != nil {
		log.Fatal(err)
	}
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 256}, SharedMem: size}
	fmt.Println("launches may now have SharedMem:", cfg.SharedMem)
}

// A struct is passed as it is. Its layout must be the kernel's.
func ExampleValue() {
	type window struct {
		X, Y  float32
		Scale float64
	}
	args := []cu.Arg{cu.Value(window{1, 2, 0.5}), cu.Value([4]uint32{1, 2, 3, 4})}
	fmt.Println(len(args))
	// Output: 2
}

// What cannot be passed is reported by the launch.
func ExampleValue_pointer() {
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	pointer := cu.Value(new(int64)) // the GPU cannot follow a Go pointer
	err := spin.Launch(s, cfg, pointer)
	fmt.Println(errors.Is(err, cu.ResultInvalidValue))
}

// How many clusters the device runs at once says whether the blocks of a grid can wait for each other.
func ExampleFunction_MaxActiveClusters() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	mod := must(gpu.LoadModule([]byte(".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry reduce() { ret; }")))
	defer mod.Close()
	reduce := must(mod.Function("reduce"))

	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 64}, Block: cu.Dim3{X: 256}}
	most := must(reduce.MaxPotentialClusterSize(cfg))
	cfg.Attributes = cu.LaunchWith(cu.LaunchCluster(cu.Dim3{X: uint32(most)}))
	fmt.Println(must(reduce.MaxActiveClusters(cfg)) > 0)
	fmt.Println("clusters of", most, "blocks")
	// Output:
	// true
	// clusters of 8 blocks
}
