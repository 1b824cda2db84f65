// Package driver is the binary interface of the CUDA driver in Go.
//
// It has the name and version of every symbol, the handle types, the results, and a typed call for
// each function up to CUDA 13.4. What is newer than CUDA 13.0 is unverified, as the documentation of
// each says. A typed call returns the values that the C function writes through pointers. The
// interface [Software] has the same functions, for drivers that are written in Go. Such a driver embeds
// [Unimplemented], and declares the functions that it has.
//
// The package does not track the lifetime of handles: a call with a destroyed handle reaches the
// driver and crashes there. Package cu prevents this. Slices and what pointers refer to are kept
// during the call. What the driver uses later must be memory that is not Go's, or be pinned by a
// [runtime.Pinner]: cuLinkCreate's values of options, to which the driver writes until cuLinkDestroy,
// and what asynchronous copies and nodes of graphs refer to.
//
// The thread that creates a linker must also complete and destroy it: driver 580 crashes if another
// thread completes it, or destroys it before it is complete. [Table.Link] makes all calls on one thread.
//
// The files whose names begin with z are generated from a table of the driver API: see
// tools/gen-symbols.
package driver

//go:generate go run -C ../tools ./gen-symbols emit -manifest gen-symbols/manifest/cuda-13.0.tsv -additions gen-symbols/manifest/cudaProfiler-13.0.tsv,gen-symbols/manifest/cuda-13.4-unverified.tsv -classes gen-symbols/classes.txt -measured ../tests/gpu/blocking.tsv -calls gen-symbols/calls.tsv -root ..
//go:generate go run -C ../tools ./gen-override -root .. driver.Software=internal/testrig/override/zdriver.go
