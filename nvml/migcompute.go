package nvml

import "github.com/purecu/purecu/nvml/raw"

// GPUInstanceInfo says where a GPU instance is.
type GPUInstanceInfo struct {
	Device    *Device // the GPU
	ID        int
	Profile   uint32 // the ID of its profile
	Placement MIGPlacement
}

// Info returns where the GPU instance is (nvmlGpuInstanceGetInfo). Linux only.
func (g *GPUInstance) Info() (GPUInstanceInfo, error) {
	o := g.obj()
	i, err := get(o, "nvmlGpuInstanceGetInfo", func(l *raw.Library, h uint64) (info raw.GpuInstanceInfo, r raw.Return) {
		r = l.GpuInstanceGetInfo(raw.GpuInstance(h), &info)
		return info, r
	})
	if err != nil {
		return GPUInstanceInfo{}, err
	}
	return GPUInstanceInfo{o.device(i.Device, "the GPU of "+o.name), int(i.Id), i.ProfileId,
		MIGPlacement{int(i.Placement.Start), int(i.Placement.Size)}}, nil
}

// String returns how errors name the GPU instance: "device 0, GPU instance 3".
func (g *GPUInstance) String() string {
	if g == nil {
		return "no GPU instance"
	}
	return g.name
}

// Handle returns the nvmlGpuInstance_t, for calls through package raw.
func (g *GPUInstance) Handle() raw.GpuInstance {
	if g == nil {
		return 0
	}
	return raw.GpuInstance(g.handle)
}

// ComputeInstanceKind is a kind of compute instances, by its share of a GPU instance.
type ComputeInstanceKind uint32

// The kinds of compute instances. Rev1 can draw.
const (
	ComputeInstance1Slice     ComputeInstanceKind = raw.NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE
	ComputeInstance2Slice     ComputeInstanceKind = raw.NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE
	ComputeInstance3Slice     ComputeInstanceKind = raw.NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE
	ComputeInstance4Slice     ComputeInstanceKind = raw.NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE
	ComputeInstance6Slice     ComputeInstanceKind = raw.NVML_COMPUTE_INSTANCE_PROFILE_6_SLICE
	ComputeInstance7Slice     ComputeInstanceKind = raw.NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE
	ComputeInstance8Slice     ComputeInstanceKind = raw.NVML_COMPUTE_INSTANCE_PROFILE_8_SLICE
	ComputeInstance1SliceRev1 ComputeInstanceKind = raw.NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1
	ComputeInstance7SliceNVL  ComputeInstanceKind = raw.NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE_NVL // unverified
)

// maxComputeInstanceKinds is one more than the highest kind that can be. Later drivers may have some more.
const maxComputeInstanceKinds = 16

// ComputeInstanceProfile says what a compute instance has.
type ComputeInstanceProfile struct {
	Kind ComputeInstanceKind
	// ID is the number that [GPUInstance.CreateComputeInstance] takes.
	ID uint32
	// Name is the one that nvidia-smi prints, such as "MIG 1c.2g.35gb". It is empty for older drivers.
	Name string
	// MaxInstances is how many such instances the GPU instance can have at most.
	MaxInstances            int
	Slices, Multiprocessors int
	// All compute instances of the GPU instance share these engines.
	CopyEngines, Decoders, Encoders  int
	JPEGDecoders, OpticalFlowEngines int
}

const opComputeInstanceProfile = "nvmlGpuInstanceGetComputeInstanceProfileInfoV"

// computeInstanceProfile asks for a profile, in the older way if the library lacks the newer one.
func computeInstanceProfile(l *raw.Library, g raw.GpuInstance, kind uint32) (p ComputeInstanceProfile, r raw.Return) {
	const engines = raw.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED // there are no others
	v2 := raw.ComputeInstanceProfileInfoV2{Version: raw.ComputeInstanceProfileInfoV2Version}
	r = l.GpuInstanceGetComputeInstanceProfileInfoV(g, kind, engines, &v2)
	if lacksVersion(r) {
		var v1 raw.ComputeInstanceProfileInfo
		r = l.GpuInstanceGetComputeInstanceProfileInfo(g, kind, engines, &v1)
		v2 = raw.ComputeInstanceProfileInfoV2{Id: v1.Id, SliceCount: v1.SliceCount, InstanceCount: v1.InstanceCount,
			MultiprocessorCount: v1.MultiprocessorCount, SharedCopyEngineCount: v1.SharedCopyEngineCount,
			SharedDecoderCount: v1.SharedDecoderCount, SharedEncoderCount: v1.SharedEncoderCount,
			SharedJpegCount: v1.SharedJpegCount, SharedOfaCount: v1.SharedOfaCount}
	}
	p.Kind, p.ID, p.Name = ComputeInstanceKind(kind), v2.Id, text(v2.Name[:])
	p.Slices, p.MaxInstances, p.Multiprocessors = int(v2.SliceCount), int(v2.InstanceCount), int(v2.MultiprocessorCount)
	p.CopyEngines, p.Decoders, p.Encoders = int(v2.SharedCopyEngineCount), int(v2.SharedDecoderCount),
		int(v2.SharedEncoderCount)
	p.JPEGDecoders, p.OpticalFlowEngines = int(v2.SharedJpegCount), int(v2.SharedOfaCount)
	return p, r
}

