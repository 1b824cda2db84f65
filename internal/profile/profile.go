// Package profile has the GPUs that the software driver and its NVML can be, one row of facts for each.
//
// A GPU has a [Capability], from which follows what NVIDIA's tables give by compute capability. The rest are facts of
// the product: how much memory it has, how fast its clocks are, and so on. To add a GPU, add it to gpus.go, and its
// compute capability to capability.go.
//
// Each value has its source. [GPU.Recorded] says that cards were asked. Everything else is from public tables, and
// unverified. What no public table has is the H200's value.
package profile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/internal/suggest"
)

// GPU is a kind of GPU.
type GPU struct {
	Name     string // of the profile
	Product  string // the name that cards have
	Recorded bool   // cards have answered what this package says
	*Capability
	Multiprocessors int32
	Engines         int32 // that copy at the same time
	// Groups are the numbers of multiprocessors in the groups of which a cluster can use one.
	Groups       []uint64
	Memory       Memory
	Clocks       Clocks
	Power        Power
	Temperatures Temperatures
	PCI          PCI
	Board        Board
	NVLinks      uint32
	MIG          *MIG // nil if the GPU cannot be divided
}

// Memory is the memory of a GPU, in bytes.
type Memory struct {
	Size       uint64 // what CUDA says
	Total      uint64 // what NVML says, which includes memory that CUDA does not know
	BAR1       uint64 // that the processor can address
	BusWidth   int32  // in bits
	L2         int32
	Persisting int32 // the most of the L2 cache that is set aside
	Window     int32 // the largest window of an access policy
	Rows       int32 // the banks with spare rows; 0 if pages are retired instead
}

// Clocks are frequencies in MHz.
type Clocks struct {
	Idle, Graphics, Step int32 // of the multiprocessors: the lowest and the highest, and between two of them
	Applications         int32
	Memory, SlowMemory   int32 // SlowMemory is 0 if the memory has one frequency
	IdleVideo, Video     int32
}

// Power is in milliwatts.
type Power struct{ Idle, Least, Most uint32 }

// Temperatures are in degrees Celsius: at which the GPU switches itself off, becomes slower, and stays below. Memory is
// 0 if the GPU does not say it.
type Temperatures struct{ Shutdown, Slowdown, Memory, Most int32 }

// PCI is how the GPU is identified on the PCI bus, and the generation of its link.
type PCI struct{ Device, Subsystem, Generation uint32 }

// Board is what a GPU's ROM says.
type Board struct{ Part, VBIOS, Image, OEM, ECC string }

// MIG is how a GPU can be divided. Where instances can be is the same on all GPUs that can be divided in seven.
type MIG struct {
	Slice     uint32 // the multiprocessors of a slice
	Instances []Instance
}

// Instance is a kind of GPU instance. Profile is the number in the names of NVML_GPU_INSTANCE_PROFILE….
type Instance struct {
	Profile, ID, Slices, Count, Multiprocessors uint32
	Copy, Decoders, Encoders, JPEG, OFA         uint32
	Memory                                      uint64 // in MiB
	Name                                        string // without MIG
}

// Default is the GPU that a driver has if nobody asks for another.
func Default() *GPU { return h200 }

// All returns all GPUs, from the oldest to the newest.
func All() []*GPU { return []*GPU{t4, a100, l40s, h100, h200, b200} }

// Names returns the names of all GPUs.
func Names() (names []string) {
	for _, g := range All() {
		names = append(names, g.Name)
	}
	return names
}

// Named returns the GPU with a name, in any case.
func Named(name string) (*GPU, error) {
	for _, g := range All() {
		if strings.EqualFold(g.Name, name) {
			return g, nil
		}
	}
	if name == "" {
		return nil, fmt.Errorf("there is no profile without a name: there are %s", strings.Join(Names(), ", "))
	}
	near := suggest.Text(name, Names())
	if near == "" {
		near = ": there are " + strings.Join(Names(), ", ")
	}
	return nil, fmt.Errorf("there is no profile %q%s", name, near)
}

// MostDevices is the largest number of devices of a machine.
const MostDevices = 64

// Parse reads a list of GPUs, such as A100:2,T4 for two A100 and one T4.
func Parse(list string) (gpus []*GPU, err error) {
	for entry := range strings.SplitSeq(list, ",") {
		name, number, counted := strings.Cut(entry, ":")
		g, err := Named(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		n := 1
		if counted {
			if n, err = strconv.Atoi(strings.TrimSpace(number)); err != nil || n < 1 || n > MostDevices {
				return nil, fmt.Errorf("%q is no number of devices from 1 to %d, as in %s:2", number, MostDevices, g.Name)
			}
		}
		gpus = append(gpus, slices.Repeat([]*GPU{g}, n)...)
	}
	if len(gpus) > MostDevices {
		return nil, fmt.Errorf("these are %d devices, and at most %d are possible", len(gpus), MostDevices)
	}
	return gpus, nil
}
