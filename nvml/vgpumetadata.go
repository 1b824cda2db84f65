package nvml

import (
	"encoding/binary"
	"fmt"

	"github.com/purecu/purecu/nvml/raw"
)

// VGPUMetadata says with which drivers a virtual GPU runs. A manager of virtual machines keeps Data to find a GPU that
// the virtual machine can move to: see [Library.VGPUCompatibility].
type VGPUMetadata struct {
	Revision uint32
	// GuestKnown reports whether the driver in the virtual machine runs. Otherwise what begins with Guest is not set.
	GuestKnown  bool
	GuestDriver string
	HostDriver  string
	// Migratable reports whether the virtual GPU can move to another host.
	Migratable   bool
	GuestVersion uint32 // of the protocol: see [VGPUVersions]
	// Data is the whole, for [ParseVGPUMetadata] and for other hosts.
	Data []byte
}

// VGPUHostMetadata says with which driver a GPU has virtual GPUs.
type VGPUHostMetadata struct {
	Revision   uint32
	HostDriver string
	// Migratable reports whether virtual GPUs can move to another host.
	Migratable bool
	// Supported are the versions of the protocol that the host supports.
	Supported VGPUVersions
	// Data is the whole, for [ParseVGPUHostMetadata] and for other hosts.
	Data []byte
}

// VGPUVersions is a range of versions of the protocol between the drivers of a virtual machine and of its host.
type VGPUVersions struct{ Min, Max uint32 }

// ParseVGPUMetadata returns the metadata of a virtual GPU whose Data was kept. It does not keep data.
func ParseVGPUMetadata(data []byte) (VGPUMetadata, error) {
	n := len(data)
	data = padded(data, binary.Size(raw.VgpuMetadata{}))
	m := raw.At[raw.VgpuMetadata](data)
	if !holds(n, binary.Size(m)-len(m.OpaqueData), m.OpaqueDataSize) {
		return VGPUMetadata{}, tooShort("ParseVGPUMetadata", n)
	}
	return VGPUMetadata{m.Revision, m.GuestInfoState == raw.NVML_VGPU_INSTANCE_GUEST_INFO_STATE_INITIALIZED,
		text(m.GuestDriverVersion[:]), text(m.HostDriverVersion[:]),
		m.VgpuVirtualizationCaps&raw.NVML_VGPU_VIRTUALIZATION_CAP_MIGRATION_YES != 0, m.GuestVgpuVersion, data}, nil
}

// ParseVGPUHostMetadata returns the metadata of a GPU whose Data was kept. It does not keep data.
func ParseVGPUHostMetadata(data []byte) (VGPUHostMetadata, error) {
	n := len(data)
	data = padded(data, binary.Size(raw.VgpuPgpuMetadata{}))
	m := raw.At[raw.VgpuPgpuMetadata](data)
	if !holds(n, binary.Size(m)-len(m.OpaqueData), m.OpaqueDataSize) {
		return VGPUHostMetadata{}, tooShort("ParseVGPUHostMetadata", n)
	}
	return VGPUHostMetadata{m.Revision, text(m.HostDriverVersion[:]),
		m.PgpuVirtualizationCaps&raw.NVML_VGPU_PGPU_VIRTUALIZATION_CAP_MIGRATION_YES != 0,
		VGPUVersions{m.HostSupportedVgpuRange.MinVersion, m.HostSupportedVgpuRange.MaxVersion}, data}, nil
}

// padded returns a copy that is at least as long as a struct. The struct declares some of its opaque data, also if it
// has less.
func padded(data []byte, size int) []byte {
	all := make([]byte, max(len(data), size))
	copy(all, data)
	return all
}

// holds reports whether n bytes have all of the opaque data, which begins at a place: C would read behind it otherwise.
func holds(n, at int, opaque uint32) bool { return n >= at && uint64(n-at) >= uint64(opaque) }

func tooShort(op string, n int) error {
	return &Error{Op: op, Err: ErrInvalidArgument, Detail: fmt.Sprintf("%d bytes are no metadata, or not all of it", n)}
}

// memoryOf makes the calls for memory whose length the library says.
func memoryOf(f func(memory []byte, n *uint32) raw.Return) ([]byte, raw.Return) {
	memory := make([]byte, 1024)
	for {
		n := uint32(len(memory))
		r := f(memory, &n)
		if r != raw.NVML_ERROR_INSUFFICIENT_SIZE || int(n) <= len(memory) {
			return memory[:min(int(n), len(memory))], r
		}
		memory = make([]byte, n)
	}
}

// Metadata returns with which drivers the virtual GPU runs (nvmlVgpuInstanceGetMetadata).
func (v *VGPU) Metadata() (VGPUMetadata, error) {
	data, err := get(v.obj(), "nvmlVgpuInstanceGetMetadata", func(l *raw.Library, h uint64) ([]byte, raw.Return) {
		return memoryOf(func(b []byte, n *uint32) raw.Return { return l.VgpuInstanceGetMetadata(raw.VgpuInstance(h), b, n) })
	})
	if err != nil {
		return VGPUMetadata{}, err
	}
	return ParseVGPUMetadata(data)
}

