// Package server has a mocked NVML with GPUs, on which MIG instances can be created and destroyed.
package server

import (
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
)

// GBtoMB is the number of MB in a GB.
const GBtoMB = 1024

// Server is the mocked NVML.
type Server struct {
	mock.Interface
	mock.ExtendedInterface
	Devices           []nvml.Device
	DriverVersion     string
	NvmlVersion       string
	CudaDriverVersion int
}

// CudaComputeCapability is the compute capability of a GPU.
type CudaComputeCapability struct {
	Major int
	Minor int
}

var (
	_ nvml.Interface         = (*Server)(nil)
	_ nvml.ExtendedInterface = (*Server)(nil)
	_ nvml.Device            = (*Device)(nil)
	_ nvml.GpuInstance       = (*GpuInstance)(nil)
	_ nvml.ComputeInstance   = (*ComputeInstance)(nil)
)

type options struct {
	gpus         []gpus.Config
	driver, nvml string
	cuda         int
}

// Option is an option of [New].
type Option func(*options) error

// WithGPUs sets the GPUs.
func WithGPUs(gpus ...gpus.Config) Option {
	return func(o *options) error { o.gpus = gpus; return nil }
}

// WithDriverVersion sets the version of the driver.
func WithDriverVersion(version string) Option {
	return func(o *options) error { o.driver = version; return nil }
}

// WithNVMLVersion sets the version of NVML.
func WithNVMLVersion(version string) Option {
	return func(o *options) error { o.nvml = version; return nil }
}

// WithCUDADriverVersion sets the version of CUDA that the driver supports.
func WithCUDADriverVersion(version int) Option {
	return func(o *options) error { o.cuda = version; return nil }
}

// New returns a server with the GPUs and versions of the options.
func New(opts ...Option) (*Server, error) {
	var o options
	for _, opt := range opts {
		if err := opt(&o); err != nil {
			return nil, err
		}
	}
	return NewServerWithGPUs(o.driver, o.nvml, o.cuda, o.gpus...), nil
}

// NewServerWithGPUs returns a server without options: see [New].
func NewServerWithGPUs(driverVersion, nvmlVersion string, cudaDriverVersion int, gpuConfigs ...gpus.Config) *Server {
	s := &Server{DriverVersion: driverVersion, NvmlVersion: nvmlVersion, CudaDriverVersion: cudaDriverVersion,
		Devices: make([]nvml.Device, len(gpuConfigs))}
	for i, c := range gpuConfigs {
		s.Devices[i] = NewDeviceFromConfig(c, i)
	}
	s.SetMockFuncs()
	return s
}

// SetMockFuncs sets the functions of the server's methods.
func (s *Server) SetMockFuncs() {
	s.InitFunc = func() nvml.Return { return nvml.SUCCESS }
	s.ShutdownFunc = func() nvml.Return { return nvml.SUCCESS }
	s.ExtensionsFunc = func() nvml.ExtendedInterface { return s }
	s.LookupSymbolFunc = func(string) error { return nil }
	s.SystemGetDriverVersionFunc = func() (string, nvml.Return) { return s.DriverVersion, nvml.SUCCESS }
	s.SystemGetNVMLVersionFunc = func() (string, nvml.Return) { return s.NvmlVersion, nvml.SUCCESS }
	s.SystemGetCudaDriverVersionFunc = func() (int, nvml.Return) { return s.CudaDriverVersion, nvml.SUCCESS }
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return len(s.Devices), nvml.SUCCESS }
	s.DeviceGetHandleByIndexFunc = func(index int) (nvml.Device, nvml.Return) {
		if index < 0 || index >= len(s.Devices) {
			return nil, nvml.ERROR_INVALID_ARGUMENT
		}
		return s.Devices[index], nvml.SUCCESS
	}
	s.DeviceGetHandleByUUIDFunc = func(id string) (nvml.Device, nvml.Return) {
		return s.find(func(d *Device) bool { return d.UUID == id })
	}
	s.DeviceGetHandleByPciBusIdFunc = func(id string) (nvml.Device, nvml.Return) {
		return s.find(func(d *Device) bool { return d.PciBusID == id })
	}
}

// find returns the first GPU for which is returns true.
func (s *Server) find(is func(*Device) bool) (nvml.Device, nvml.Return) {
	for _, d := range s.Devices {
		if is(d.(*Device)) {
			return d, nvml.SUCCESS
		}
	}
	return nil, nvml.ERROR_INVALID_ARGUMENT
}

// Device is a GPU.
type Device struct {
	mock.Device
	sync.RWMutex
	Config             gpus.Config
	UUID               string
	PciBusID           string
	Minor              int
	Index              int
	MigMode            int
	GpuInstances       map[*GpuInstance]struct{}
	GpuInstanceCounter uint32
	MemoryInfo         nvml.Memory
}

