package simnvml

import (
	"strings"
	"sync"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/nvml/raw"
)

// Machine is what has the GPUs.
type Machine interface {
	// GPUs returns what the machine knows of its GPUs now. Their number and their order never change.
	GPUs() []GPU
	// Clock is the clock of the CUDA driver. With virtual time, the events and the averages follow it.
	Clock() driver.Clock
	// DriverVersion is the version of CUDA that the driver supports: 13000 is 13.0.
	DriverVersion() int
	// Change changes the settings of a GPU. It fails if processes share the machine, and cannot share the settings.
	Change(gpu int, f func(s *Settings)) error
	// Misuse notes a mistake in what a function of this package was asked for.
	Misuse(function, what string)
}

// GPU is what a machine knows of a GPU.
type GPU struct {
	Profile     *profile.GPU
	Name        string
	UUID        string // it begins with GPU-
	Bus         uint32 // of PCI
	Memory      uint64 // in bytes
	Used        uint64 // of the memory, in bytes
	Processes   []Process
	Busy        time.Duration // how long work has run so far
	Utilization float64       // the share of the last second in which work ran
	Settings    Settings
	Accounts    []Account // of processes that use the GPU, and of some that have
}

// Process is a program that uses a GPU.
type Process struct {
	ID          uint32
	Used        uint64  // of the GPU's memory, in bytes
	Utilization float64 // the share of the last second in which its work ran
}

// state is what all functions share. Nothing is called with mu locked, except the functions of
// this package and the clock.
type state struct {
	machine Machine
	begun   time.Time // when the NVML was made, by the machine's clock

	mu      sync.Mutex
	changed chan struct{} // closed when something happens that a call may wait for, and replaced
	opens   int           // how many calls of nvmlInit have no nvmlShutdown yet
	gpus    []*gpu
	last    uintptr // the newest handle
	sets    map[raw.EventSet]*eventSet
	systems map[raw.SystemEventSet]bool // those that wait for events of the machine
	samples map[raw.GpmSample]*gpmSample
	faults
	script   []step // what will happen
	stepping bool   // while a step happens
	nvml     *NVML  // of this state
}

// gpu is the state of a GPU or a MIG device that NVML has.
type gpu struct {
	profile *profile.GPU
	answers recording
	index   int
	handle  raw.Device
	errors  counters
	reasons uint64 // why clocks are not higher
	lost    bool
	busy    time.Duration // how long it has worked, as far as somebody has asked
	mig     mig
	part    *computeInstance // what a MIG device is, or nil
	links   []link           // NVLinks
	cleared map[uint32]bool  // the fields that count, and that were set to 0
}

// newState makes the state of a machine.
func newState(m Machine) *state {
	s := &state{machine: m, begun: m.Clock().Now(), changed: make(chan struct{}), sets: map[raw.EventSet]*eventSet{},
		systems: map[raw.SystemEventSet]bool{}, samples: map[raw.GpmSample]*gpmSample{}, faults: newFaults()}
	recordings := make(map[*profile.GPU]recording)
	for i, g := range m.GPUs() {
		p := g.Profile
		if recordings[p] == nil {
			recordings[p] = recordingOf(p)
		}
		s.gpus = append(s.gpus, &gpu{profile: p, answers: recordings[p], index: i, handle: raw.Device(s.newHandle())})
	}
	return s
}

// newHandle returns a number that no object has had. No function takes it for an address.
func (s *state) newHandle() uintptr {
	s.last += 0x1000
	return s.last
}

// enter begins a call: it meets a fault, or learns that the library is not initialized, or that a GPU is lost.
func (s *state) enter(name string, args ...any) raw.Return {
	s.nvml.catchUp()
	if r := s.meet(name, s.indexes(name, args)); r != raw.NVML_SUCCESS {
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := h200Profile()[name]; s.opens == 0 && !strings.HasPrefix(name, "Init") && (f == nil ||
		f.before.result == uninitialized) {
		return raw.NVML_ERROR_UNINITIALIZED
	}
	for _, arg := range args {
		switch g := s.owner(arg); {
		case g == nil:
		case g.lost:
			return raw.NVML_ERROR_GPU_IS_LOST
		case g.profile.MIG == nil && aboutMIG(name):
			return raw.NVML_ERROR_NOT_SUPPORTED
		}
	}
	return raw.NVML_SUCCESS
}

// indexes returns the numbers of the GPUs that a call is about, by their handles or, if it asks for a handle, by what
// it knows of them.
func (s *state) indexes(name string, args []any) (list []int) {
	if strings.HasPrefix(name, lookup) {
		for i, g := range s.machine.GPUs() {
			switch args[0] {
			case uint32(i), g.UUID, g.UUID[len("GPU-"):], serialOf(i), busID(g.Bus):
				return []int{i}
			}
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, arg := range args {
		if g := s.owner(arg); g != nil {
			list = append(list, g.index)
		}
	}
	return list
}

// recording returns what the GPU answers that a call is about, or an H200 if it is about none.
func (s *state) recording(args []any) recording {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, arg := range args {
		if g := s.owner(arg); g != nil {
			return g.answers
		}
	}
	return h200Profile()
}

// knows reports whether there is an object with this handle.
func (s *state) knows(handle any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch h := handle.(type) {
	case raw.Device:
		return s.device(h) != nil
	case raw.EventSet:
		return s.sets[h] != nil
	case raw.GpmSample:
		return s.samples[h] != nil
	}
	return false
}

// owner returns the GPU of a handle of it, of a MIG device, or of an instance, or nil. The caller holds mu.
func (s *state) owner(handle any) *gpu {
	switch h := handle.(type) {
	case raw.Device:
		if g := s.device(h); g != nil {
			return s.gpus[g.index]
		}
	case raw.GpuInstance:
		if i := s.gpuInstance(h); i != nil {
			return i.gpu
		}
	case raw.ComputeInstance:
		if c := s.computeInstance(h); c != nil {
			return c.parent.gpu
		}
	}
	return nil
}

// device returns the GPU or the MIG device with this handle, or nil. The caller holds mu.
func (s *state) device(h raw.Device) *gpu {
	if g := s.find(h); g != nil {
		return g
	}
	for _, g := range s.gpus {
		for _, c := range g.devices() {
			if c.device.handle == h {
				return c.device
			}
		}
	}
	return nil
}

// gpuInstance returns the GPU instance with this handle, or nil. The caller holds mu.
func (s *state) gpuInstance(h raw.GpuInstance) *gpuInstance {
	for _, g := range s.gpus {
		for _, i := range g.mig.instances {
			if i.handle == h {
				return i
			}
		}
	}
	return nil
}

// computeInstance returns the compute instance with this handle, or nil. The caller holds mu.
func (s *state) computeInstance(h raw.ComputeInstance) *computeInstance {
	for _, g := range s.gpus {
		for _, c := range g.devices() {
			if c.handle == h {
				return c
			}
		}
	}
	return nil
}

// find returns the GPU with this handle, or nil. The caller holds mu.
func (s *state) find(h raw.Device) *gpu {
	for _, g := range s.gpus {
		if g.handle == h {
			return g
		}
	}
	return nil
}

// broadcast wakes the calls that wait. The caller holds mu.
func (s *state) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}
