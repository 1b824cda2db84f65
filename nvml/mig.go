package nvml

import (
	"fmt"
	"slices"

	"github.com/purecu/purecu/nvml/raw"
)

// MIGPlacement is the place of an instance: of a GPU instance among the memory slices of the GPU, and of a compute
// instance among the compute slices of its GPU instance.
type MIGPlacement struct{ Start, Size int }

// GPUInstanceKind is a kind of GPU instances, by its share of the GPU. Not each GPU has each kind.
type GPUInstanceKind uint32

// The kinds of GPU instances. Rev1 has media engines, Rev2 has twice the memory, GFX can draw, NoME has no media
// engines, and AllME has all of them.
const (
	GPUInstance1Slice      GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_1_SLICE
	GPUInstance2Slice      GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_2_SLICE
	GPUInstance3Slice      GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_3_SLICE
	GPUInstance4Slice      GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_4_SLICE
	GPUInstance6Slice      GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_6_SLICE
	GPUInstance7Slice      GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_7_SLICE
	GPUInstance8Slice      GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_8_SLICE
	GPUInstance1SliceRev1  GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1
	GPUInstance2SliceRev1  GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1
	GPUInstance1SliceRev2  GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2
	GPUInstance1SliceGFX   GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX
	GPUInstance2SliceGFX   GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_2_SLICE_GFX
	GPUInstance3SliceGFX   GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_3_SLICE_GFX // unverified
	GPUInstance4SliceGFX   GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX
	GPUInstance1SliceNoME  GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME
	GPUInstance2SliceNoME  GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME
	GPUInstance1SliceAllME GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME
	GPUInstance2SliceAllME GPUInstanceKind = raw.NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME
)

// maxGPUInstanceKinds is one more than the highest kind that can be. Later drivers may have some more.
const maxGPUInstanceKinds = 24

// GPUInstanceProfile says what a GPU instance has.
type GPUInstanceProfile struct {
	// Kind is what the profile was found by. [Device.GPUInstanceProfileByID] may leave it out.
	Kind GPUInstanceKind
	// ID is the number that [Device.CreateGPUInstance] takes.
	ID uint32
	// Name is the one that nvidia-smi prints, such as "MIG 1g.18gb". It is empty for older drivers.
	Name string
	// MaxInstances is how many such instances the GPU can have at most.
	MaxInstances                     int
	Slices, Multiprocessors          int
	CopyEngines, Decoders, Encoders  int
	JPEGDecoders, OpticalFlowEngines int
	Memory                           uint64 // in bytes, rounded to MiB
	P2P                              bool   // can access other GPUs
}

const opGPUInstanceProfile = "nvmlDeviceGetGpuInstanceProfileInfoV"

// gpuInstanceProfile asks for a profile, in the older way if the library lacks the newer one.
func gpuInstanceProfile(ask func(*raw.GpuInstanceProfileInfoV2) raw.Return,
	oldest func(*raw.GpuInstanceProfileInfo) raw.Return) (
	p GPUInstanceProfile, r raw.Return) {
	// Driver 580 writes the name of version 3 at the place that it has in version 2, and a wrong one.
	v2 := raw.GpuInstanceProfileInfoV2{Version: raw.GpuInstanceProfileInfoV2Version}
	if r = ask(&v2); lacksVersion(r) && oldest != nil {
		var v1 raw.GpuInstanceProfileInfo
		r = oldest(&v1)
		v2 = raw.GpuInstanceProfileInfoV2{Id: v1.Id, SliceCount: v1.SliceCount, InstanceCount: v1.InstanceCount,
			MultiprocessorCount: v1.MultiprocessorCount, CopyEngineCount: v1.CopyEngineCount, DecoderCount: v1.DecoderCount,
			EncoderCount: v1.EncoderCount, JpegCount: v1.JpegCount, OfaCount: v1.OfaCount, MemorySizeMB: v1.MemorySizeMB,
			IsP2pSupported: v1.IsP2pSupported}
	}
	p.ID, p.Name, p.P2P, p.Memory = v2.Id, text(v2.Name[:]), truth(v2.IsP2pSupported), v2.MemorySizeMB<<20
	p.Slices, p.MaxInstances, p.Multiprocessors = int(v2.SliceCount), int(v2.InstanceCount), int(v2.MultiprocessorCount)
	p.CopyEngines, p.Decoders, p.Encoders = int(v2.CopyEngineCount), int(v2.DecoderCount), int(v2.EncoderCount)
	p.JPEGDecoders, p.OpticalFlowEngines = int(v2.JpegCount), int(v2.OfaCount)
	return p, r
}

