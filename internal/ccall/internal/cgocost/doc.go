// Package cgocost calls C through cgo, for comparison in the benchmarks of package ccall. Without
// cgo it is empty.
package cgocost
