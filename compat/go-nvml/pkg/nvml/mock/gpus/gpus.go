// Package gpus has the GPUs that mock servers can have.
package gpus

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// Config describes a model of GPUs.
type Config struct {
	Name         string
	Architecture nvml.DeviceArchitecture
	Brand        nvml.BrandType
	MemoryMB     uint64
	CudaMajor    int
	CudaMinor    int
	PciDeviceId  uint32
	MIGProfiles  MIGProfileConfig
}

// MIGProfileConfig has the MIG profiles of a GPU by their numbers. For compute instances the first number is
// that of the GPU instance's profile.
type MIGProfileConfig struct {
	GpuInstanceProfiles       map[int]nvml.GpuInstanceProfileInfo
	ComputeInstanceProfiles   map[int]map[int]nvml.ComputeInstanceProfileInfo
	GpuInstancePlacements     map[int][]nvml.GpuInstancePlacement
	ComputeInstancePlacements map[int]map[int][]nvml.ComputeInstancePlacement
}

// Multiple returns several GPUs of a model.
func Multiple(count int, gpu Config) []Config {
	list := make([]Config, 0, count)
	for len(list) < count {
		list = append(list, gpu)
	}
	return list
}
