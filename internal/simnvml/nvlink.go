package simnvml

import (
	"fmt"

	"github.com/purecu/purecu/nvml/raw"
)

// link is an NVLink of a GPU, which leads to an NVSwitch. The H200 that was asked had none: that there are 18 links and
// four switches, and what functions say about them, follows the documentation of HGX H200, and is unverified.
type link struct {
	remote uint32 // the number of the NVSwitch's end
	down   bool
	errors [raw.NVML_NVLINK_ERROR_COUNT]uint64
}

const (
	linkSpeed   = 26_562     // in MB/s
	switches    = 4          // of a machine
	switchBus   = 5          // of PCI, of the first one
	switchModel = 0x22a310de // the number of the model on PCI
)

// Links gives each GPU NVLinks, but no more than it has.
func (n *model) Links(count int) {
	if count < 0 || count > raw.NVML_NVLINK_MAX_LINKS {
		n.machine.Misuse("NVML", fmt.Sprintf("a GPU has 0 to %d NVLinks, so it does not get %d", raw.NVML_NVLINK_MAX_LINKS,
			count))
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range n.gpus {
		g.links = make([]link, min(count, int(g.profile.NVLinks)))
		for i := range g.links {
			g.links[i].remote = uint32(g.index*(raw.NVML_NVLINK_MAX_LINKS/switches+1) + i/switches)
		}
	}
}

// atLink calls f with an NVLink, while the state is locked. One that is not there is a misuse.
func (n *model) atLink(index, number int, f func(g *gpu, l *link)) {
	missing := false
	n.at(index, func(g *gpu) {
		if missing = number < 0 || number >= len(g.links); !missing {
			f(g, &g.links[number])
		}
	})
	if missing {
		n.machine.Misuse("NVML", fmt.Sprintf("GPU %d has no NVLink %d, so nothing happens to it", index, number))
	}
}

// xidNVLink is the number of an error of an NVLink.
const xidNVLink = 74

// SetLink makes an NVLink active or not. That it is not active any more is reported as an error.
func (n *model) SetLink(index, number int, active bool) {
	n.atLink(index, number, func(g *gpu, l *link) {
		if !active && !l.down {
			n.happens(g, raw.EventTypeXidCriticalError, xidNVLink)
		}
		l.down = !active
	})
}

// LinkErrors adds to a counter of errors of an NVLink.
func (n *model) LinkErrors(index, number int, kind raw.NvLinkErrorCounter, count uint64) {
	if kind >= raw.NVML_NVLINK_ERROR_COUNT {
		n.machine.Misuse("NVML", fmt.Sprintf("there are no errors %v of NVLinks, so none is counted", kind))
		return
	}
	n.atLink(index, number, func(_ *gpu, l *link) { l.errors[kind] += count })
}

// link answers a call about an NVLink, with the state locked. The answers know the result without NVLinks, which is
// NVML_ERROR_NOT_SUPPORTED if the other arguments are right.
func (n *model) link(without raw.Return, device raw.Device, number uint32, f func(l *link) raw.Return) raw.Return {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := n.find(device)
	switch {
	case g == nil || len(g.links) == 0 || without != raw.NVML_ERROR_NOT_SUPPORTED:
		return without
	case number >= uint32(len(g.links)):
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	return f(&g.links[number])
}

// DeviceGetNvLinkState reports whether an NVLink is active.
func (n *model) DeviceGetNvLinkState(device raw.Device, number uint32, active *raw.EnableState) raw.Return {
	return n.link(n.answers.DeviceGetNvLinkState(device, number, active), device, number, func(l *link) raw.Return {
		return output(active, raw.EnableState(bit(!l.down)))
	})
}

// DeviceGetNvLinkVersion returns the version of an NVLink.
func (n *model) DeviceGetNvLinkVersion(device raw.Device, number uint32, version *uint32) raw.Return {
	return n.link(n.answers.DeviceGetNvLinkVersion(device, number, version), device, number, func(*link) raw.Return {
		return output(version, uint32(raw.NVML_NVLINK_VERSION_4_0))
	})
}

// DeviceGetNvLinkCapability reports what an NVLink can do, which is all that NVML knows.
func (n *model) DeviceGetNvLinkCapability(device raw.Device, number uint32, capability raw.NvLinkCapability,
	has *uint32) raw.Return {
	r := n.answers.DeviceGetNvLinkCapability(device, number, capability, has)
	return n.link(r, device, number, func(*link) raw.Return {
		if capability >= raw.NVML_NVLINK_CAP_COUNT {
			return raw.NVML_ERROR_INVALID_ARGUMENT
		}
		return output(has, 1)
	})
}

// DeviceGetNvLinkRemoteDeviceType returns what an NVLink leads to.
func (n *model) DeviceGetNvLinkRemoteDeviceType(device raw.Device, number uint32,
	kind *raw.IntNvLinkDeviceType) raw.Return {
	r := n.answers.DeviceGetNvLinkRemoteDeviceType(device, number, kind)
	return n.link(r, device, number, func(*link) raw.Return { return output(kind, raw.NVML_NVLINK_DEVICE_TYPE_SWITCH) })
}

// DeviceGetNvLinkRemotePciInfo returns the place of the NVSwitch that an NVLink leads to.
func (n *model) DeviceGetNvLinkRemotePciInfo(device raw.Device, number uint32, pci *raw.PciInfo) raw.Return {
	return n.link(n.answers.DeviceGetNvLinkRemotePciInfo(device, number, pci), device, number, func(*link) raw.Return {
		return output(pci, switchPCI(number))
	})
}

// DeviceGetNvLinkRemotePciInfoV2 returns the place of the NVSwitch that an NVLink leads to.
func (n *model) DeviceGetNvLinkRemotePciInfoV2(device raw.Device, number uint32, pci *raw.PciInfo) raw.Return {
	return n.link(n.answers.DeviceGetNvLinkRemotePciInfoV2(device, number, pci), device, number, func(*link) raw.Return {
		return output(pci, switchPCI(number))
	})
}

// switchPCI returns the place of the NVSwitch that an NVLink leads to.
func switchPCI(number uint32) (pci raw.PciInfo) {
	pci.Bus, pci.PciDeviceId = switchBus+number%switches, switchModel
	setChars(pci.BusIdLegacy[:], fmt.Sprintf("0000:%02X:00.0", pci.Bus))
	setChars(pci.BusId[:], busID(pci.Bus))
	return pci
}

// DeviceGetNvLinkErrorCounter returns how many errors of a kind an NVLink had.
func (n *model) DeviceGetNvLinkErrorCounter(device raw.Device, number uint32, kind raw.NvLinkErrorCounter,
	count *uint64) raw.Return {
	r := n.answers.DeviceGetNvLinkErrorCounter(device, number, kind, count)
	return n.link(r, device, number, func(l *link) raw.Return {
		if kind >= raw.NVML_NVLINK_ERROR_COUNT {
			return raw.NVML_ERROR_INVALID_ARGUMENT
		}
		return output(count, l.errors[kind])
	})
}

// DeviceResetNvLinkErrorCounters sets the counters of an NVLink to zero.
func (n *model) DeviceResetNvLinkErrorCounters(device raw.Device, number uint32) raw.Return {
	r := n.answers.DeviceResetNvLinkErrorCounters(device, number)
	return n.link(r, device, number, func(l *link) raw.Return {
		clear(l.errors[:])
		return raw.NVML_SUCCESS
	})
}

// connected reports whether an NVLink of each of two GPUs is active. The caller holds mu.
func connected(one, other *gpu) bool { return one.active() > 0 && other.active() > 0 }

// active returns how many NVLinks are active. The caller holds mu.
func (g *gpu) active() (n int) {
	for i := range g.links {
		if !g.links[i].down {
			n++
		}
	}
	return n
}

// registered sets that a GPU with NVLinks has joined the fabric.
func (n *model) registered(r raw.Return, device raw.Device, set func(healthMask uint32)) raw.Return {
	return n.then(r, device, func(g *gpu, _ GPU) {
		if len(g.links) == 0 {
			return
		}
		degraded := uint32(raw.NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_FALSE)
		if g.active() < len(g.links) {
			degraded = raw.NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_TRUE
		}
		set(degraded << raw.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW)
	})
}

// DeviceGetGpuFabricInfo returns how a GPU is connected to the fabric of NVLinks.
func (n *model) DeviceGetGpuFabricInfo(device raw.Device, info *raw.GpuFabricInfo) raw.Return {
	return n.registered(n.answers.DeviceGetGpuFabricInfo(device, info), device, func(uint32) {
		info.State = raw.NVML_GPU_FABRIC_STATE_COMPLETED
	})
}

// DeviceGetGpuFabricInfoV returns how a GPU is connected to the fabric of NVLinks.
func (n *model) DeviceGetGpuFabricInfoV(device raw.Device, info *raw.GpuFabricInfoV) raw.Return {
	return n.registered(n.answers.DeviceGetGpuFabricInfoV(device, info), device, func(healthMask uint32) {
		info.State, info.HealthMask = raw.NVML_GPU_FABRIC_STATE_COMPLETED, healthMask
	})
}
