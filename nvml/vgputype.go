package nvml

import (
	"fmt"

	"github.com/purecu/purecu/nvml/raw"
)

// VGPUType is a type of virtual GPUs: what nvidia-smi calls a profile, such as "GRID A100-10C". It needs no Close.
type VGPUType struct{ object }

func (v *VGPUType) obj() *object {
	if v == nil || v.lib == nil {
		return nil
	}
	return &v.object
}

// String returns how errors name the type: "vGPU type 470".
func (v *VGPUType) String() string {
	if v == nil {
		return "no vGPU type"
	}
	return v.name
}

// Handle returns the nvmlVgpuTypeId_t, for calls through package raw. It is a number that [Library.VGPUType] takes.
func (v *VGPUType) Handle() raw.VgpuTypeId {
	if v == nil {
		return 0
	}
	return raw.VgpuTypeId(v.handle)
}

// VGPUType returns the type with a number. It calls no function.
func (l *Library) VGPUType(id uint32) *VGPUType {
	o := l.obj()
	if o == nil {
		return nil
	}
	return o.vgpuType(raw.VgpuTypeId(id))
}

func (o *object) vgpuType(id raw.VgpuTypeId) *VGPUType {
	return &VGPUType{o.part(uint64(id), fmt.Sprintf("vGPU type %d", id))}
}

func (o *object) vgpuTypes(ids []raw.VgpuTypeId) []*VGPUType {
	var all []*VGPUType
	for _, id := range ids {
		all = append(all, o.vgpuType(id))
	}
	return all
}

// SupportedVGPUTypes returns the types of virtual GPUs that the GPU can have (nvmlDeviceGetSupportedVgpus).
func (d *Device) SupportedVGPUTypes() ([]*VGPUType, error) {
	o := d.obj()
	ids, err := get(o, "nvmlDeviceGetSupportedVgpus", func(l *raw.Library, h uint64) ([]raw.VgpuTypeId, raw.Return) {
		return list(func(n *uint32, list []raw.VgpuTypeId) raw.Return {
			return l.DeviceGetSupportedVgpus(raw.Device(h), n, list)
		})
	})
	return o.vgpuTypes(ids), err
}

// CreatableVGPUTypes returns the types of virtual GPUs that can be created now (nvmlDeviceGetCreatableVgpus). They
// depend on the virtual GPUs that there are.
func (d *Device) CreatableVGPUTypes() ([]*VGPUType, error) {
	o := d.obj()
	ids, err := get(o, "nvmlDeviceGetCreatableVgpus", func(l *raw.Library, h uint64) ([]raw.VgpuTypeId, raw.Return) {
		return list(func(n *uint32, list []raw.VgpuTypeId) raw.Return {
			return l.DeviceGetCreatableVgpus(raw.Device(h), n, list)
		})
	})
	return o.vgpuTypes(ids), err
}

// CreatableVGPUTypes returns the types of virtual GPUs that can be created in the GPU instance now
// (nvmlGpuInstanceGetCreatableVgpus).
func (g *GPUInstance) CreatableVGPUTypes() ([]*VGPUType, error) {
	o := g.obj()
	const op = "nvmlGpuInstanceGetCreatableVgpus"
	ids, err := get(o, op, func(l *raw.Library, h uint64) ([]raw.VgpuTypeId, raw.Return) {
		return list(func(n *uint32, list []raw.VgpuTypeId) raw.Return {
			info := raw.VgpuTypeIdInfo{Version: raw.VgpuTypeIdInfoV1Version, VgpuCount: *n, VgpuTypeIds: first(list)}
			r := l.GpuInstanceGetCreatableVgpus(raw.GpuInstance(h), &info)
			*n = info.VgpuCount
			return r
		})
	})
	return o.vgpuTypes(ids), err
}

