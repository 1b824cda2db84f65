package nvml_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// metaFake has virtual GPUs with metadata, of which the opaque part is long.
type metaFake struct {
	vgpuFake
	opaque  int
	allowed raw.VgpuVersion
}

// write sets memory of a caller to a struct, and to bytes in place of its last four.
func (f *metaFake) write(memory []byte, n *uint32, v any) raw.Return {
	var b bytes.Buffer
	binary.Write(&b, binary.NativeEndian, v)
	all := append(b.Bytes()[:b.Len()-4], bytes.Repeat([]byte{9}, f.opaque)...)
	if int(*n) < len(all) {
		*n = uint32(len(all))
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	*n = uint32(copy(memory, all))
	return raw.NVML_SUCCESS
}

func (f *metaFake) VgpuInstanceGetMetadata(v raw.VgpuInstance, b []byte, n *uint32) raw.Return {
	m := raw.VgpuMetadata{Version: 2, Revision: 3, GuestInfoState: raw.NVML_VGPU_INSTANCE_GUEST_INFO_STATE_INITIALIZED,
		VgpuVirtualizationCaps: 1, GuestVgpuVersion: 4, OpaqueDataSize: uint32(f.opaque)}
	fill(m.GuestDriverVersion[:], "550.1")
	fill(m.HostDriverVersion[:], "580.2")
	return f.write(b, n, m)
}

func (f *metaFake) DeviceGetVgpuMetadata(d raw.Device, b []byte, n *uint32) raw.Return {
	m := raw.VgpuPgpuMetadata{Version: 2, Revision: 5, HostSupportedVgpuRange: raw.VgpuVersion{MinVersion: 6,
		MaxVersion: 7},
		OpaqueDataSize: uint32(f.opaque)}
	fill(m.HostDriverVersion[:], "580.2")
	return f.write(b, n, m)
}

func (f *metaFake) GetVgpuCompatibility(v *raw.VgpuMetadata, host *raw.VgpuPgpuMetadata,
	c *raw.VgpuPgpuCompatibility) raw.Return {
	if v.Revision != 3 || host.Revision != 5 {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	c.VgpuVmCompatibility = raw.NVML_VGPU_VM_COMPATIBILITY_COLD | raw.NVML_VGPU_VM_COMPATIBILITY_SLEEP
	c.CompatibilityLimitCode = raw.NVML_VGPU_COMPATIBILITY_LIMIT_GUEST_DRIVER
	return raw.NVML_SUCCESS
}

func (f *metaFake) GetVgpuVersion(supported, current *raw.VgpuVersion) raw.Return {
	*supported, *current = raw.VgpuVersion{MinVersion: 1, MaxVersion: 9}, f.allowed
	return raw.NVML_SUCCESS
}

func (f *metaFake) SetVgpuVersion(v *raw.VgpuVersion) raw.Return {
	f.allowed = *v
	return raw.NVML_SUCCESS
}

func (f *metaFake) DeviceGetPgpuMetadataString(d raw.Device, b []byte, n *uint32) raw.Return {
	if *n < 201 {
		*n = 201
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	return fill(b, strings.Repeat("m", 200))
}

func TestVGPUMetadata(t *testing.T) {
	for _, opaque := range []int{0, 1, 4, 500, 5000} {
		f := &metaFake{opaque: opaque}
		l := open(t, f)
		d := must(l.Device(0))(t)
		v := must(l.VGPU(7).Metadata())(t)
		host := must(d.VGPUMetadata())(t)
		if v.Revision != 3 || !v.GuestKnown || v.GuestDriver != "550.1" || v.HostDriver != "580.2" || !v.Migratable ||
			v.GuestVersion != 4 {
			t.Errorf("the metadata is %+v", v)
		}
		if host.Revision != 5 || host.HostDriver != "580.2" || host.Migratable ||
			host.Supported != (nvml.VGPUVersions{Min: 6, Max: 7}) {
			t.Errorf("the metadata of the host is %+v", host)
		}
		equal(t, "the compatibility", nvml.VGPUCompatibility{Cold: true, Sleep: true,
			Limit: nvml.VGPULimitGuestDriver})(l.VGPUCompatibility(v, host))
		equal(t, "the text", strings.Repeat("m", 200))(d.VGPUMetadataString())
		if opaque < 5 { // the data is padded to the struct
			continue
		}
		_, err := nvml.ParseVGPUMetadata(v.Data[:len(v.Data)-1])
		fails(t, "less data", err, nvml.ErrInvalidArgument)
		v.Data = v.Data[:len(v.Data)-1]
		_, err = l.VGPUCompatibility(v, host)
		fails(t, "less data", err, nvml.ErrInvalidArgument)
		_, err = nvml.ParseVGPUHostMetadata(host.Data[:10])
		fails(t, "less data of the host", err, nvml.ErrInvalidArgument)
	}
}

func TestVGPUVersions(t *testing.T) {
	l := open(t, &metaFake{})
	if err := l.SetVGPUVersions(nvml.VGPUVersions{Min: 2, Max: 3}); err != nil {
		t.Error(err)
	}
	supported, allowed, err := l.VGPUVersions()
	if supported != (nvml.VGPUVersions{Min: 1, Max: 9}) || allowed != (nvml.VGPUVersions{Min: 2, Max: 3}) || err != nil {
		t.Errorf("%+v, %+v (%v)", supported, allowed, err)
	}
}
