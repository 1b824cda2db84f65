package nvml

import (
	"fmt"

	"github.com/purecu/purecu/nvml/raw"
)

// VGPU is a virtual GPU that a virtual machine has. It exists on the host, where the virtual GPU manager runs. It needs
// no Close. After the virtual machine has ended, its methods return errors that match [ErrNotFound].
type VGPU struct{ object }

func (v *VGPU) obj() *object {
	if v == nil || v.lib == nil {
		return nil
	}
	return &v.object
}

// String returns how errors name the virtual GPU: "device 0, vGPU 3251634185".
func (v *VGPU) String() string {
	if v == nil {
		return "no vGPU"
	}
	return v.name
}

// Handle returns the nvmlVgpuInstance_t, for calls through package raw. It is a number that [Library.VGPU] takes.
func (v *VGPU) Handle() raw.VgpuInstance {
	if v == nil {
		return 0
	}
	return raw.VgpuInstance(v.handle)
}

// VGPU returns the virtual GPU with a number, which [VGPU.Handle] has returned. It calls no function.
func (l *Library) VGPU(id uint32) *VGPU {
	o := l.obj()
	if o == nil {
		return nil
	}
	return &VGPU{o.part(uint64(id), fmt.Sprintf("vGPU %d", id))}
}

// vgpu returns a part of an object.
func (o *object) vgpu(id raw.VgpuInstance) *VGPU {
	return &VGPU{o.part(uint64(id), fmt.Sprintf("%s, vGPU %d", o.name, id))}
}

// vgpus returns parts of an object.
func (o *object) vgpus(ids []raw.VgpuInstance) []*VGPU {
	var all []*VGPU
	for _, id := range ids {
		all = append(all, o.vgpu(id))
	}
	return all
}

// VGPUs returns the virtual GPUs that the GPU has now (nvmlDeviceGetActiveVgpus).
func (d *Device) VGPUs() ([]*VGPU, error) {
	o := d.obj()
	ids, err := get(o, "nvmlDeviceGetActiveVgpus", func(l *raw.Library, h uint64) ([]raw.VgpuInstance, raw.Return) {
		return list(func(n *uint32, list []raw.VgpuInstance) raw.Return {
			return l.DeviceGetActiveVgpus(raw.Device(h), n, list)
		})
	})
	return o.vgpus(ids), err
}

// VGPUs returns the virtual GPUs that the GPU instance has now (nvmlGpuInstanceGetActiveVgpus).
func (g *GPUInstance) VGPUs() ([]*VGPU, error) {
	o := g.obj()
	const op = "nvmlGpuInstanceGetActiveVgpus"
	ids, err := get(o, op, func(l *raw.Library, h uint64) ([]raw.VgpuInstance, raw.Return) {
		return list(func(n *uint32, list []raw.VgpuInstance) raw.Return {
			info := raw.ActiveVgpuInstanceInfo{Version: raw.ActiveVgpuInstanceInfoV1Version, VgpuCount: *n,
				VgpuInstances: first(list)}
			r := l.GpuInstanceGetActiveVgpus(raw.GpuInstance(h), &info)
			*n = info.VgpuCount
			return r
		})
	})
	return o.vgpus(ids), err
}

// first returns the address of the first element, or nil.
func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// sized makes the calls for a string whose length the library says.
func sized(f func(b []byte, n *uint32) raw.Return) (string, raw.Return) {
	b := make([]byte, 64)
	for {
		n := uint32(len(b))
		r := f(b, &n)
		if r != raw.NVML_ERROR_INSUFFICIENT_SIZE || int(n) <= len(b) {
			return text(b), r
		}
		b = make([]byte, n)
	}
}

// Type returns the type of the virtual GPU (nvmlVgpuInstanceGetType).
func (v *VGPU) Type() (*VGPUType, error) {
	o := v.obj()
	w, err := o.call("nvmlVgpuInstanceGetType", words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var t raw.VgpuTypeId
		r := l.VgpuInstanceGetType(raw.VgpuInstance(w.a), &t)
		return words{a: uint64(t)}, r
	})
	if err != nil {
		return nil, err
	}
	return o.vgpuType(raw.VgpuTypeId(w.a)), nil
}

// VMID returns the identity of the virtual machine (nvmlVgpuInstanceGetVmID). uuid reports whether it is a UUID; it is
// the ID of a domain otherwise.
func (v *VGPU) VMID() (id string, uuid bool, err error) {
	type identity struct {
		id   string
		uuid bool
	}
	i, err := get(v.obj(), "nvmlVgpuInstanceGetVmID", func(l *raw.Library, h uint64) (identity, raw.Return) {
		var b [raw.NVML_DEVICE_UUID_BUFFER_SIZE]byte
		var kind raw.VgpuVmIdType
		r := l.VgpuInstanceGetVmID(raw.VgpuInstance(h), b[:], &kind)
		return identity{text(b[:]), kind == raw.NVML_VGPU_VM_ID_UUID}, r
	})
	return i.id, i.uuid, err
}

