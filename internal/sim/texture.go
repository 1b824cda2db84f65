package sim

import (
	"math"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/texture"
)

// This file has texture and surface objects.

// kernelImages are the textures and surfaces for a launch of a kernel.
type kernelImages struct {
	*kernelMemory
	launch uint64 // its number, in the order in which launches were enqueued
}

// Texture implements vm.Images.
func (k kernelImages) Texture(handle uint64) *texture.Object { return k.image(textureKind, handle) }

// Surface implements vm.Images.
func (k kernelImages) Surface(handle uint64) *texture.Object { return k.image(surfaceKind, handle) }

// image finds a texture or a surface that was not destroyed when the launch was enqueued. Programs destroy a texture
// without waiting for the kernels that use it.
func (k kernelImages) image(of kind, handle uint64) *texture.Object {
	o, _ := k.d.objects.images.Load(imageKey{of, uintptr(handle)})
	i, is := o.(*imageObject)
	if !is || i.ctx != k.ctx {
		return nil
	}
	if last := i.endsAt.Load(); last != 0 && k.launch >= last {
		return nil
	}
	return &i.object
}

// mostGone is how many textures and surfaces kernels find after they were destroyed: those that were destroyed last.
const mostGone = 8192

// addImage adds a texture or a surface, which kernels find without the driver's lock.
func (t *objects) addImage(k kind, i *imageObject) uintptr {
	i.handle = t.add(k, i)
	t.images.Store(imageKey{k, i.handle}, i)
	return i.handle
}

// removeImage removes a texture or a surface. Launches that are enqueued still find it.
func (t *objects) removeImage(k kind, i *imageObject) {
	i.endsAt.Store(t.images.launches + 1)
	t.remove(i.handle)
	if t.images.gone = append(t.images.gone, imageKey{k, i.handle}); len(t.images.gone) > mostGone {
		t.images.Delete(t.images.gone[0])
		t.images.gone = t.images.gone[1:]
	}
}

// resource sets what a texture or surface takes from its memory.
func (d *Driver) resource(name string, c *context, res *driver.ResourceDesc, o *texture.Object) driver.Result {
	if res.Flags != 0 {
		return driver.ResultInvalidValue
	}
	v, format, channels := c.dev, int32(0), uint32(0)
	switch res.ResType {
	case driver.CU_RESOURCE_TYPE_ARRAY:
		a, r := d.array(name, res.Res.Array().HArray)
		switch {
		case r == driver.ResultInvalidHandle:
			return driver.ResultInvalidValue
		case r != ok:
			return r
		case a.ctx != c:
			return driver.ResultInvalidValue
		}
		o.Layout, format, channels = a.layout(), a.desc.Format, a.desc.NumChannels
	case driver.CU_RESOURCE_TYPE_LINEAR:
		m := res.Res.Linear()
		format, channels = m.Format, m.NumChannels
		size, r := knownFormat(format, channels)
		if r != ok {
			return r
		}
		n := m.SizeInBytes / size
		if m.DevPtr == 0 || uint64(m.DevPtr)%v.most(driver.CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) != 0 ||
			n > math.MaxInt32 {
			return driver.ResultInvalidValue
		}
		o.Layout = texture.Layout{Size: [3]uint32{uint32(n), 1, 1}, Dims: 1, Memory: true, Addr: uint64(m.DevPtr)}
	case driver.CU_RESOURCE_TYPE_PITCH2D:
		m := res.Res.Pitch2D()
		format, channels = m.Format, m.NumChannels
		if m.DevPtr == 0 || uint64(m.DevPtr)%v.most(driver.CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) != 0 ||
			m.Width > v.most(driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH) ||
			m.Height > v.most(driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT) ||
			m.PitchInBytes > v.most(driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH) ||
			m.PitchInBytes%v.most(driver.CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT) != 0 {
			return driver.ResultInvalidValue
		}
		o.Layout = texture.Layout{Size: [3]uint32{uint32(m.Width), uint32(m.Height), 1}, Dims: 2,
			Addr: uint64(m.DevPtr), Pitch: m.PitchInBytes}
	case driver.CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return driver.ResultNotSupported
	default:
		return driver.ResultInvalidValue
	}
	_, r := knownFormat(format, channels)
	o.Format, o.Channels = texture.Format(format), int(channels)
	return r
}

