// Package code is the code of a CUDA device in Go: what is in an image (a [Text] and its kernels), how it is
// compiled and linked, which launches a [Function] takes, how many of its blocks run at the same time, and the [Heap]
// of kernels. It knows no handles and no contexts. Package sim keeps the memory of variables, and launches.
package code

import "github.com/purecu/purecu/driver"

const ok = driver.ResultSuccess

// The resources of a multiprocessor that all GPUs have.
const (
	mostInBlock      = 1024
	registers        = 65536
	sharedUnlessMore = 48 << 10 // the most for a block unless its kernel's attribute is higher
	registersEach    = 16       // the registers of each thread in this model
	warp             = 32
)

// The largest grid and the largest block of a device.
var (
	largestGrid  = Dim3{1<<31 - 1, 65535, 65535}
	largestBlock = Dim3{1024, 1024, 64}
)

// Dim3 is a number of blocks or threads in three dimensions.
type Dim3 [3]uint32

// Count returns the product of the dimensions, which were checked.
func (d Dim3) Count() uint64 { return uint64(d[0]) * uint64(d[1]) * uint64(d[2]) }

// within reports whether the dimensions are not 0, and not larger than others.
func (d Dim3) within(most Dim3) bool {
	return d[0]-1 < most[0] && d[1]-1 < most[1] && d[2]-1 < most[2] // 0-1 is larger than all
}

// DivisibleBy reports whether each dimension is a multiple of another.
func (d Dim3) DivisibleBy(by Dim3) bool { return d[0]%by[0] == 0 && d[1]%by[1] == 0 && d[2]%by[2] == 0 }

// OfBlocks checks the dimensions of a cluster: none or all of them are 0.
func (d Dim3) OfBlocks() driver.Result {
	if d != (Dim3{}) && d.Count() == 0 {
		return driver.ResultInvalidClusterSize
	}
	return ok
}