// PCI returns the address of the virtual GPU in the virtual machine (nvmlVgpuInstanceGetGpuPciId). It is zero as long
// as no driver runs there, or the error matches [ErrDriverNotLoaded].
func (v *VGPU) PCI() (PCIAddress, error) {
	s, err := get(v.obj(), "nvmlVgpuInstanceGetGpuPciId", func(l *raw.Library, h uint64) (string, raw.Return) {
		return sized(func(b []byte, n *uint32) raw.Return { return l.VgpuInstanceGetGpuPciId(raw.VgpuInstance(h), b, n) })
	})
	if err != nil {
		return PCIAddress{}, err
	}
	return ParsePCIAddress(s)
}

// GPUInstanceID returns the number of the GPU instance that the virtual GPU is in (nvmlVgpuInstanceGetGpuInstanceId).
// ok is false if it is in none.
func (v *VGPU) GPUInstanceID() (id int, ok bool, err error) {
	const op = "nvmlVgpuInstanceGetGpuInstanceId"
	w, err := v.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var id uint32
		r := l.VgpuInstanceGetGpuInstanceId(raw.VgpuInstance(w.a), &id)
		return words{a: uint64(id)}, r
	})
	return optional(w.a, raw.INVALID_GPU_INSTANCE_ID, err)
}

// optional returns a number, and false if it is the one that stands for none.
func optional(v, none uint64, err error) (int, bool, error) {
	if err != nil || v == none {
		return 0, false, err
	}
	return int(v), true, nil
}

// Placement returns the number of the virtual GPU's place on the GPU (nvmlVgpuInstanceGetPlacementId). ok is false if
// it has none. See [Device.SupportedVGPUPlacements].
func (v *VGPU) Placement() (id int, ok bool, err error) {
	const op = "nvmlVgpuInstanceGetPlacementId"
	w, err := v.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		p := raw.VgpuPlacementId{Version: raw.VgpuPlacementIdV1Version}
		r := l.VgpuInstanceGetPlacementId(raw.VgpuInstance(w.a), &p)
		return words{a: uint64(p.PlacementId)}, r
	})
	return optional(w.a, raw.NVML_INVALID_VGPU_PLACEMENT_ID, err)
}

// RuntimeStateSize returns how much memory the state of the virtual GPU needs at most, in bytes, beside its own memory
// (nvmlVgpuInstanceGetRuntimeStateSize).
func (v *VGPU) RuntimeStateSize() (uint64, error) {
	const op = "nvmlVgpuInstanceGetRuntimeStateSize"
	w, err := v.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		s := raw.VgpuRuntimeState{Version: raw.VgpuRuntimeStateV1Version}
		r := l.VgpuInstanceGetRuntimeStateSize(raw.VgpuInstance(w.a), &s)
		return words{a: s.Size}, r
	})
	return w.a, err
}

// VGPUHeterogeneous reports whether the GPU can have virtual GPUs of different sizes at once
// (nvmlDeviceGetVgpuHeterogeneousMode).
func (d *Device) VGPUHeterogeneous() (bool, error) {
	const op = "nvmlDeviceGetVgpuHeterogeneousMode"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		m := raw.VgpuHeterogeneousMode{Version: raw.VgpuHeterogeneousModeV1Version}
		r := l.DeviceGetVgpuHeterogeneousMode(raw.Device(w.a), &m)
		return words{a: uint64(m.Mode)}, r
	})
	return w.a != 0, err
}

// SetVGPUHeterogeneous says whether the GPU can have virtual GPUs of different sizes at once
// (nvmlDeviceSetVgpuHeterogeneousMode). It needs root, and that the GPU has no virtual GPU.
func (d *Device) SetVGPUHeterogeneous(on bool) error {
	const op = "nvmlDeviceSetVgpuHeterogeneousMode"
	_, err := d.obj().call(op, words{b: number[uint64](on)}, func(l *raw.Library, w words) (words, raw.Return) {
		m := raw.VgpuHeterogeneousMode{Version: raw.VgpuHeterogeneousModeV1Version, Mode: uint32(w.b)}
		return words{}, l.DeviceSetVgpuHeterogeneousMode(raw.Device(w.a), &m)
	})
	return err
}

// VGPUHeterogeneous reports whether the GPU instance can have virtual GPUs of different sizes at once
// (nvmlGpuInstanceGetVgpuHeterogeneousMode).
func (g *GPUInstance) VGPUHeterogeneous() (bool, error) {
	const op = "nvmlGpuInstanceGetVgpuHeterogeneousMode"
	w, err := g.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		m := raw.VgpuHeterogeneousMode{Version: raw.VgpuHeterogeneousModeV1Version}
		r := l.GpuInstanceGetVgpuHeterogeneousMode(raw.GpuInstance(w.a), &m)
		return words{a: uint64(m.Mode)}, r
	})
	return w.a != 0, err
}

// SetVGPUHeterogeneous says whether the GPU instance can have virtual GPUs of different sizes at once
// (nvmlGpuInstanceSetVgpuHeterogeneousMode). It needs root, and that the GPU instance has no virtual GPU.
func (g *GPUInstance) SetVGPUHeterogeneous(on bool) error {
	const op = "nvmlGpuInstanceSetVgpuHeterogeneousMode"
	_, err := g.obj().call(op, words{b: number[uint64](on)}, func(l *raw.Library, w words) (words, raw.Return) {
		m := raw.VgpuHeterogeneousMode{Version: raw.VgpuHeterogeneousModeV1Version, Mode: uint32(w.b)}
		return words{}, l.GpuInstanceSetVgpuHeterogeneousMode(raw.GpuInstance(w.a), &m)
	})
	return err
}
