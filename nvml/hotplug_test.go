package nvml_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// plugFake keeps what it was asked for.
type plugFake struct {
	base
	older    bool
	pci      raw.PciInfo
	draining raw.EnableState
	removed  string
}

func (f *plugFake) DeviceModifyDrainState(p *raw.PciInfo, state raw.EnableState) raw.Return {
	f.pci, f.draining = *p, state
	return raw.NVML_SUCCESS
}

func (f *plugFake) DevicePowerSmoothingActivatePresetProfile(d raw.Device, p *raw.PowerSmoothingProfile) raw.Return {
	return raw.NVML_ERROR_NO_PERMISSION
}

func (f *plugFake) DeviceQueryDrainState(p *raw.PciInfo, state *raw.EnableState) raw.Return {
	*state = f.draining
	return raw.NVML_SUCCESS
}

func (f *plugFake) DeviceRemoveGpuV2(p *raw.PciInfo, state raw.DetachGpuState, link raw.PcieLinkState) raw.Return {
	if f.older {
		return raw.Unimplemented{}.DeviceRemoveGpuV2(p, state, link)
	}
	f.removed = state.String() + " " + link.String()
	if p.Bus == 9 {
		return raw.NVML_ERROR_IN_USE
	}
	return raw.NVML_SUCCESS
}

func (f *plugFake) DeviceRemoveGpu(p *raw.PciInfo) raw.Return {
	f.removed = "older"
	return raw.NVML_SUCCESS
}

func (f *plugFake) DeviceDiscoverGpus(p *raw.PciInfo) raw.Return {
	f.pci = *p
	return raw.NVML_ERROR_OPERATING_SYSTEM
}

func TestHotplug(t *testing.T) {
	f := &plugFake{}
	l := open(t, f)
	at := nvml.PCIAddress{Domain: 1, Bus: 0x17, Device: 2}
	if err := l.SetDraining(at, true); err != nil {
		t.Error(err)
	}
	equal(t, "the state", true)(l.Draining(at))
	long, _, _ := strings.Cut(string(f.pci.BusId[:]), "\x00")
	short, _, _ := strings.Cut(string(f.pci.BusIdLegacy[:]), "\x00")
	if long != "00000001:17:02.0" || short != "0001:17:02.0" || f.pci.Domain != 1 || f.pci.Bus != 0x17 ||
		f.pci.Device != 2 {
		t.Errorf("the address is %q, %q, %+v", long, short, f.pci)
	}
	if err := l.RemoveGPU(at, nvml.DetachRemove, nvml.PCIeLinkShutDown); err != nil ||
		f.removed != "NVML_DETACH_GPU_REMOVE NVML_PCIE_LINK_SHUT_DOWN" {
		t.Errorf("%s (%v)", f.removed, err)
	}
	err := l.RemoveGPU(nvml.PCIAddress{Bus: 9}, nvml.DetachKeep, nvml.PCIeLinkKeep)
	fails(t, "a GPU in use", err, nvml.ErrInUse)
	if !strings.Contains(err.Error(), "00000000:09:00.0") {
		t.Error(err)
	}
	fails(t, "the search", l.DiscoverGPUs(at), raw.NVML_ERROR_OPERATING_SYSTEM)
	if f.pci.Bus != 0x17 {
		t.Errorf("the bus is %d", f.pci.Bus)
	}
	fails(t, "the search everywhere", l.DiscoverGPUs(nvml.PCIAddress{}), raw.NVML_ERROR_OPERATING_SYSTEM)

	err = must(l.Device(0))(t).SetPowerSmoothingProfile(1)
	fails(t, "a change without root", err, nvml.ErrNoPermission)
	if !strings.Contains(err.Error(), "changes need root") {
		t.Error(err)
	}

	f = &plugFake{older: true}
	l = open(t, f)
	fails(t, "what an older driver lacks", l.RemoveGPU(at, nvml.DetachKeep, nvml.PCIeLinkKeep), errors.ErrUnsupported)
	if err := l.RemoveGPU(at, nvml.DetachRemove, nvml.PCIeLinkKeep); err != nil || f.removed != "older" {
		t.Errorf("%s (%v)", f.removed, err)
	}
}