// most returns a limit of the device, or an alignment. As an attribute that a program has set does not change what the
// driver does, it is that of the GPU.
func (v *device) most(attribute int32) uint64 { return uint64(v.Attribute(attribute)) }

// sampler sets what a texture takes from its description.
func sampler(t *driver.TextureDesc, o *texture.Object) driver.Result {
	const unnamed = 0xc // an H200 takes them
	const known = unnamed | driver.CU_TRSF_READ_AS_INTEGER | driver.CU_TRSF_NORMALIZED_COORDINATES |
		driver.CU_TRSF_SRGB |
		driver.CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | driver.CU_TRSF_SEAMLESS_CUBEMAP
	o.Linear = t.FilterMode == driver.CU_TR_FILTER_MODE_LINEAR
	o.Integer = t.Flags&driver.CU_TRSF_READ_AS_INTEGER != 0
	o.Normalized = t.Flags&driver.CU_TRSF_NORMALIZED_COORDINATES != 0
	o.SRGB = t.Flags&driver.CU_TRSF_SRGB != 0
	o.Border = t.BorderColor
	if t.Flags&^uint32(known) != 0 || t.FilterMode < 0 || t.FilterMode > driver.CU_TR_FILTER_MODE_LINEAR ||
		t.MipmapFilterMode < 0 || t.MipmapFilterMode > driver.CU_TR_FILTER_MODE_LINEAR {
		return driver.ResultInvalidValue
	}
	for i, m := range t.AddressMode {
		if m < 0 || m > driver.CU_TR_ADDRESS_MODE_BORDER {
			return driver.ResultInvalidValue
		}
		o.Modes[i] = texture.Mode(m)
	}
	return ok
}

// views are the formats of views of CU_RES_VIEW_FORMAT_UINT_1X8 and the following.
var views = [...]struct {
	format   texture.Format
	channels int
}{
	{texture.U8, 1}, {texture.U8, 2}, {texture.U8, 4}, {texture.S8, 1}, {texture.S8, 2}, {texture.S8, 4},
	{texture.U16, 1}, {texture.U16, 2}, {texture.U16, 4}, {texture.S16, 1}, {texture.S16, 2}, {texture.S16, 4},
	{texture.U32, 1}, {texture.U32, 2}, {texture.U32, 4}, {texture.S32, 1}, {texture.S32, 2}, {texture.S32, 4},
	{texture.F16, 1}, {texture.F16, 2}, {texture.F16, 4}, {texture.F32, 1}, {texture.F32, 2}, {texture.F32, 4},
}

// viewed gives a texture the format of a view of its array. The elements must have the same size.
func viewed(v *driver.ResourceViewDesc, resource int32, o *texture.Object) driver.Result {
	switch at := int(v.Format) - driver.CU_RES_VIEW_FORMAT_UINT_1X8; {
	case resource != driver.CU_RESOURCE_TYPE_ARRAY || o.Layers > 0:
		return driver.ResultNotSupported
	case at < 0 || at >= len(views), v.Width != uint64(o.Size[0]), max(v.Height, 1) != uint64(o.Size[1]),
		max(v.Depth, 1) != uint64(o.Size[2]), views[at].format.Size()*uint64(views[at].channels) != o.Texel():
		return driver.ResultInvalidValue
	default:
		o.Format, o.Channels = views[at].format, views[at].channels
	}
	return ok
}

// TexObjectCreate is cuTexObjectCreate.
func (d *Driver) TexObjectCreate(th *driver.Thread, res driver.ResourceDesc, tex driver.TextureDesc,
	view *driver.ResourceViewDesc) (driver.TexObject, driver.Result) {
	const name = "cuTexObjectCreate"
	defer d.mu.Unlock()
	c, _, r := d.inContext(name, th)
	if r != ok {
		return 0, r
	}
	i := &imageObject{ctx: c, resource: res, texture: tex}
	if r = d.resource(name, c, &res, &i.object); r == ok {
		r = sampler(&tex, &i.object)
	}
	if view != nil && r == ok {
		i.view = *view
		r = viewed(view, res.ResType, &i.object)
	}
	if r != ok {
		return 0, r
	}
	return driver.TexObject(d.objects.addImage(textureKind, i)), ok
}