// VGPUMetadata returns with which driver the GPU has virtual GPUs (nvmlDeviceGetVgpuMetadata).
func (d *Device) VGPUMetadata() (VGPUHostMetadata, error) {
	data, err := get(d.obj(), "nvmlDeviceGetVgpuMetadata", func(l *raw.Library, h uint64) ([]byte, raw.Return) {
		return memoryOf(func(b []byte, n *uint32) raw.Return { return l.DeviceGetVgpuMetadata(raw.Device(h), b, n) })
	})
	if err != nil {
		return VGPUHostMetadata{}, err
	}
	return ParseVGPUHostMetadata(data)
}

// VGPUMetadataString returns the properties of the GPU for virtual GPUs as text (nvmlDeviceGetPgpuMetadataString).
func (d *Device) VGPUMetadataString() (string, error) {
	return get(d.obj(), "nvmlDeviceGetPgpuMetadataString", func(l *raw.Library, h uint64) (string, raw.Return) {
		return sized(func(b []byte, n *uint32) raw.Return { return l.DeviceGetPgpuMetadataString(raw.Device(h), b, n) })
	})
}

// VGPUCompatibility says in which states a virtual machine can move to a GPU.
type VGPUCompatibility struct {
	// Cold reports whether it can start there, Hibernate and Sleep whether it can go on after these states, and Live
	// whether it can move while it runs.
	Cold, Hibernate, Sleep, Live bool
	// Limit says what makes Live impossible, as a sum of bits.
	Limit VGPUCompatibilityLimit
}

// VGPUCompatibility says whether a virtual GPU can move to a GPU (nvmlGetVgpuCompatibility). Only the Data of the
// arguments is read. Whether the GPU has room for it is another question.
func (l *Library) VGPUCompatibility(v VGPUMetadata, host VGPUHostMetadata) (VGPUCompatibility, error) {
	const op = "nvmlGetVgpuCompatibility"
	o := l.obj()
	v, errV := ParseVGPUMetadata(v.Data)
	host, errHost := ParseVGPUHostMetadata(host.Data)
	if o != nil && (errV != nil || errHost != nil) {
		return VGPUCompatibility{}, o.invalid(op, "the metadata is too short: take what Metadata and VGPUMetadata return")
	}
	return get(o, op, func(l *raw.Library, _ uint64) (VGPUCompatibility, raw.Return) {
		var c raw.VgpuPgpuCompatibility
		r := l.GetVgpuCompatibility(raw.At[raw.VgpuMetadata](v.Data), raw.At[raw.VgpuPgpuMetadata](host.Data), &c)
		is := func(state raw.VgpuVmCompatibility) bool { return c.VgpuVmCompatibility&state != 0 }
		return VGPUCompatibility{is(raw.NVML_VGPU_VM_COMPATIBILITY_COLD), is(raw.NVML_VGPU_VM_COMPATIBILITY_HIBERNATE),
			is(raw.NVML_VGPU_VM_COMPATIBILITY_SLEEP), is(raw.NVML_VGPU_VM_COMPATIBILITY_LIVE), c.CompatibilityLimitCode}, r
	})
}

// VGPUVersions returns which versions of the protocol between the drivers of virtual machines and of this host the
// driver supports, and which of them are allowed now (nvmlGetVgpuVersion).
func (l *Library) VGPUVersions() (supported, allowed VGPUVersions, err error) {
	w, err := l.obj().call("nvmlGetVgpuVersion", words{}, func(l *raw.Library, _ words) (words, raw.Return) {
		var supported, current raw.VgpuVersion
		r := l.GetVgpuVersion(&supported, &current)
		return words{uint64(supported.MinVersion), uint64(supported.MaxVersion), uint64(current.MinVersion),
			uint64(current.MaxVersion)}, r
	})
	return VGPUVersions{uint32(w.a), uint32(w.b)}, VGPUVersions{uint32(w.c), uint32(w.d)}, err
}

// SetVGPUVersions says which versions of the protocol are allowed (nvmlSetVgpuVersion). They must be supported. It
// needs root, and that no virtual machine runs. It lasts until the driver is unloaded.
func (l *Library) SetVGPUVersions(allowed VGPUVersions) error {
	w := words{b: uint64(allowed.Min), c: uint64(allowed.Max)}
	_, err := l.obj().call("nvmlSetVgpuVersion", w, func(l *raw.Library, w words) (words, raw.Return) {
		return words{}, l.SetVgpuVersion(&raw.VgpuVersion{MinVersion: uint32(w.b), MaxVersion: uint32(w.c)})
	})
	return err
}