// ComputeInstanceProfile returns what a compute instance of a kind has (nvmlGpuInstanceGetComputeInstanceProfileInfoV,
// and nvmlGpuInstanceGetComputeInstanceProfileInfo for older drivers). The error matches [ErrNotSupported] if the GPU
// instance does not have the kind. Linux only.
func (g *GPUInstance) ComputeInstanceProfile(kind ComputeInstanceKind) (ComputeInstanceProfile, error) {
	return get(g.obj(), opComputeInstanceProfile, func(l *raw.Library, h uint64) (ComputeInstanceProfile, raw.Return) {
		return computeInstanceProfile(l, raw.GpuInstance(h), uint32(kind))
	})
}

// ComputeInstanceProfiles returns the profiles that the GPU instance has
// (nvmlGpuInstanceGetComputeInstanceProfileInfoV, and nvmlGpuInstanceGetComputeInstanceProfileInfo for older drivers).
// Linux only.
func (g *GPUInstance) ComputeInstanceProfiles() (all []ComputeInstanceProfile, err error) {
	for kind := range ComputeInstanceKind(maxComputeInstanceKinds) {
		p, e := g.ComputeInstanceProfile(kind)
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

// ComputeInstancePlacements returns the places that a compute instance of a profile can have
// (nvmlGpuInstanceGetComputeInstancePossiblePlacements), also those that are in use. Linux only.
func (g *GPUInstance) ComputeInstancePlacements(profile uint32) ([]MIGPlacement, error) {
	const op = "nvmlGpuInstanceGetComputeInstancePossiblePlacements"
	return get(g.obj(), op, func(l *raw.Library, h uint64) ([]MIGPlacement, raw.Return) {
		all, r := room(func(list []raw.ComputeInstancePlacement, n *uint32) raw.Return {
			return l.GpuInstanceGetComputeInstancePossiblePlacements(raw.GpuInstance(h), profile, list, n)
		})
		places := make([]MIGPlacement, len(all))
		for i, p := range all {
			places[i] = MIGPlacement{int(p.Start), int(p.Size)}
		}
		return places, r
	})
}

// computeInstance returns a compute instance in i with its number. The caller holds i.of.calls.
func (i *migInstance) computeInstance(l *raw.Library, c raw.ComputeInstance) migPart {
	info, r := computeInstanceInfo(l, c)
	return migPart{i.of.find(instanceKey{true, uint64(c)}, i), info.Id, r == raw.NVML_SUCCESS}
}

func computeInstanceInfo(l *raw.Library, c raw.ComputeInstance) (info raw.ComputeInstanceInfo, r raw.Return) {
	if r = l.ComputeInstanceGetInfoV2(c, &info); lacks(r) {
		r = l.ComputeInstanceGetInfo(c, &info)
	}
	return info, r
}

// oneComputeInstance makes a call that finds a compute instance.
func oneComputeInstance(o *object, op string,
	f func(l *raw.Library, g raw.GpuInstance, c *raw.ComputeInstance) raw.Return) (*ComputeInstance, error) {
	if o == nil {
		return nil, nilError(op)
	}
	of := o.instance
	i, err := get(o, op, func(l *raw.Library, h uint64) (migPart, raw.Return) {
		var c raw.ComputeInstance
		if r := f(l, raw.GpuInstance(h), &c); r != raw.NVML_SUCCESS {
			return migPart{}, r
		}
		return of.computeInstance(l, c), raw.NVML_SUCCESS
	})
	if err != nil {
		return nil, err
	}
	return &ComputeInstance{o.migPart(i, "compute instance")}, nil
}

// CreateComputeInstance creates a compute instance at any free place (nvmlGpuInstanceCreateComputeInstance). profile is
// the ID of a [ComputeInstanceProfile]. It needs root. Linux only.
func (g *GPUInstance) CreateComputeInstance(profile uint32) (*ComputeInstance, error) {
	const op = "nvmlGpuInstanceCreateComputeInstance"
	return oneComputeInstance(g.obj(), op, func(l *raw.Library, h raw.GpuInstance, c *raw.ComputeInstance) raw.Return {
		return l.GpuInstanceCreateComputeInstance(h, profile, c)
	})
}

// CreateComputeInstanceAt creates a compute instance at a place (nvmlGpuInstanceCreateComputeInstanceWithPlacement),
// which [GPUInstance.ComputeInstancePlacements] returns: see [GPUInstance.CreateComputeInstance].
func (g *GPUInstance) CreateComputeInstanceAt(profile uint32, at MIGPlacement) (*ComputeInstance, error) {
	const op = "nvmlGpuInstanceCreateComputeInstanceWithPlacement"
	o := g.obj()
	if err := o.checkPlacement(op, at); err != nil {
		return nil, err
	}
	return oneComputeInstance(o, op, func(l *raw.Library, h raw.GpuInstance, c *raw.ComputeInstance) raw.Return {
		place := raw.ComputeInstancePlacement{Start: uint32(at.Start), Size: uint32(at.Size)}
		return l.GpuInstanceCreateComputeInstanceWithPlacement(h, profile, &place, c)
	})
}

// ComputeInstances returns the compute instances of a profile (nvmlGpuInstanceGetComputeInstances). profile is the ID
// of a [ComputeInstanceProfile]. It needs root. Linux only.
func (g *GPUInstance) ComputeInstances(profile uint32) ([]*ComputeInstance, error) {
	o := g.obj()
	const op = "nvmlGpuInstanceGetComputeInstances"
	if o == nil {
		return nil, nilError(op)
	}
	of := o.instance
	all, err := get(o, op, func(l *raw.Library, h uint64) (all []migPart, r raw.Return) {
		list, n := make([]raw.ComputeInstance, maxInstances), uint32(maxInstances)
		if r = l.GpuInstanceGetComputeInstances(raw.GpuInstance(h), profile, list, &n); r != raw.NVML_SUCCESS {
			return nil, r
		}
		for _, c := range list[:min(n, maxInstances)] {
			all = append(all, of.computeInstance(l, c))
		}
		return all, r
	})
	var list []*ComputeInstance
	for _, i := range all {
		list = append(list, &ComputeInstance{o.migPart(i, "compute instance")})
	}
	return list, err
}

// ComputeInstance returns the compute instance with a number (nvmlGpuInstanceGetComputeInstanceById), which
// [Device.ComputeInstanceID] returns for a MIG device. It needs root. Linux only.
func (g *GPUInstance) ComputeInstance(id int) (*ComputeInstance, error) {
	const op = "nvmlGpuInstanceGetComputeInstanceById"
	o := g.obj()
	if err := o.checkNumber(op, "number", id); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, nilError(op)
	}
	of := o.instance
	i, err := get(o, op, func(l *raw.Library, h uint64) (migPart, raw.Return) {
		var c raw.ComputeInstance
		if r := l.GpuInstanceGetComputeInstanceById(raw.GpuInstance(h), uint32(id), &c); r != raw.NVML_SUCCESS {
			return migPart{}, r
		}
		return migPart{of.of.find(instanceKey{true, uint64(c)}, of), uint32(id), true}, raw.NVML_SUCCESS
	})
	if err != nil {
		return nil, err
	}
	return &ComputeInstance{o.migPart(i, "compute instance")}, nil
}

// ComputeInstanceInfo says where a compute instance is.
type ComputeInstanceInfo struct {
	Device      *Device // the GPU
	GPUInstance *GPUInstance
	ID          int
	Profile     uint32       // the ID of its profile
	Placement   MIGPlacement // empty for older drivers
}

// Info returns where the compute instance is (nvmlComputeInstanceGetInfo_v2, and nvmlComputeInstanceGetInfo for drivers
// before 470). Linux only.
func (c *ComputeInstance) Info() (ComputeInstanceInfo, error) {
	o := c.obj()
	const op = "nvmlComputeInstanceGetInfo_v2"
	i, err := get(o, op, func(l *raw.Library, h uint64) (raw.ComputeInstanceInfo, raw.Return) {
		return computeInstanceInfo(l, raw.ComputeInstance(h))
	})
	if err != nil {
		return ComputeInstanceInfo{}, err
	}
	g := &GPUInstance{o.part(o.instance.parent.key.handle, "the GPU instance of "+o.name)}
	g.instance = o.instance.parent
	return ComputeInstanceInfo{o.device(i.Device, "the GPU of "+o.name), g, int(i.Id), i.ProfileId,
		MIGPlacement{int(i.Placement.Start), int(i.Placement.Size)}}, nil
}

// String returns how errors name the compute instance: "device 0, GPU instance 3, compute instance 0".
func (c *ComputeInstance) String() string {
	if c == nil {
		return "no compute instance"
	}
	return c.name
}

// Handle returns the nvmlComputeInstance_t, for calls through package raw.
func (c *ComputeInstance) Handle() raw.ComputeInstance {
	if c == nil {
		return 0
	}
	return raw.ComputeInstance(c.handle)
}