// SurfObjectCreate is cuSurfObjectCreate.
func (d *Driver) SurfObjectCreate(th *driver.Thread, res driver.ResourceDesc) (driver.SurfObject, driver.Result) {
	const name = "cuSurfObjectCreate"
	defer d.mu.Unlock()
	c, _, r := d.inContext(name, th)
	if r != ok {
		return 0, r
	}
	if res.ResType != driver.CU_RESOURCE_TYPE_ARRAY {
		return 0, driver.ResultInvalidValue
	}
	i := &imageObject{ctx: c, resource: res}
	if r = d.resource(name, c, &res, &i.object); r != ok {
		return 0, r
	}
	return driver.SurfObject(d.objects.addImage(surfaceKind, i)), ok
}

// imageOf returns the texture or surface of a handle, or nil if there is none, which is a misuse.
func (d *Driver) imageOf(name string, k kind, h uintptr) *imageObject {
	i, _ := find[imageObject](d, name, k, h)
	if i == nil {
		return nil
	}
	if _, p := d.objects.find(h); p.kind != k {
		d.misuse(name, h, "this handle is of kind "+p.kind.String()+", not "+k.String(), nil)
		return nil
	}
	return i
}

// image begins a call with a texture or a surface as an argument.
func (d *Driver) image(name string, th *driver.Thread, k kind, h uint64) (*imageObject, driver.Result) {
	if _, _, r := d.inContext(name, th); r != ok {
		return nil, r
	}
	i := d.imageOf(name, k, uintptr(h))
	if i == nil {
		return nil, driver.ResultInvalidValue
	}
	return i, d.of(name, i.ctx, uintptr(h), k)
}

// destroyImage destroys a texture or a surface, also after a sticky error.
func (d *Driver) destroyImage(name string, th *driver.Thread, k kind, h uint64) driver.Result {
	defer d.mu.Unlock()
	if _, _, r := d.inContext(name, th); r != d.lost {
		return r
	}
	i := d.imageOf(name, k, uintptr(h))
	if i == nil { // an H200 does not know that it is none
		return d.lost
	}
	d.objects.removeImage(k, i)
	return d.of(name, i.ctx, uintptr(h), k)
}

// TexObjectDestroy is cuTexObjectDestroy.
func (d *Driver) TexObjectDestroy(th *driver.Thread, h driver.TexObject) driver.Result {
	return d.destroyImage("cuTexObjectDestroy", th, textureKind, uint64(h))
}

// SurfObjectDestroy is cuSurfObjectDestroy.
func (d *Driver) SurfObjectDestroy(th *driver.Thread, h driver.SurfObject) driver.Result {
	return d.destroyImage("cuSurfObjectDestroy", th, surfaceKind, uint64(h))
}

// TexObjectGetResourceDesc is cuTexObjectGetResourceDesc.
func (d *Driver) TexObjectGetResourceDesc(th *driver.Thread, h driver.TexObject) (res driver.ResourceDesc,
	r driver.Result) {
	defer d.mu.Unlock()
	i, r := d.image("cuTexObjectGetResourceDesc", th, textureKind, uint64(h))
	if r == ok {
		res = i.resource
	}
	return res, r
}

// TexObjectGetTextureDesc is cuTexObjectGetTextureDesc.
func (d *Driver) TexObjectGetTextureDesc(th *driver.Thread, h driver.TexObject) (tex driver.TextureDesc,
	r driver.Result) {
	defer d.mu.Unlock()
	i, r := d.image("cuTexObjectGetTextureDesc", th, textureKind, uint64(h))
	if r == ok {
		tex = i.texture
	}
	return tex, r
}

// TexObjectGetResourceViewDesc is cuTexObjectGetResourceViewDesc.
func (d *Driver) TexObjectGetResourceViewDesc(th *driver.Thread, h driver.TexObject) (view driver.ResourceViewDesc,
	r driver.Result) {
	defer d.mu.Unlock()
	i, r := d.image("cuTexObjectGetResourceViewDesc", th, textureKind, uint64(h))
	if r == ok {
		view = i.view
	}
	return view, r
}

// SurfObjectGetResourceDesc is cuSurfObjectGetResourceDesc.
func (d *Driver) SurfObjectGetResourceDesc(th *driver.Thread, h driver.SurfObject) (res driver.ResourceDesc,
	r driver.Result) {
	defer d.mu.Unlock()
	i, r := d.image("cuSurfObjectGetResourceDesc", th, surfaceKind, uint64(h))
	if r == ok {
		res = i.resource
	}
	return res, r
}