// lacksVersion reports whether an older version of a struct is tried. The functions for profiles call one that they do
// not know an invalid argument.
func lacksVersion(r raw.Return) bool { return lacks(r) || r == raw.NVML_ERROR_INVALID_ARGUMENT }

// GPUInstanceProfile returns what a GPU instance of a kind has (nvmlDeviceGetGpuInstanceProfileInfoV, and
// nvmlDeviceGetGpuInstanceProfileInfo for older drivers). The error matches [ErrNotSupported] if the GPU does not have
// the kind. Linux only.
func (d *Device) GPUInstanceProfile(kind GPUInstanceKind) (GPUInstanceProfile, error) {
	return get(d.obj(), opGPUInstanceProfile, func(l *raw.Library, h uint64) (GPUInstanceProfile, raw.Return) {
		p, r := gpuInstanceProfile(func(info *raw.GpuInstanceProfileInfoV2) raw.Return {
			return l.DeviceGetGpuInstanceProfileInfoV(raw.Device(h), uint32(kind), info)
		}, func(info *raw.GpuInstanceProfileInfo) raw.Return {
			return l.DeviceGetGpuInstanceProfileInfo(raw.Device(h), uint32(kind), info)
		})
		p.Kind = kind
		return p, r
	})
}

// GPUInstanceProfiles returns the profiles that the GPU has (nvmlDeviceGetGpuInstanceProfileInfoV, and
// nvmlDeviceGetGpuInstanceProfileInfo for older drivers). If it has none, the error matches [errors.ErrUnsupported].
// Linux only.
func (d *Device) GPUInstanceProfiles() (all []GPUInstanceProfile, err error) {
	for kind := range GPUInstanceKind(maxGPUInstanceKinds) {
		p, e := d.GPUInstanceProfile(kind)
		switch {
		case e == nil:
			all = append(all, p)
		case !skipsProfile(e):
			return nil, e
		case err == nil:
			err = e
		}
	}
	if len(all) > 0 {
		return all, nil
	}
	return nil, err
}

// skipsProfile reports whether an error says that the GPU does not have a profile, or the driver does not know it.
func skipsProfile(err error) bool { return unsupported(err) || isReturn(err, ErrInvalidArgument) }

// isReturn reports whether NVML has answered with a result.
func isReturn(err error, r Return) bool {
	e, ok := err.(*Error)
	return ok && e.Return == r
}

// GPUInstanceProfileByID returns the profile with an ID (nvmlDeviceGetGpuInstanceProfileInfoByIdV). For drivers before
// 580 it looks for the ID in [Device.GPUInstanceProfiles]. Linux only.
func (d *Device) GPUInstanceProfileByID(id uint32) (GPUInstanceProfile, error) {
	p, err := d.gpuInstanceProfileByID(id)
	if e, ok := err.(*Error); ok && lacks(e.Return) {
		all, e := d.GPUInstanceProfiles()
		if i := slices.IndexFunc(all, func(p GPUInstanceProfile) bool { return p.ID == id }); e == nil && i >= 0 {
			return all[i], nil
		}
	}
	return p, err
}

func (d *Device) gpuInstanceProfileByID(id uint32) (GPUInstanceProfile, error) {
	const op = "nvmlDeviceGetGpuInstanceProfileInfoByIdV"
	return get(d.obj(), op, func(l *raw.Library, h uint64) (GPUInstanceProfile, raw.Return) {
		return gpuInstanceProfile(func(info *raw.GpuInstanceProfileInfoV2) raw.Return {
			return l.DeviceGetGpuInstanceProfileInfoByIdV(raw.Device(h), id, info)
		}, nil)
	})
}

