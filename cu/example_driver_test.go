package cu_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/loader"
)

// A program opens one driver, and shares it.
func ExampleDriver() {
	drv, err := cu.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer drv.Close()
	v, err := drv.Version()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the driver is for CUDA", v)
}

// The error says which files were tried, and what was wrong with each.
func ExampleWithLibrary() {
	_, err := cu.Open(cu.WithLibrary("/nowhere/libcuda.so.1"))
	var load *loader.LoadError
	if errors.As(err, &load) {
		for _, c := range load.Candidates {
			fmt.Println("tried", c.Name)
		}
	}
	// Output: tried /nowhere/libcuda.so.1
}

// A program that needs functions of CUDA 99.0 says so when it opens the driver.
func ExampleWithMinVersion() {
	_, err := cu.Open(cu.WithSoftware(cusim.New(cusim.Version(12080))), cu.WithMinVersion(99, 0))
	if errors.Is(err, errors.ErrUnsupported) {
		fmt.Println(err)
	}
	// Output: cu: Open: unsupported operation; the driver supports CUDA 12.8, and the program needs 99.0: install a newer NVIDIA driver
}

// A check of a machine's health fails in time if the driver hangs.
func ExampleOpenContext() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	drv, err := cu.OpenContext(ctx, cu.WithSoftware(cusim.New()))
	if err != nil {
		log.Fatal(err)
	}
	dev, err := drv.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	gpu, err := dev.RetainPrimaryContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		log.Fatal("the GPU does not answer: ", err)
	} else if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	fmt.Println("the GPU answers")
	// Output: the GPU answers
}

// What nobody closed is closed by the garbage collector. The hook finds it in
// tests, before it matters.
func ExampleWithLeakHook() {
	drv, err := cu.Open(cu.WithLeakHook(func(l cu.Leak) {
		if l.Abandoned {
			log.Printf("%s %#x was never closed", l.Kind, l.Handle)
		} else {
			log.Printf("%s %#x: %v", l.Kind, l.Handle, l.Err)
		}
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer drv.Close()
}

func ExampleDriver_Devices() {
	devs, err := drv.Devices()
	if err != nil {
		log.Fatal(err)
	}
	for _, dev := range devs {
		name, err := dev.Name()
		if err != nil {
			log.Fatal(err)
		}
		size, err := dev.TotalMem()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d: %s, %d GiB\n", dev.Ordinal(), name, size>>30)
	}
}

func ExampleDriver_Device() {
	dev, err := drv.Device(99)
	switch {
	case errors.Is(err, cu.ResultInvalidDevice):
		fmt.Println("there are not so many")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println("found device", dev.Ordinal())
	}
}

// Ordinals change with CUDA_VISIBLE_DEVICES; slots and UUIDs do not.
func ExampleDriver_DeviceByPCIBusID() {
	slot, err := dev.PCIBusID() // or what nvidia-smi prints
	if err != nil {
		log.Fatal(err)
	}
	same, err := drv.DeviceByPCIBusID(slot)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(same == dev)
}

// What an older driver lacks has a substitute, or an error that says so.
func ExampleDriver_Features() {
	f, err := drv.Features()
	if err != nil {
		log.Fatal(err)
	}
	if !f.ParamInfo {
		fmt.Println("launches are checked only for kernels in PTX")
	}
}

func ExampleDriver_Symbols() {
	missing := 0
	for _, sym := range drv.Symbols() {
		if sym.Current && sym.Err != nil {
			missing++
		}
	}
	fmt.Println("functions of CUDA 13.0 that the driver lacks:", missing > 0)
}

// Any function of the driver can be called, here one that tells a profiler
// where to begin. It needs a current context: Do sees to that.
func ExampleDriver_Proc() {
	start, err := drv.Proc("cuProfilerStart")
	if errors.Is(err, errors.ErrUnsupported) {
		fmt.Println("this driver cannot do that")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	err = gpu.Do(func(*cu.Thread) error {
		res, err := start.Call()
		if err == nil && res != cu.ResultSuccess {
			err = res
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A function that returns a value by a pointer writes to memory that does not
// move: pinned memory, for one.
func ExampleProc_Call() {
	out, err := gpu.AllocHost(4, cu.HostDefault)
	if err != nil {
		log.Fatal(err)
	}
	defer out.Close()
	version, err := drv.Proc("cuDriverGetVersion")
	if err != nil {
		log.Fatal(err)
	}
	res, err := version.Call(out.Handle())
	if err == nil && res != cu.ResultSuccess {
		err = res
	}
	if err != nil {
		log.Fatal(err)
	}
	b := make([]byte, 4)
	if _, err := out.ReadAt(b, 0); err != nil {
		log.Fatal(err)
	}
	fmt.Println(binary.NativeEndian.Uint32(b))
}

// Everything answers with an error on nil, also a driver that was not opened.
func ExampleProc_nil() {
	var none *cu.Driver
	proc, err := none.Proc("cuMemAllocManaged")
	fmt.Println(errors.Is(err, cu.ErrNil))
	res, err := proc.Call()
	fmt.Println(res == cu.ResultNotFound, errors.Is(err, cu.ErrNil))
	// Output:
	// true
	// true true
}

func ExampleDriver_CurrentContext() {
	err := gpu.Do(func(*cu.Thread) error {
		handle, err := drv.CurrentContext()
		fmt.Println(handle == gpu.Handle())
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Another library has made its context current on this thread: streams and
// events can be made in it.
func ExampleDriver_WrapContext() {
	err := gpu.Do(func(*cu.Thread) error { // stands for the other library
		handle, err := drv.CurrentContext()
		if err != nil {
			return err
		}
		theirs, err := drv.WrapContext(handle)
		if err != nil {
			return err
		}
		defer theirs.Close() // destroys nothing
		s, err := theirs.NewStream(cu.StreamNonBlocking)
		if err != nil {
			return err
		}
		return s.Close()
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Memory that is closed while a graph uses it is freed by the next call that may wait for the GPU, such as Driver.Close.
// Until then Stats counts it.
func ExampleDriver_Stats() {
	drv, err := cu.Open(cu.WithSoftware(cusim.New()))
	if err != nil {
		log.Fatal(err)
	}
	dev, err := drv.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	built, err := graph.New(gpu)
	if err != nil {
		log.Fatal(err)
	}
	mem, err := gpu.Alloc(1 << 20)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := built.Add(&graph.Memset{Dst: mem, Value: 0}); err != nil {
		log.Fatal(err)
	}
	mem.Close()   // the graph still uses it
	built.Close() // does not wait
	fmt.Println(drv.Stats().DeferredObjects, "object,", drv.Stats().DeferredBytes, "bytes")
	drv.Close()
	fmt.Println(drv.Stats().DeferredObjects, "objects")
	// Output:
	// 1 object, 1048576 bytes
	// 0 objects
}

// An exporter that polls a GPU ends when only a new process can use it again, so that whoever started it starts another one.
func ExampleNeedsRestart() {
	if _, err := s.Query(); cu.NeedsRestart(err) {
		log.Fatal(err)
	}
}