// NewDeviceFromConfig returns a GPU with a number.
func NewDeviceFromConfig(config gpus.Config, index int) *Device {
	d := &Device{Config: config, UUID: "GPU-" + uuid.NewString(), PciBusID: fmt.Sprintf("0000:%02x:00.0", index),
		Minor: index, Index: index, GpuInstances: map[*GpuInstance]struct{}{},
		MemoryInfo: nvml.Memory{Total: config.MemoryMB << 20}}
	d.SetMockFuncs()
	return d
}

// SetMockFuncs sets the functions of the GPU's methods.
func (d *Device) SetMockFuncs() {
	d.GetMinorNumberFunc = func() (int, nvml.Return) { return d.Minor, nvml.SUCCESS }
	d.GetIndexFunc = func() (int, nvml.Return) { return d.Index, nvml.SUCCESS }
	d.GetUUIDFunc = func() (string, nvml.Return) { return d.UUID, nvml.SUCCESS }
	d.GetNameFunc = func() (string, nvml.Return) { return d.Config.Name, nvml.SUCCESS }
	d.GetBrandFunc = func() (nvml.BrandType, nvml.Return) { return d.Config.Brand, nvml.SUCCESS }
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return d.MemoryInfo, nvml.SUCCESS }
	d.GetArchitectureFunc = func() (nvml.DeviceArchitecture, nvml.Return) { return d.Config.Architecture, nvml.SUCCESS }
	d.GetCudaComputeCapabilityFunc = func() (int, int, nvml.Return) {
		return d.Config.CudaMajor, d.Config.CudaMinor, nvml.SUCCESS
	}
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
		return nvml.PciInfo{PciDeviceId: d.Config.PciDeviceId}, nvml.SUCCESS
	}
	d.SetMigModeFunc = func(mode int) (nvml.Return, nvml.Return) {
		d.Lock()
		defer d.Unlock()
		d.MigMode = mode
		return nvml.SUCCESS, nvml.SUCCESS
	}
	d.GetMigModeFunc = func() (int, int, nvml.Return) {
		d.RLock()
		defer d.RUnlock()
		return d.MigMode, d.MigMode, nvml.SUCCESS
	}
	d.GetGpuInstanceProfileInfoFunc = d.profile
	d.GetGpuInstancePossiblePlacementsFunc = func(info *nvml.GpuInstanceProfileInfo) ([]nvml.GpuInstancePlacement,
		nvml.Return) {
		return d.Config.MIGProfiles.GpuInstancePlacements[int(info.Id)], nvml.SUCCESS
	}
	d.CreateGpuInstanceFunc = func(info *nvml.GpuInstanceProfileInfo) (nvml.GpuInstance, nvml.Return) {
		return d.create(info, nvml.GpuInstancePlacement{})
	}
	d.CreateGpuInstanceWithPlacementFunc = func(info *nvml.GpuInstanceProfileInfo,
		placement *nvml.GpuInstancePlacement) (nvml.GpuInstance, nvml.Return) {
		return d.create(info, *placement)
	}
	d.GetGpuInstancesFunc = func(info *nvml.GpuInstanceProfileInfo) ([]nvml.GpuInstance, nvml.Return) {
		d.RLock()
		defer d.RUnlock()
		var list []nvml.GpuInstance
		for g := range d.GpuInstances {
			if g.Info.ProfileId == info.Id {
				list = append(list, g)
			}
		}
		return list, nvml.SUCCESS
	}
}

func (d *Device) profile(id int) (nvml.GpuInstanceProfileInfo, nvml.Return) {
	if id < 0 || id >= nvml.GPU_INSTANCE_PROFILE_COUNT {
		return nvml.GpuInstanceProfileInfo{}, nvml.ERROR_INVALID_ARGUMENT
	}
	info, ok := d.Config.MIGProfiles.GpuInstanceProfiles[id]
	if !ok {
		return info, nvml.ERROR_NOT_SUPPORTED
	}
	return info, nvml.SUCCESS
}

func (d *Device) create(info *nvml.GpuInstanceProfileInfo, at nvml.GpuInstancePlacement) (nvml.GpuInstance,
	nvml.Return) {
	d.Lock()
	defer d.Unlock()
	g := NewGpuInstanceFromInfo(nvml.GpuInstanceInfo{Device: d, Id: d.GpuInstanceCounter, ProfileId: info.Id,
		Placement: at}, d.Config.MIGProfiles)
	d.GpuInstanceCounter++
	d.GpuInstances[g] = struct{}{}
	return g, nvml.SUCCESS
}
