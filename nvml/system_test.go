package nvml_test

import (
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// systemFake is a machine whose older driver lacks some functions.
type systemFake struct {
	base
	older bool
}

func (f systemFake) SystemGetProcessName(pid uint32, b []byte) raw.Return {
	if pid != 1 {
		return raw.NVML_ERROR_NOT_FOUND
	}
	return fill(b, "/sbin/init")
}

func (f systemFake) SystemGetCudaDriverVersionV2(v *int32) raw.Return {
	if f.older {
		return raw.Unimplemented{}.SystemGetCudaDriverVersionV2(v)
	}
	*v = 13010
	return raw.NVML_SUCCESS
}

func (f systemFake) SystemGetCudaDriverVersion(v *int32) raw.Return {
	*v = 9020
	return raw.NVML_SUCCESS
}

func (f systemFake) SystemGetDriverBranch(i *raw.SystemDriverBranchInfo, n uint32) raw.Return {
	if i.Version != raw.SystemDriverBranchInfoV1Version || n != 80 {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	return fill(i.Branch[:], "r580_00")
}

func (f systemFake) SystemGetHicVersion(n *uint32, list []raw.HwbcEntry) raw.Return {
	e := raw.HwbcEntry{HwbcId: 4}
	fill(e.FirmwareVersion[:], "1.2")
	return fillList(n, list, e)
}

func (f systemFake) SystemGetTopologyGpuSet(cpu uint32, n *uint32, list []raw.Device) raw.Return {
	if list == nil {
		*n = 2
		return raw.NVML_SUCCESS
	}
	copy(list, []raw.Device{raw.Device(cpu), raw.Device(cpu + 1)}) // and the number stays as it was
	return raw.NVML_SUCCESS
}

func (f systemFake) GetExcludedDeviceCount(n *uint32) raw.Return {
	if f.older {
		return raw.Unimplemented{}.GetExcludedDeviceCount(n)
	}
	*n = 2
	return raw.NVML_SUCCESS
}

func (f systemFake) GetExcludedDeviceInfoByIndex(i uint32, d *raw.ExcludedDeviceInfo) raw.Return {
	d.PciInfo = raw.PciInfo{Domain: 1, Bus: 2, Device: i, PciDeviceId: 3, PciSubSystemId: 4}
	return fill(d.Uuid[:], "GPU-1")
}

func (f systemFake) GetBlacklistDeviceCount(n *uint32) raw.Return {
	*n = 1
	return raw.NVML_SUCCESS
}

func (f systemFake) GetBlacklistDeviceInfoByIndex(i uint32, d *raw.ExcludedDeviceInfo) raw.Return {
	return fill(d.Uuid[:], "GPU-2")
}

func TestSystem(t *testing.T) {
	l, older := open(t, systemFake{}), open(t, systemFake{older: true})
	equal(t, "the name", "/sbin/init")(l.ProcessName(1))
	_, err := l.ProcessName(2)
	fails(t, "another process", err, nvml.ErrNotFound)
	if major, minor, err := l.CUDADriverVersion(); major != 13 || minor != 1 || err != nil {
		t.Errorf("%d.%d (%v)", major, minor, err)
	}
	if major, minor, err := older.CUDADriverVersion(); major != 9 || minor != 2 || err != nil {
		t.Errorf("%d.%d (%v)", major, minor, err)
	}
	equal(t, "the branch", "r580_00")(l.DriverBranch())
	equal(t, "the cards", []nvml.HIC{{ID: 4, FirmwareVersion: "1.2"}})(l.HICs())
	if d := must(l.DevicesNear(5))(t); len(d) != 2 || d[1].Handle() != 6 || d[1].String() != "GPU 1 near processor 5" {
		t.Errorf("the devices are %v", d)
	}
	_, err = l.DevicesNear(-1)
	fails(t, "a processor", err, nvml.ErrInvalidArgument)
	equal(t, "the excluded GPUs", []nvml.ExcludedDevice{
		{Address: nvml.PCIAddress{Domain: 1, Bus: 2}, DeviceID: 3, SubsystemID: 4, UUID: "GPU-1"},
		{Address: nvml.PCIAddress{Domain: 1, Bus: 2, Device: 1}, DeviceID: 3, SubsystemID: 4, UUID: "GPU-1"},
	})(l.ExcludedDevices())
	equal(t, "the older name", []nvml.ExcludedDevice{{UUID: "GPU-2"}})(older.ExcludedDevices())
}
