package loader

import "runtime"

const platform = runtime.GOOS + "/" + runtime.GOARCH

// shipped are the platforms of this package for which NVIDIA ships, or has
// shipped, a driver. On any other there is nothing to search for.
var shipped = map[string]bool{
	"linux/amd64":   true,
	"linux/arm64":   true, // servers, and Jetson
	"linux/ppc64le": true, // until CUDA 12.4
	"windows/amd64": true,
	"windows/arm64": true, // not by all drivers: Windows knows whether there is one
}
