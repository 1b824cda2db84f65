// Package cuda takes the place of the container toolkit's internal/cuda, which calls the CUDA driver by cgo.
package cuda

import (
	"fmt"

	"github.com/purecu/purecu/loader"
)

// Version returns the version of CUDA that the driver supports.
func Version() (string, error) {
	lib, err := loader.Open("")
	if err != nil {
		return "", fmt.Errorf("error opening DynamicLibrary for CUDA: %w", err)
	}
	return fmt.Sprintf("%d.%d", lib.Version()/1000, lib.Version()%100/10), nil
}

// The numbers of attributes of a device.
const (
	majorAttribute = 75
	minorAttribute = 76
)

// ComputeCapability returns the compute capability of a device.
func ComputeCapability(index int) (string, error) {
	lib, err := loader.Open("")
	if err != nil {
		return "", fmt.Errorf("error opening DynamicLibrary for CUDA: %w", err)
	}
	var start func(flags uint32) error
	var device func(device *int32, index int32) error
	var attribute func(value *int32, attribute, device int32) error
	for name, f := range map[string]any{"cuInit": &start, "cuDeviceGet": &device, "cuDeviceGetAttribute": &attribute} {
		if err := lib.Bind(f, name); err != nil {
			return "", err
		}
	}
	if err := start(0); err != nil {
		return "", err
	}
	var d, major, minor int32
	if err := device(&d, int32(index)); err != nil {
		return "", err
	}
	if err := attribute(&major, majorAttribute, d); err != nil {
		return "", err
	}
	if err := attribute(&minor, minorAttribute, d); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d", major, minor), nil
}
