package nvml

import (
	"fmt"

	"github.com/purecu/purecu/nvml/raw"
)

// pciInfo returns an address for C.
func pciInfo(w words) *raw.PciInfo {
	a := PCIAddress{uint32(w.b >> 32), uint32(w.b), uint32(w.c)}
	p := &raw.PciInfo{Domain: a.Domain, Bus: a.Bus, Device: a.Device}
	copy(p.BusId[:len(p.BusId)-1], a.String())
	copy(p.BusIdLegacy[:len(p.BusIdLegacy)-1], fmt.Sprintf("%04X:%02X:%02X.0", a.Domain, a.Bus, a.Device))
	return p
}

// words returns an address for pciInfo, and a number that follows it.
func (a PCIAddress) words(d uint64) words {
	return words{b: uint64(a.Domain)<<32 | uint64(a.Bus), c: uint64(a.Device), d: d}
}

// SetDraining says whether a GPU refuses new work (nvmlDeviceModifyDrainState). New users of NVML do not see the GPU
// then. It needs root, and that the persistence mode is off. Linux only.
func (l *Library) SetDraining(gpu PCIAddress, on bool) error {
	const op = "nvmlDeviceModifyDrainState"
	_, err := l.obj().call(op, gpu.words(number[uint64](on)), func(l *raw.Library, w words) (words, raw.Return) {
		return words{}, l.DeviceModifyDrainState(pciInfo(w), raw.EnableState(w.d))
	})
	return named(err, gpu.String())
}

// Draining reports whether a GPU refuses new work (nvmlDeviceQueryDrainState). Linux only.
func (l *Library) Draining(gpu PCIAddress) (bool, error) {
	const op = "nvmlDeviceQueryDrainState"
	w, err := l.obj().call(op, gpu.words(0), func(l *raw.Library, w words) (words, raw.Return) {
		var state raw.EnableState
		r := l.DeviceQueryDrainState(pciInfo(w), &state)
		return words{a: uint64(state)}, r
	})
	return w.a != 0, named(err, gpu.String())
}

// RemoveGPU makes the driver forget a GPU (nvmlDeviceRemoveGpu_v2, and nvmlDeviceRemoveGpu for older drivers, which
// cannot keep the GPU in the system's list, nor shut the link down). [Library.SetDraining] comes before. The error
// matches [ErrInUse] as long as a program uses the GPU. The indexes of other GPUs change, and devices of them may
// become invalid: find them again. It needs root. Linux only.
func (l *Library) RemoveGPU(gpu PCIAddress, state DetachState, link PCIeLinkState) error {
	const op = "nvmlDeviceRemoveGpu_v2"
	w := gpu.words(uint64(state)<<32 | uint64(link))
	_, err := l.obj().call(op, w, func(l *raw.Library, w words) (words, raw.Return) {
		state, link := raw.DetachGpuState(w.d>>32), raw.PcieLinkState(w.d)
		r := l.DeviceRemoveGpuV2(pciInfo(w), state, link)
		if lacks(r) && state == raw.NVML_DETACH_GPU_REMOVE && link == raw.NVML_PCIE_LINK_KEEP {
			r = l.DeviceRemoveGpu(pciInfo(w))
		}
		return words{}, r
	})
	return named(err, gpu.String())
}

// DiscoverGPUs looks for GPUs that were removed, at an address or, if it is zero, everywhere (nvmlDeviceDiscoverGpus).
// This takes seconds for each GPU that is found. The indexes of other GPUs change, and devices of them may become
// invalid: find them again. It needs root. Linux only.
func (l *Library) DiscoverGPUs(at PCIAddress) error {
	_, err := l.obj().call("nvmlDeviceDiscoverGpus", at.words(0), func(l *raw.Library, w words) (words, raw.Return) {
		return words{}, l.DeviceDiscoverGpus(pciInfo(w))
	})
	if at == (PCIAddress{}) {
		return err
	}
	return named(err, at.String())
}
