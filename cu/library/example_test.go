package library_test

import (
	"encoding/binary"
	"fmt"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cusim"
)

// fillPTX has a kernel that writes a number.
var fillPTX = []byte(`.version 7.0
.target sm_70
.address_size 64
.visible .entry fill(.param .u64 p, .param .u32 v)
{
	.reg .u64 %a;
	.reg .u32 %v;
	ld.param.u64 %a, [p];
	ld.param.u32 %v, [v];
	st.global.u32 [%a], %v;
	ret;
}`)

// Code that is loaded once, and runs on all devices.
func ExampleLibrary() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New(cusim.Devices(2)))))
	defer drv.Close()
	lib := must(library.Load(drv, fillPTX))
	defer lib.Close()
	fill := must(lib.Kernel("fill"))

	for i, dev := range must(drv.Devices()) {
		gpu := must(dev.PrimaryContext())
		defer gpu.Close()
		s := must(gpu.NewStream(cu.StreamNonBlocking))
		defer s.Close()
		mem := must(gpu.Alloc(4))
		defer mem.Close()

		f := must(fill.Function(gpu)) // keep it for more launches
		one := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
		check(f.Launch(s, one, cu.Ptr(mem), cu.U32(uint32(10+i))))
		check(s.Synchronize())
		got := make([]uint32, 1)
		check(cu.CopyTo(mem, got))
		fmt.Println(dev.Ordinal(), got)
	}
	// Output:
	// 0 [10]
	// 1 [11]
}

// A property of a kernel, for all contexts of a device.
func ExampleKernel_SetAttribute() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	lib := must(library.Load(drv, fillPTX))
	defer lib.Close()
	fill, dev := must(lib.Kernel("fill")), must(drv.Device(0))

	check(fill.SetAttribute(dev, cu.FunctionAttributeMaxDynamicSharedSizeBytes, 64<<10))
	fmt.Println(must(fill.Attribute(dev, cu.FunctionAttributeMaxDynamicSharedSizeBytes)))
	// Output: 65536
}

// Two pieces of PTX, one of which calls a function of the other.
func ExampleLink() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()

	const head = ".version 7.0\n.target sm_70\n.address_size 64\n"
	kernel := []byte(head + ".extern .func helper;\n.visible .entry main() { call helper; ret; }\n")
	helper := []byte(head + ".visible .func helper() { ret; }\n")
	_, err := library.Link(gpu, []library.Input{{Name: "main.ptx", Data: kernel}})
	fmt.Println(err)

	linked := must(library.Link(gpu, []library.Input{{Name: "main.ptx", Data: kernel}, {Name: "helper.ptx", Data: helper}}))
	mod := must(gpu.LoadModule(linked.Image))
	defer mod.Close()
	fmt.Println(must(mod.Function("main")).Name())
	// Output:
	// cu: cuLinkComplete(context 0x5a01000000000): CUDA_ERROR_INVALID_SOURCE (300): device kernel image is invalid; the compiler says:
	// 	error   : Undefined reference to 'helper' in 'main.ptx'
	// main
}

// A managed variable is the same for all contexts and for the host.
func ExampleLibrary_Managed() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	lib := must(library.Load(drv, []byte(`.version 7.0
.target sm_70
.address_size 64
.visible .global .attribute(.managed) .u32 total = 7;
.visible .entry more()
{
	.reg .u32 %v;
	atom.global.add.u32 %v, [total], 1;
	ret;
}`)))
	defer lib.Close()
	total := must(lib.Managed(gpu, "total"))
	defer total.Close() // the variable is the library's

	more := must(must(lib.Kernel("more")).Function(gpu))
	check(more.Launch(s, cu.LaunchConfig{Grid: cu.Dim3{X: 10}, Block: cu.Dim3{X: 32}}))
	check(s.Synchronize())
	check(total.View(func(b []byte) error { fmt.Println(binary.LittleEndian.Uint32(b)); return nil }))
	// Output: 327
}