// SetMIGMode says whether the GPU is divided into MIG devices (nvmlDeviceSetMigMode). It needs root, and may reset the
// GPU. If the mode was set, but is not active yet, pending says why: it matches [ErrResetRequired] in a virtual
// machine, which must restart, and [ErrInUse] if programs use the GPU. Windows can only switch the mode off.
func (d *Device) SetMIGMode(on bool) (pending, err error) {
	const op = "nvmlDeviceSetMigMode"
	o := d.obj()
	if o == nil {
		return nil, nilError(op)
	}
	known := &o.lane.instances
	w, err := o.call(op, words{b: number[uint64](on)}, func(l *raw.Library, w words) (words, raw.Return) {
		var status raw.Return
		if w.b == 0 {
			known.calls.Lock()
			defer known.calls.Unlock()
		}
		r := l.DeviceSetMigMode(raw.Device(w.a), uint32(w.b), &status)
		if w.b == 0 && r == raw.NVML_SUCCESS && status == raw.NVML_SUCCESS {
			known.end(func(*migInstance) bool { return true })
		}
		return words{a: uint64(uint32(status))}, r
	})
	if err != nil || w.a == 0 {
		return nil, err
	}
	return o.fail(op, raw.Return(w.a)), nil
}

// GPUInstancePlacements returns the places that a GPU instance of a profile can have
// (nvmlDeviceGetGpuInstancePossiblePlacements_v2, and nvmlDeviceGetGpuInstancePossiblePlacements for older drivers),
// also those that are in use. Linux only.
func (d *Device) GPUInstancePlacements(profile uint32) ([]MIGPlacement, error) {
	const op = "nvmlDeviceGetGpuInstancePossiblePlacements_v2"
	return get(d.obj(), op, func(l *raw.Library, h uint64) ([]MIGPlacement, raw.Return) {
		all, r := room(func(list []raw.GpuInstancePlacement, n *uint32) raw.Return {
			return l.DeviceGetGpuInstancePossiblePlacementsV2(raw.Device(h), profile, list, n)
		})
		if lacks(r) {
			all, r = room(func(list []raw.GpuInstancePlacement, n *uint32) raw.Return {
				return l.DeviceGetGpuInstancePossiblePlacements(raw.Device(h), profile, list, n)
			})
		}
		places := make([]MIGPlacement, len(all))
		for i, p := range all {
			places[i] = MIGPlacement{int(p.Start), int(p.Size)}
		}
		return places, r
	})
}

// maxInstances is more than a GPU has of instances: the library is not told the length of a list of them.
const maxInstances = 256

// room makes the calls for a list whose length the library says, but does not know for the caller's list.
func room[T any](f func(list []T, n *uint32) raw.Return) ([]T, raw.Return) {
	var n uint32
	if r := f(nil, &n); r != raw.NVML_SUCCESS || n == 0 {
		return nil, r
	}
	all := make([]T, n+maxInstances) // should there be more of them the next time
	r := f(all, &n)
	return all[:min(int(n), len(all))], r
}

// A migPart is an instance, and its number if ok.
type migPart struct {
	*migInstance
	id uint32
	ok bool
}

// name returns how errors name an instance of a device or of another instance.
func (i migPart) name(of, what string) string {
	if !i.ok {
		return of + ", " + what
	}
	return fmt.Sprintf("%s, %s %d", of, what, i.id)
}

// gpuInstance returns a GPU instance with its number. The caller holds s.calls.
func (s *migInstances) gpuInstance(l *raw.Library, g raw.GpuInstance) migPart {
	var info raw.GpuInstanceInfo
	r := l.GpuInstanceGetInfo(g, &info)
	return migPart{s.find(instanceKey{false, uint64(g)}, nil), info.Id, r == raw.NVML_SUCCESS}
}

// migPart returns the object of an instance in o.
func (o *object) migPart(i migPart, what string) object {
	p := o.part(i.key.handle, i.name(o.name, what))
	p.instance = i.migInstance
	return p
}

// gpuInstances makes a call that finds GPU instances of a device, while none is destroyed.
func gpuInstances[T any](d *Device, op string,
	f func(s *migInstances, l *raw.Library, d raw.Device) (T, raw.Return)) (T, error) {
	o := d.obj()
	if o == nil {
		var none T
		return none, nilError(op)
	}
	s := &o.lane.instances
	return get(o, op, func(l *raw.Library, h uint64) (T, raw.Return) {
		s.calls.RLock()
		defer s.calls.RUnlock()
		return f(s, l, raw.Device(h))
	})
}