// Class returns the class of the type, such as "Compute" or "Quadro" (nvmlVgpuTypeGetClass).
func (v *VGPUType) Class() (string, error) {
	return get(v.obj(), "nvmlVgpuTypeGetClass", func(l *raw.Library, h uint64) (string, raw.Return) {
		return sized(func(b []byte, n *uint32) raw.Return { return l.VgpuTypeGetClass(raw.VgpuTypeId(h), b, n) })
	})
}

// Name returns the name of the type, such as "GRID A100-10C" (nvmlVgpuTypeGetName).
func (v *VGPUType) Name() (string, error) {
	return get(v.obj(), "nvmlVgpuTypeGetName", func(l *raw.Library, h uint64) (string, raw.Return) {
		return sized(func(b []byte, n *uint32) raw.Return { return l.VgpuTypeGetName(raw.VgpuTypeId(h), b, n) })
	})
}

// GPUInstanceProfile returns the ID of the profile of the GPU instance that a virtual GPU of the type needs
// (nvmlVgpuTypeGetGpuInstanceProfileId). ok is false if it needs none.
func (v *VGPUType) GPUInstanceProfile() (id uint32, ok bool, err error) {
	const op = "nvmlVgpuTypeGetGpuInstanceProfileId"
	w, err := v.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var id uint32
		r := l.VgpuTypeGetGpuInstanceProfileId(raw.VgpuTypeId(w.a), &id)
		return words{a: uint64(id)}, r
	})
	n, ok, err := optional(w.a, raw.INVALID_GPU_INSTANCE_PROFILE_ID, err)
	return uint32(n), ok, err
}

// MaxPerGPUInstance returns how many virtual GPUs of the type a GPU instance can have
// (nvmlVgpuTypeGetMaxInstancesPerGpuInstance).
func (v *VGPUType) MaxPerGPUInstance() (int, error) {
	const op = "nvmlVgpuTypeGetMaxInstancesPerGpuInstance"
	w, err := v.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		m := raw.VgpuTypeMaxInstance{Version: raw.VgpuTypeMaxInstanceV1Version, VgpuTypeId: raw.VgpuTypeId(w.a)}
		r := l.VgpuTypeGetMaxInstancesPerGpuInstance(&m)
		return words{a: uint64(m.MaxInstancePerGI)}, r
	})
	return int(w.a), err
}

// BAR1 returns the size of the BAR1 that a virtual GPU of the type has, in bytes (nvmlVgpuTypeGetBAR1Info).
func (v *VGPUType) BAR1() (uint64, error) {
	w, err := v.obj().call("nvmlVgpuTypeGetBAR1Info", words{}, func(l *raw.Library, w words) (words, raw.Return) {
		info := raw.VgpuTypeBar1Info{Version: raw.VgpuTypeBar1InfoV1Version}
		r := l.VgpuTypeGetBAR1Info(raw.VgpuTypeId(w.a), &info)
		return words{a: info.Bar1Size << 20}, r
	})
	return w.a, err
}

// VGPUPlacements are places that virtual GPUs of a type can have on a GPU.
type VGPUPlacements struct {
	Size int   // how many slots a virtual GPU takes
	IDs  []int // the first slot of each place
}

// placements makes the calls for places, the first with room for n.
func placements(n uint32, f func(n *uint32, ids []uint32, size *uint32) raw.Return) (p VGPUPlacements, r raw.Return) {
	n = max(n, 16)
	for range 8 {
		ids, size := make([]uint32, n), uint32(0)
		if r = f(&n, ids, &size); r == raw.NVML_SUCCESS {
			p.Size = int(size)
			for _, id := range ids[:min(int(n), len(ids))] {
				p.IDs = append(p.IDs, int(id))
			}
		}
		if r != raw.NVML_ERROR_INSUFFICIENT_SIZE || int(n) <= len(ids) {
			break
		}
	}
	return p, r
}

