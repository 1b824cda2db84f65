package cutest

import (
	"encoding/binary"
	"math"
	"reflect"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// KernelCase is a launch of a kernel that exists twice: in PTX, and as a function in Go.
type KernelCase struct {
	// Image is the PTX, or a fatbin with it, and Name the name of the kernel.
	Image []byte
	Name  string
	// Go is the same kernel in Go.
	Go cusim.Kernel
	// Config is how it is launched.
	Config cu.LaunchConfig
	// Args are the arguments: a cu.Arg, or a slice of numbers, which becomes memory of the device with this
	// content. The slices are not changed.
	Args []any
	// Tolerance is how far floats in memory may be apart, relative to the larger one. 0 means not at all.
	Tolerance float64
	// Options are for the software driver that executes the PTX, such as cusim.CheckKernels.
	Options []cusim.Option
}

// CompareKernel launches the PTX and the Go function of a kernel on the same memory, each on a software
// driver of its own. It reports as an error of the test where the memory differs afterwards, and returns
// how many instructions the warps have executed, so that the test can assert an upper bound.
func CompareKernel(t testing.TB, c KernelCase) (instructions uint64) {
	t.Helper()
	ofPTX, sim := c.launch(t, c.Options...)
	if sim.GoLaunches(c.Name) > 0 {
		t.Errorf("cutest: kernel %s: its PTX was not executed: an option has a Go function for it", c.Name)
	}
	ofGo, _ := c.launch(t, cusim.WithKernel(c.Name, c.Go))
	for i := range ofPTX {
		if !ofPTX[i].IsValid() {
			continue
		}
		n, at := 0, 0
		for j := range ofPTX[i].Len() {
			if !c.same(ofPTX[i].Index(j), ofGo[i].Index(j)) {
				if n++; n == 1 {
					at = j
				}
			}
		}
		if n > 0 {
			t.Errorf("cutest: kernel %s: argument %d differs in %d of %d elements: element %d is %v after the PTX, "+
				"and %v after the Go function", c.Name, i, n, ofPTX[i].Len(), at, ofPTX[i].Index(at), ofGo[i].Index(at))
		}
	}
	return sim.Instructions(c.Name)
}

// same reports whether two elements are the same, or close enough.
func (c *KernelCase) same(a, b reflect.Value) bool {
	if !a.CanFloat() {
		return a.Equal(b)
	}
	x, y := a.Float(), b.Float()
	if x == y || math.IsNaN(x) && math.IsNaN(y) {
		return true
	}
	larger := max(math.Abs(x), math.Abs(y)) // an infinite number is close to no other
	return !math.IsInf(larger, 0) && math.Abs(x-y) <= c.Tolerance*larger
}

// launch launches the kernel on a new driver. The results have the memory afterwards, by the index of the
// argument.
func (c *KernelCase) launch(t testing.TB, opts ...cusim.Option) (results []reflect.Value, sim *cusim.Driver) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("cutest: kernel %s: %v", c.Name, err)
		}
	}
	drv, sim := Soft(t, opts...)
	dev, err := drv.Device(0)
	must(err)
	gpu, err := dev.PrimaryContext()
	must(err)
	defer gpu.Close()
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	must(err)
	defer s.Close()
	mod, err := gpu.LoadModule(c.Image)
	must(err)
	defer mod.Close()
	kernel, err := mod.Function(c.Name)
	must(err)
	args, memory := make([]cu.Arg, len(c.Args)), make([]*cu.DeviceMem, len(c.Args))
	results = make([]reflect.Value, len(c.Args))
	for i, a := range c.Args {
		if arg, is := a.(cu.Arg); is {
			args[i] = arg
			continue
		}
		data, err := binary.Append(nil, binary.LittleEndian, a)
		if v := reflect.ValueOf(a); err != nil || v.Kind() != reflect.Slice || len(data) == 0 {
			t.Fatalf("cutest: kernel %s: argument %d is a %T: it has to be a cu.Arg, or a slice of numbers that is "+
				"not empty",
				c.Name, i, a)
		}
		mem, err := gpu.Alloc(uint64(len(data)))
		must(err)
		defer mem.Close()
		must(mem.CopyFrom(data))
		args[i], memory[i] = cu.Ptr(mem), mem
	}
	must(kernel.Launch(s, c.Config, args...))
	must(s.Synchronize())
	for i, mem := range memory {
		if mem == nil {
			continue
		}
		data := make([]byte, mem.Size())
		must(mem.CopyTo(data))
		before := reflect.ValueOf(c.Args[i])
		after := reflect.MakeSlice(before.Type(), before.Len(), before.Len())
		_, err := binary.Decode(data, binary.LittleEndian, after.Interface())
		must(err)
		results[i] = after
	}
	return results, sim
}
