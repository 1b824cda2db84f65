package sim

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/texture"
)

// This file has arrays: memory of a device without an address, whose elements textures and surfaces read. Here the
// elements are in rows, one behind the other, in a block of memory that no call finds by its address.

const (
	layered   = driver.CUDA_ARRAY3D_LAYERED
	forStores = driver.CUDA_ARRAY3D_SURFACE_LDST
	gathers   = driver.CUDA_ARRAY3D_TEXTURE_GATHER
)

// layout returns where the elements of the array are.
func (a *cudaArray) layout() texture.Layout {
	l := texture.Layout{Size: [3]uint32{uint32(a.desc.Width), uint32(a.rows), uint32(a.planes)}, Dims: 1,
		Addr: a.block.addr, Pitch: a.row, Plane: a.row * a.rows}
	if a.desc.Height > 0 {
		l.Dims = 2
	}
	switch {
	case a.desc.Flags&layered != 0:
		l.Layers, l.Size[2] = uint32(a.planes), 1
	case a.desc.Depth > 0:
		l.Dims = 3
	}
	return l
}

// knownFormat returns ok if a format of channels exists and the driver has it, and the size of an element.
func knownFormat(format int32, channels uint32) (size uint64, r driver.Result) {
	size = texture.Format(format).Size()
	switch {
	case format >= driver.CU_AD_FORMAT_BC1_UNORM && format <= driver.CU_AD_FORMAT_SNORM_INT16X4 && channels != 3:
		return 0, driver.ResultNotSupported
	case size == 0, channels != 1 && channels != 2 && channels != 4:
		return 0, driver.ResultInvalidValue
	}
	return size * uint64(channels), ok
}

// fits returns ok if the device can have an array.
func (v *device) fits(a *driver.Array3DDescriptor) driver.Result {
	const known = layered | forStores | gathers
	const later = driver.CUDA_ARRAY3D_CUBEMAP | driver.CUDA_ARRAY3D_SPARSE | driver.CUDA_ARRAY3D_DEFERRED_MAPPING |
		driver.CUDA_ARRAY3D_VIDEO_ENCODE_DECODE
	is := func(flag uint32) bool { return a.Flags&flag != 0 }
	three := a.Depth > 0 && !is(layered)
	switch {
	case is(later):
		return driver.ResultNotSupported
	case a.Flags&^uint32(known) != 0, a.Width == 0, is(layered) && a.Depth == 0, three && a.Height == 0,
		is(gathers) && (a.Height == 0 || three):
		return driver.ResultInvalidValue
	}
	most := [3]int32{driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH}
	switch {
	case is(layered) && a.Height == 0:
		most = [3]int32{driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 0,
			driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS}
	case is(layered):
		most = [3]int32{driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH,
			driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT,
			driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS}
	case is(gathers):
		most = [3]int32{driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH,
			driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT}
	case three && a.Depth > v.most(driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH):
		most = [3]int32{driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE,
			driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE,
			driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE}
	case three:
		most = [3]int32{driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH,
			driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT,
			driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH}
	case a.Height > 0:
		most = [3]int32{driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH,
			driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT}
	}
	for i, n := range []uint64{a.Width, a.Height, a.Depth} {
		if most[i] != 0 && n > v.most(most[i]) {
			return driver.ResultInvalidValue
		}
	}
	return ok
}

// newArray makes an array.
func (d *Driver) newArray(name string, th *driver.Thread, desc driver.Array3DDescriptor) (driver.Array, driver.Result) {
	c, r := d.changing(name, th)
	if r != ok {
		return 0, r
	}
	size, r := knownFormat(desc.Format, desc.NumChannels)
	if r == ok {
		r = c.dev.fits(&desc)
	}
	if r != ok {
		return 0, r
	}
	a := &cudaArray{ctx: c, desc: desc, row: desc.Width * size, rows: max(desc.Height, 1), planes: max(desc.Depth, 1)}
	if a.block, r = d.newDeviceBlock(c, a.row*a.rows*a.planes, arrayBlock); r != ok {
		return 0, r
	}
	a.handle = driver.Array(d.objects.add(arrayKind, a))
	return a.handle, ok
}