// oneGPUInstance makes a call that finds a GPU instance.
func oneGPUInstance(d *Device, op string,
	f func(l *raw.Library, d raw.Device, g *raw.GpuInstance) raw.Return) (*GPUInstance, error) {
	i, err := gpuInstances(d, op, func(s *migInstances, l *raw.Library, d raw.Device) (migPart, raw.Return) {
		var g raw.GpuInstance
		if r := f(l, d, &g); r != raw.NVML_SUCCESS {
			return migPart{}, r
		}
		return s.gpuInstance(l, g), raw.NVML_SUCCESS
	})
	if err != nil {
		return nil, err
	}
	return &GPUInstance{d.migPart(i, "GPU instance")}, nil
}

// CreateGPUInstance creates a GPU instance at any free place (nvmlDeviceCreateGpuInstance). profile is the ID of a
// [GPUInstanceProfile]. It needs root, and that MIG is on. The instance lasts until it is destroyed, or the GPU is
// reset. Linux only.
func (d *Device) CreateGPUInstance(profile uint32) (*GPUInstance, error) {
	const op = "nvmlDeviceCreateGpuInstance"
	return oneGPUInstance(d, op, func(l *raw.Library, h raw.Device, g *raw.GpuInstance) raw.Return {
		return l.DeviceCreateGpuInstance(h, profile, g)
	})
}

// CreateGPUInstanceAt creates a GPU instance at a place (nvmlDeviceCreateGpuInstanceWithPlacement), which
// [Device.GPUInstancePlacements] returns: see [Device.CreateGPUInstance].
func (d *Device) CreateGPUInstanceAt(profile uint32, at MIGPlacement) (*GPUInstance, error) {
	const op = "nvmlDeviceCreateGpuInstanceWithPlacement"
	if err := d.obj().checkPlacement(op, at); err != nil {
		return nil, err
	}
	return oneGPUInstance(d, op, func(l *raw.Library, h raw.Device, g *raw.GpuInstance) raw.Return {
		place := raw.GpuInstancePlacement{Start: uint32(at.Start), Size: uint32(at.Size)}
		return l.DeviceCreateGpuInstanceWithPlacement(h, profile, &place, g)
	})
}

// checkPlacement returns an error for a place that cannot be.
func (o *object) checkPlacement(op string, at MIGPlacement) error {
	if o != nil && (at.Start < 0 || at.Size < 1 || at.Start > 1<<16 || at.Size > 1<<16) {
		return o.invalid(op, fmt.Sprintf("the placement %+v cannot be: take one of those that are possible", at))
	}
	return nil
}

// GPUInstances returns the GPU instances of a profile (nvmlDeviceGetGpuInstances). profile is the ID of a
// [GPUInstanceProfile]. It needs root. Linux only.
func (d *Device) GPUInstances(profile uint32) ([]*GPUInstance, error) {
	const op = "nvmlDeviceGetGpuInstances"
	all, err := gpuInstances(d, op, func(s *migInstances, l *raw.Library, h raw.Device) (all []migPart, r raw.Return) {
		list, n := make([]raw.GpuInstance, maxInstances), uint32(maxInstances)
		if r = l.DeviceGetGpuInstances(h, profile, list, &n); r != raw.NVML_SUCCESS {
			return nil, r
		}
		for _, g := range list[:min(n, maxInstances)] {
			all = append(all, s.gpuInstance(l, g))
		}
		return all, r
	})
	var list []*GPUInstance
	for _, i := range all {
		list = append(list, &GPUInstance{d.migPart(i, "GPU instance")})
	}
	return list, err
}

// GPUInstance returns the GPU instance with a number (nvmlDeviceGetGpuInstanceById), which [Device.GPUInstanceID]
// returns for a MIG device. It needs root. Linux only.
func (d *Device) GPUInstance(id int) (*GPUInstance, error) {
	const op = "nvmlDeviceGetGpuInstanceById"
	if err := d.obj().checkNumber(op, "number", id); err != nil {
		return nil, err
	}
	i, err := gpuInstances(d, op, func(s *migInstances, l *raw.Library, h raw.Device) (migPart, raw.Return) {
		var g raw.GpuInstance
		if r := l.DeviceGetGpuInstanceById(h, uint32(id), &g); r != raw.NVML_SUCCESS {
			return migPart{}, r
		}
		return migPart{s.find(instanceKey{false, uint64(g)}, nil), uint32(id), true}, raw.NVML_SUCCESS
	})
	if err != nil {
		return nil, err
	}
	return &GPUInstance{d.migPart(i, "GPU instance")}, nil
}
