package loader

import "runtime"

const platform = runtime.GOOS + "/" + runtime.GOARCH

// shipped are the platforms for which NVIDIA ships or has shipped a driver. On other platforms Open
// does not search.
var shipped = map[string]bool{
	"linux/amd64":   true,
	"linux/arm64":   true, // servers, and Jetson
	"linux/ppc64le": true, // until CUDA 12.4
	"windows/amd64": true,
	"windows/arm64": true, // some drivers only
}
