// Package library loads GPU code for all contexts and devices of a driver, and links pieces of code. Code for one
// context is loaded by cu.Context.LoadModule.
//
//	lib, err := library.Load(drv, ptx)
//	defer lib.Close()
//	fill, err := lib.Kernel("fill")
//	f, err := fill.Function(gpu) // for each context
//	err = f.Launch(s, cu.Grid1D(n, 256), cu.Ptr(mem), cu.U32(n))
//
// # Where to begin
//
//   - Code for all contexts: [Load], [LoadFile], [Library.Kernel], [Kernel.Function].
//   - Its variables: [Library.Module] and cu.Module.Global for those of a context, [Library.Managed] for those that the
//     host uses, too.
//   - Properties of kernels on a device: [Kernel.Attribute], [Kernel.SetAttribute].
//   - Several pieces of code that use each other: [Link].
package library
