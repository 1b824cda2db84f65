// Package cgocost calls C through cgo, so that the benchmarks of package ccall
// have something to compare with. Without cgo it is empty.
package cgocost