// placementList makes one call for the places of a type on a GPU. Older libraries know only the older struct, which has
// the same members at its begin.
func placementList(n *uint32, ids []uint32, size *uint32, mode uint32,
	f func(*raw.VgpuPlacementList) raw.Return) raw.Return {
	for _, version := range []uint32{raw.VgpuPlacementListV2Version, raw.VgpuPlacementListV1Version} {
		p := raw.VgpuPlacementList{Version: version, Count: *n, PlacementIds: first(ids), Mode: mode}
		r := f(&p)
		if lacks(r) && version != raw.VgpuPlacementListV1Version && mode == raw.NVML_VGPU_PGPU_HETEROGENEOUS_MODE {
			continue
		}
		*n, *size = p.Count, p.PlacementSize
		return r
	}
	return raw.NVML_ERROR_UNKNOWN
}

// typePlacements asks a device for places of a type.
func (d *Device) typePlacements(op string, t *VGPUType, mode uint32,
	f func(l *raw.Library, d raw.Device, t raw.VgpuTypeId, p *raw.VgpuPlacementList) raw.Return) (VGPUPlacements, error) {
	o := d.obj()
	if o != nil && t == nil {
		return VGPUPlacements{}, o.nilArgument(op, "type")
	}
	id := t.Handle()
	return get(o, op, func(l *raw.Library, h uint64) (VGPUPlacements, raw.Return) {
		var room uint32
		l.VgpuTypeGetMaxInstances(raw.Device(h), id, &room)
		return placements(room, func(n *uint32, ids []uint32, size *uint32) raw.Return {
			return placementList(n, ids, size, mode, func(p *raw.VgpuPlacementList) raw.Return {
				return f(l, raw.Device(h), id, p)
			})
		})
	})
}

// SupportedVGPUPlacements returns the places that virtual GPUs of a type can have on the GPU
// (nvmlDeviceGetVgpuTypeSupportedPlacements). homogeneous says that all virtual GPUs have the same size.
func (d *Device) SupportedVGPUPlacements(t *VGPUType, homogeneous bool) (VGPUPlacements, error) {
	mode := uint32(raw.NVML_VGPU_PGPU_HETEROGENEOUS_MODE)
	if homogeneous {
		mode = raw.NVML_VGPU_PGPU_HOMOGENEOUS_MODE
	}
	return d.typePlacements("nvmlDeviceGetVgpuTypeSupportedPlacements", t, mode,
		(*raw.Library).DeviceGetVgpuTypeSupportedPlacements)
}

// CreatableVGPUPlacements returns the places of a type on the GPU that are free now
// (nvmlDeviceGetVgpuTypeCreatablePlacements).
func (d *Device) CreatableVGPUPlacements(t *VGPUType) (VGPUPlacements, error) {
	return d.typePlacements("nvmlDeviceGetVgpuTypeCreatablePlacements", t, raw.NVML_VGPU_PGPU_HETEROGENEOUS_MODE,
		(*raw.Library).DeviceGetVgpuTypeCreatablePlacements)
}

// CreatableVGPUPlacements returns the places of a type in the GPU instance that are free now
// (nvmlGpuInstanceGetVgpuTypeCreatablePlacements).
func (g *GPUInstance) CreatableVGPUPlacements(t *VGPUType) (VGPUPlacements, error) {
	const op = "nvmlGpuInstanceGetVgpuTypeCreatablePlacements"
	o := g.obj()
	if o != nil && t == nil {
		return VGPUPlacements{}, o.nilArgument(op, "type")
	}
	id := t.Handle()
	return get(o, op, func(l *raw.Library, h uint64) (VGPUPlacements, raw.Return) {
		return placements(0, func(n *uint32, ids []uint32, size *uint32) raw.Return {
			p := raw.VgpuCreatablePlacementInfo{Version: raw.VgpuCreatablePlacementInfoV1Version, VgpuTypeId: id, Count: *n,
				PlacementIds: first(ids)}
			r := l.GpuInstanceGetVgpuTypeCreatablePlacements(raw.GpuInstance(h), &p)
			*n, *size = p.Count, p.PlacementSize
			return r
		})
	})
}
