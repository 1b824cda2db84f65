package sim

import (
	"fmt"
	"os"
	"time"
)

// DeviceState is what a device of the machine is, and does now. Devices that CUDA_VISIBLE_DEVICES hides are there, too.
type DeviceState struct {
	Name        string
	UUID        string // GPU-…
	Bus         int    // of PCI
	Memory      uint64 // bytes
	Used        uint64 // bytes of the memory
	Processes   []DeviceProcess
	Busy        time.Duration // how long it has worked
	Utilization float64       // the share of the last second in which it worked
}

// DeviceProcess is a process with contexts on a device. Of other processes, Utilization is not exact: see [Machine].
type DeviceProcess struct {
	ID          uint32
	Used        uint64
	Busy        time.Duration
	Utilization float64
}

// Inspect returns the state of all devices. It works before cuInit, and meets no faults.
func (d *Driver) Inspect() []DeviceState {
	others := d.others()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine.CatchUp()
	now := d.engine.Clock.At()
	list := make([]DeviceState, len(d.installed))
	for i, v := range d.installed {
		id := v.uuid()
		state := DeviceState{
			Name: deviceName, UUID: fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]),
			Bus: v.bus(), Memory: deviceMemory,
		}
		all := others[i]
		if len(v.contexts) > 0 {
			all = append(all, DeviceProcess{ID: uint32(os.Getpid()), Used: v.memory, Busy: v.load.Busy(now), Utilization: v.load.Share(now)})
		} else { // it may have had some
			state.Used, state.Busy, state.Utilization = v.memory, v.load.Busy(now), v.load.Share(now)
		}
		for _, p := range all {
			state.Used = min(state.Used+p.Used, deviceMemory)
			state.Busy += p.Busy
			state.Utilization = min(state.Utilization+p.Utilization, 1)
		}
		state.Processes = all
		list[i] = state
	}
	return list
}

// CUDAVersion is what cuDriverGetVersion returns.
func (d *Driver) CUDAVersion() int { return int(d.version) }
