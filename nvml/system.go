package nvml

import (
	"fmt"

	"github.com/purecu/purecu/nvml/raw"
)

// ProcessName returns the name of a process, as its path and arguments (nvmlSystemGetProcessName). The error matches
// [ErrNotFound] if there is no such process. Some drivers return the name only to root and to the process's user.
func (l *Library) ProcessName(pid uint32) (string, error) {
	return get(l.obj(), "nvmlSystemGetProcessName", func(l *raw.Library, _ uint64) (string, raw.Return) {
		b := make([]byte, 4096) // NVML cuts what is longer
		r := l.SystemGetProcessName(pid, b)
		return text(b), r
	})
}

// CUDADriverVersion returns the newest version of CUDA that the driver supports, such as 13 and 0
// (nvmlSystemGetCudaDriverVersion_v2, and nvmlSystemGetCudaDriverVersion for older drivers).
func (l *Library) CUDADriverVersion() (major, minor int, err error) {
	const op = "nvmlSystemGetCudaDriverVersion_v2"
	w, err := l.obj().call(op, words{}, func(l *raw.Library, _ words) (words, raw.Return) {
		var v int32
		r := l.SystemGetCudaDriverVersionV2(&v)
		if lacks(r) {
			r = l.SystemGetCudaDriverVersion(&v)
		}
		return words{a: uint64(v)}, r
	})
	return int(w.a) / 1000, int(w.a) % 1000 / 10, err
}

// DriverBranch returns the branch that the driver was built from, such as "r580_00" (nvmlSystemGetDriverBranch).
func (l *Library) DriverBranch() (string, error) {
	return get(l.obj(), "nvmlSystemGetDriverBranch", func(l *raw.Library, _ uint64) (string, raw.Return) {
		i := raw.SystemDriverBranchInfo{Version: raw.SystemDriverBranchInfoV1Version}
		r := l.SystemGetDriverBranch(&i, uint32(len(i.Branch)))
		return text(i.Branch[:]), r
	})
}

// HIC is a card that connects the machine with an S-class unit.
type HIC struct {
	ID              uint32
	FirmwareVersion string
}

// HICs returns the cards that connect the machine with S-class units (nvmlSystemGetHicVersion).
func (l *Library) HICs() ([]HIC, error) {
	return get(l.obj(), "nvmlSystemGetHicVersion", func(l *raw.Library, _ uint64) (cards []HIC, r raw.Return) {
		all, r := list(func(n *uint32, list []raw.HwbcEntry) raw.Return { return l.SystemGetHicVersion(n, list) })
		for _, c := range all {
			cards = append(cards, HIC{c.HwbcId, text(c.FirmwareVersion[:])})
		}
		return cards, r
	})
}

// DevicesNear returns the GPUs that are near a processor (nvmlSystemGetTopologyGpuSet). Linux only.
func (l *Library) DevicesNear(cpu int) ([]*Device, error) {
	const op = "nvmlSystemGetTopologyGpuSet"
	o := l.obj()
	if err := o.checkNumber(op, "processor", cpu); err != nil {
		return nil, err
	}
	handles, err := get(o, op, func(l *raw.Library, _ uint64) ([]raw.Device, raw.Return) {
		all, r := list(func(n *uint32, list []raw.Device) raw.Return {
			return l.SystemGetTopologyGpuSet(uint32(cpu), n, list)
		})
		return filled(all), r
	})
	var devices []*Device
	for i, h := range handles {
		devices = append(devices, o.device(h, fmt.Sprintf("GPU %d near processor %d", i, cpu)))
	}
	return devices, err
}

// ExcludedDevice is a GPU that the driver was told not to use.
type ExcludedDevice struct {
	Address PCIAddress
	// DeviceID and SubsystemID are PCI IDs: the vendor's in the lower half, the device's in the upper.
	DeviceID, SubsystemID uint32
	UUID                  UUID
}

// ExcludedDevices returns the GPUs that the driver was told not to use (nvmlGetExcludedDeviceCount and
// nvmlGetExcludedDeviceInfoByIndex, and nvmlGetBlacklistDeviceCount and nvmlGetBlacklistDeviceInfoByIndex for older
// drivers).
func (l *Library) ExcludedDevices() ([]ExcludedDevice, error) {
	const op = "nvmlGetExcludedDeviceInfoByIndex"
	return get(l.obj(), op, func(l *raw.Library, _ uint64) ([]ExcludedDevice, raw.Return) {
		count, info := l.GetExcludedDeviceCount, l.GetExcludedDeviceInfoByIndex
		var n uint32
		r := count(&n)
		if lacks(r) {
			count, info = l.GetBlacklistDeviceCount, l.GetBlacklistDeviceInfoByIndex
			r = count(&n)
		}
		var all []ExcludedDevice
		for i := uint32(0); i < n && r == raw.NVML_SUCCESS; i++ {
			var d raw.ExcludedDeviceInfo
			r = info(i, &d)
			p := &d.PciInfo
			all = append(all, ExcludedDevice{PCIAddress{p.Domain, p.Bus, p.Device}, p.PciDeviceId, p.PciSubSystemId,
				UUID(text(d.Uuid[:]))})
		}
		return all, r
	})
}
