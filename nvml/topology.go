package nvml

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/purecu/purecu/nvml/raw"
)

// NearestGPUs returns the other GPUs that are as near to the GPU as a level says, and not nearer
// (nvmlDeviceGetTopologyNearestGpus). It works only on Linux.
func (d *Device) NearestGPUs(level TopologyLevel) ([]*Device, error) {
	type found struct {
		handle raw.Device
		index  int // or -1
	}
	o := d.obj()
	all, err := get(o, "nvmlDeviceGetTopologyNearestGpus", func(l *raw.Library, h uint64) ([]found, raw.Return) {
		handles, r := list(func(n *uint32, devices []raw.Device) raw.Return {
			return l.DeviceGetTopologyNearestGpus(raw.Device(h), level, n, devices)
		})
		var all []found
		for _, handle := range filled(handles) {
			var index uint32
			if l.DeviceGetIndex(handle, &index) != raw.NVML_SUCCESS {
				all = append(all, found{handle, -1})
				continue
			}
			all = append(all, found{handle, int(index)})
		}
		return all, r
	})
	return each(all, func(f found) *Device {
		if f.index < 0 {
			return o.device(f.handle, "a GPU near "+o.name)
		}
		return o.device(f.handle, fmt.Sprintf("device %d", f.index))
	}), err
}

// filled returns the handles that the library has set. The functions for neighbors do not change the number if the list
// has room for more.
func filled(handles []raw.Device) []raw.Device {
	return slices.DeleteFunc(handles, func(h raw.Device) bool { return h == 0 })
}

// The numbers of words that hold all processors and all NUMA nodes that Linux can have.
const (
	processorWords = 8192 / bits.UintSize
	nodeWords      = 1024 / bits.UintSize
)

// CPUAffinity returns the numbers of the processors that are nearest to the GPU: those of its NUMA node or of its
// socket (nvmlDeviceGetCpuAffinityWithinScope, and nvmlDeviceGetCpuAffinity for older drivers). It works only on
// Linux.
func (d *Device) CPUAffinity(scope AffinityScope) ([]int, error) {
	const op = "nvmlDeviceGetCpuAffinityWithinScope"
	return get(d.obj(), op, func(l *raw.Library, h uint64) ([]int, raw.Return) {
		set := make([]raw.ULong, processorWords)
		r := l.DeviceGetCpuAffinityWithinScope(raw.Device(h), set, scope)
		if lacks(r) && scope == raw.NVML_AFFINITY_SCOPE_NODE {
			r = l.DeviceGetCpuAffinity(raw.Device(h), set)
		}
		return members(set), r
	})
}

// MemoryAffinity returns the numbers of the NUMA nodes whose memory is nearest to the GPU: its own, or those of its
// socket (nvmlDeviceGetMemoryAffinity). It works only on Linux.
func (d *Device) MemoryAffinity(scope AffinityScope) ([]int, error) {
	return get(d.obj(), "nvmlDeviceGetMemoryAffinity", func(l *raw.Library, h uint64) ([]int, raw.Return) {
		set := make([]raw.ULong, nodeWords)
		r := l.DeviceGetMemoryAffinity(raw.Device(h), set, scope)
		return members(set), r
	})
}

// members returns the numbers of the bits that are set.
func members(set []raw.ULong) (numbers []int) {
	const size = 32 << (^raw.ULong(0) >> 63)
	for i, word := range set {
		for bit := range size {
			if word>>bit&1 != 0 {
				numbers = append(numbers, i*size+bit)
			}
		}
	}
	return numbers
}
