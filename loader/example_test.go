package loader_test

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/loader"
)

// A program that can run without a GPU checks why no driver was loaded. A machine without a driver
// is normal; any other reason deserves a message.
func ExampleOpen() {
	_, err := loader.Open("/nowhere/libcuda.so.1")
	var le *loader.LoadError
	if errors.As(err, &le) {
		for _, c := range le.Candidates {
			switch c.Problem {
			case loader.Absent, loader.Duplicate:
			default:
				fmt.Printf("%s is there, but: %v\n", c.Name, c.Err)
			}
		}
		fmt.Println("going on without a GPU")
	}
	// Output: going on without a GPU
}

// A program that needs a GPU says what to do.
func ExampleDiagnose() {
	report := loader.Diagnose(loader.WithLibrary("/nowhere/libcuda.so.1"))
	v := report.Verdict()
	fmt.Printf("%s: %s\n", v.Severity, v.Title)
	fmt.Printf("do this: %s\n", v.Fix)
	_ = report.String() // the whole report, as text
	// Output:
	// fault: the library that the program names cannot be used: /nowhere/libcuda.so.1 does not exist
	// do this: let the program name the driver's own library, or none, so that it is searched for
}

// AddInit adds the result of cuInit to the facts.
func ExampleReport_AddInit() {
	report := loader.Diagnose()
	report.AddInit(0)
	fmt.Println(report.Verdict().Title)
	// Output: CUDA works: cuInit succeeded
}

// A program calls functions of NVML through variables of function types, without unsafe code.
func ExampleLibrary_Bind() {
	nvml, err := loader.OpenLibrary(loader.NVML, "/nowhere/libnvidia-ml.so.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	var initialise func() error
	var deviceCount func(n *uint32) error
	if err := errors.Join(nvml.Bind(&initialise, "nvmlInit_v2"),
		nvml.Bind(&deviceCount, "nvmlDeviceGetCount_v2")); err != nil {
		fmt.Println(err)
		return
	}
	var n uint32
	err = errors.Join(initialise(), deviceCount(&n))
	fmt.Println(n, err)
	// Output:
	// loader: no NVML library could be loaded
	// 	/nowhere/libnvidia-ml.so.1 (given by the program): file does not exist
	// 	NVML is a part of NVIDIA's driver (on Debian the package libnvidia-ml1, on Ubuntu libnvidia-compute-VERSION); a container has it if NVIDIA_DRIVER_CAPABILITIES contains utility; or set PURECU_NVML_LIBRARY to its path
}
