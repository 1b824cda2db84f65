package sim

import (
	"fmt"
	"time"
)

// DeviceState is what a device of the machine is, and does now. Devices that CUDA_VISIBLE_DEVICES hides are there, too.
type DeviceState struct {
	Name        string
	UUID        string // GPU-…
	Bus         int    // of PCI
	Memory      uint64 // bytes
	Used        uint64 // bytes of the memory
	Contexts    int
	Busy        time.Duration // how long it has worked
	Utilization float64       // the share of the last second in which it worked
}

// Inspect returns the state of all devices. It works before cuInit, and meets no faults.
func (d *Driver) Inspect() []DeviceState {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine.CatchUp()
	now := d.engine.Clock.At()
	list := make([]DeviceState, len(d.installed))
	for i, v := range d.installed {
		id := v.uuid()
		list[i] = DeviceState{
			Name: deviceName, UUID: fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]),
			Bus: v.bus(), Memory: deviceMemory, Used: v.memory, Contexts: len(v.contexts),
			Busy: v.load.Busy(now), Utilization: v.load.Share(now),
		}
	}
	return list
}

// CUDAVersion is what cuDriverGetVersion returns.
func (d *Driver) CUDAVersion() int { return int(d.version) }
