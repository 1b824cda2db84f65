// Package driver is the CUDA driver's binary interface in Go: every symbol's
// name and version, typed calls that return what C writes through pointers,
// results, handle types, and the same functions as a Go interface, [Software],
// for a driver that is not in C at all. [Unimplemented] begins one.
//
// It knows nothing of lifetimes: a call with a destroyed handle reaches the
// driver and crashes there. Package cu prevents that.
//
// Files with names that begin with z are generated from a manifest of facts
// about the driver API; see tools/gen-symbols.
package driver

//go:generate go run -C ../tools ./gen-symbols emit -manifest gen-symbols/manifest/cuda-13.0.tsv -calls gen-symbols/calls.tsv -root ..
