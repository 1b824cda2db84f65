package sim

import (
	"fmt"
	"os"

	"github.com/purecu/purecu/internal/simnvml"
)

var _ simnvml.Machine = (*Driver)(nil)

// GPUs returns the state of all devices for NVML, also of those that CUDA_VISIBLE_DEVICES hides. It works before
// cuInit, and meets no faults.
func (d *Driver) GPUs() []simnvml.GPU {
	settings := d.allSettings()
	others := d.others(settings)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.engine.CatchUp()
	now := d.engine.Clock.At()
	list := make([]simnvml.GPU, len(d.installed))
	for i, v := range d.installed {
		id := v.uuid()
		g := simnvml.GPU{
			Profile: v.GPU, Name: v.name(), UUID: fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]),
			Bus: uint32(v.bus()), Memory: v.Memory.Size, Used: v.memory, Busy: v.load.Busy(now), Utilization: v.load.Share(now),
			Settings: settings[i],
		}
		if len(v.contexts) > 0 {
			g.Processes = []simnvml.Process{{ID: uint32(os.Getpid()), Used: v.memory, Utilization: g.Utilization}}
		}
		if v.begun != 0 {
			g.Accounts = append(g.Accounts, v.account(now))
		}
		for _, p := range others[i] {
			if p.account.Begun != 0 {
				g.Accounts = append(g.Accounts, p.account)
			}
			if !p.uses {
				continue
			}
			g.Used = min(g.Used+p.Used, v.Memory.Size)
			g.Busy += p.busy
			g.Utilization = min(g.Utilization+p.Utilization, 1)
			g.Processes = append(g.Processes, p.Process)
		}
		list[i] = g
	}
	return list
}

// DriverVersion is what cuDriverGetVersion returns.
func (d *Driver) DriverVersion() int { return int(d.version) }

// Misuse notes a mistake of a program or of a test that a function of NVML or of package cusim has found.
func (d *Driver) Misuse(op, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.misuse(op, 0, what, nil)
}
