package sim

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// imageText is a kernel whose threads take four words of coordinates each, do something with the handle h, and leave
// four words v0 to v3.
func imageText(body string) string {
	return `.version 8.0 .target sm_75 .address_size 64
		.entry sample(.param .u64 h, .param .u64 in, .param .u64 out) {
		.reg .b32 t, x<4>, v<4>; .reg .b64 h, a, b, o;
		ld.param.u64 h, [h]; ld.param.u64 a, [in]; ld.param.u64 b, [out];
		mov.u32 t, %tid.x; mul.wide.u32 o, t, 16; add.u64 a, a, o; add.u64 b, b, o;
		ld.global.v4.b32 {x0,x1,x2,x3}, [a]; ld.global.v4.b32 {v0,v1,v2,v3}, [b];
		` + body + ` st.global.v4.b32 [b], {v0,v1,v2,v3}; ret; }`
}

// sampled executes a kernel of imageText for coordinates of four words each, and returns the first word of each result.
func (r *lab) sampled(body string, handle uint64, coordinates ...uint32) (list []uint32, res driver.Result) {
	r.t.Helper()
	f, res := r.ModuleGetFunction(r.th, r.load(imageText(body)), "sample")
	r.must(res)
	n := len(coordinates) / 4
	in := r.alloc(series(len(coordinates), func(i int) uint32 { return coordinates[i] }))
	out := r.alloc(series(4*n, func(i int) uint32 { return 0xee00 + uint32(i) }))
	if res = r.launchGrid(f, 1, 1, uint32(n), 1, 0, handle, in, out); res != ok {
		return nil, res
	}
	for i, w := range r.wordsAt(out, 4*n) {
		if i%4 == 0 {
			list = append(list, w)
		}
	}
	return list, ok
}

// floats returns the bits of coordinates: two for each sample.
func floats(list ...float32) (words []uint32) {
	for i := 0; i < len(list); i += 2 {
		words = append(words, math.Float32bits(list[i]), math.Float32bits(list[i+1]), 0, 0)
	}
	return words
}

// texture makes a texture object.
func (r *lab) texture(res driver.ResourceDesc, tex driver.TextureDesc) uint64 {
	r.t.Helper()
	h, got := r.TexObjectCreate(r.th, res, tex, nil)
	r.must(got)
	r.t.Cleanup(func() { r.TexObjectDestroy(r.th, h) })
	return uint64(h)
}

// pitched returns the description of bytes in rows of memory.
func pitched(p driver.DevicePtr, width, height uint64) (res driver.ResourceDesc) {
	res.ResType = driver.CU_RESOURCE_TYPE_PITCH2D
	*res.Res.Pitch2D() = driver.ResourceDescResPitch2D{DevPtr: p, Format: driver.CU_AD_FORMAT_UNSIGNED_INT8,
		NumChannels: 1, Width: width, Height: height, PitchInBytes: 32}
	return res
}

// inArray returns the description of an array.
func inArray(a driver.Array) (res driver.ResourceDesc) {
	res.Res.Array().HArray = a
	return res
}

// newArray makes an array of 32-bit integers.
func (r *lab) newArray(width, height, depth uint64, flags uint32) driver.Array {
	r.t.Helper()
	a, res := r.Array3DCreate(r.th, driver.Array3DDescriptor{Width: width, Height: height, Depth: depth,
		Format: driver.CU_AD_FORMAT_UNSIGNED_INT32, NumChannels: 1, Flags: flags})
	r.must(res)
	r.t.Cleanup(func() { r.ArrayDestroy(r.th, a) })
	return a
}

// TestTextureOfMemory reads bytes in rows, as video filters do, and words of linear memory.
func TestTextureOfMemory(t *testing.T) {
	r := newLab(t)
	p := r.alloc(series(64, func(i int) uint32 { return uint32(4*i) * 0x01010101 & 0xff00ff }))
	const tex2D = "tex.2d.v4.u32.f32 {v0,v1,v2,v3}, [h, {x0,x1}];"
	whole := r.texture(pitched(p, 10, 8), driver.TextureDesc{Flags: driver.CU_TRSF_READ_AS_INTEGER,
		AddressMode: [3]int32{driver.CU_TR_ADDRESS_MODE_CLAMP, driver.CU_TR_ADDRESS_MODE_CLAMP}})
	got, res := r.sampled(tex2D, whole, floats(0.5, 0.5, 4.9, 1.2, -3, 7.5, 99, 99)...)
	r.must(res)
	if want := []uint32{0, 4 * 9, 4 * 56, 0}; !slices.Equal(got, want) {
		t.Errorf("bytes are %v, want %v", got, want)
	}
	smooth := r.texture(pitched(p, 10, 8), driver.TextureDesc{FilterMode: driver.CU_TR_FILTER_MODE_LINEAR,
		AddressMode: [3]int32{driver.CU_TR_ADDRESS_MODE_CLAMP, driver.CU_TR_ADDRESS_MODE_CLAMP}})
	got, res = r.sampled("tex.2d.v4.f32.f32 {v0,v1,v2,v3}, [h, {x0,x1}];", smooth, floats(0.5, 2, 0.5, 1.5)...)
	r.must(res)
	for i, want := range []float64{(4.0*8 + 4*16) / 2 / 255, 4.0 * 8 / 255} {
		if x := float64(math.Float32frombits(got[i])); math.Abs(x-want) > 1e-6 {
			t.Errorf("sample %d is %v, want %v", i, x, want)
		}
	}
	var linear driver.ResourceDesc
	linear.ResType = driver.CU_RESOURCE_TYPE_LINEAR
	*linear.Res.Linear() = driver.ResourceDescResLinear{DevPtr: p, Format: driver.CU_AD_FORMAT_UNSIGNED_INT32,
		NumChannels: 1, SizeInBytes: 40}
	got, res = r.sampled("tex.1d.v4.u32.s32 {v0,v1,v2,v3}, [h, {x0}];", r.texture(linear, driver.TextureDesc{}),
		3, 0, 0, 0, 9, 0, 0, 0, 10, 0, 0, 0, 0xffffffff, 0, 0, 0)
	r.must(res)
	if want := []uint32{0xc000c, 0x240024, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("words are %x, want %x", got, want)
	}
}

// TestTextureFaults launches kernels with handles that are none, and with memory that is freed.
func TestTextureFaults(t *testing.T) {
	for name, c := range map[string]struct {
		handle func(r *lab) uint64
		want   driver.Result
		says   string
	}{
		"0": {func(*lab) uint64 { return 0 }, driver.ResultIllegalAddress, "0x0 is no texture object"},
		"destroyed": {func(r *lab) uint64 {
			h, res := r.TexObjectCreate(r.th, inArray(r.newArray(4, 4, 0, 0)), driver.TextureDesc{}, nil)
			r.must(res)
			r.must(r.TexObjectDestroy(r.th, h))
			return uint64(h)
		}, driver.ResultIllegalAddress, "is no texture object"},
		"a surface": {func(r *lab) uint64 {
			h, res := r.SurfObjectCreate(r.th, inArray(r.newArray(4, 4, 0, driver.CUDA_ARRAY3D_SURFACE_LDST)))
			r.must(res)
			return uint64(h)
		}, driver.ResultIllegalAddress, "is no texture object"},
		"freed memory": {func(r *lab) uint64 {
			p, res := r.MemAlloc(r.th, 1024)
			r.must(res)
			h := r.texture(pitched(p, 8, 8), driver.TextureDesc{Flags: driver.CU_TRSF_READ_AS_INTEGER})
			r.must(r.MemFree(r.th, p))
			return h
		}, driver.ResultIllegalAddress, "which is freed"},
		"an address of parameters": {func(r *lab) uint64 {
			return r.texture(pitched(driver.DevicePtr(vm.ParamWindow), 8, 8), driver.TextureDesc{})
		}, driver.ResultIllegalAddress, "textures read global memory only"},
	} {
		r := newLab(t)
		_, res := r.sampled("tex.2d.v4.u32.s32 {v0,v1,v2,v3}, [h, {x0,x1}];", c.handle(r), 1, 1, 0, 0)
		r.want(name, c.want, res)
		if m := r.Misuses(); len(m) != 1 || !strings.Contains(m[0].What, c.says) {
			t.Errorf("%s: %v", name, m)
		}
		r.takeMisuses()
	}
}

// TestTextureDestroyedBehindLaunch destroys a texture after the launch of a kernel that reads it, and before it
// runs, as video filters do.
func TestTextureDestroyedBehindLaunch(t *testing.T) {
	r := newLab(t)
	f, res := r.ModuleGetFunction(r.th, r.load(imageText("tex.2d.v4.u32.s32 {v0,v1,v2,v3}, [h, {x0,x1}];")), "sample")
	r.must(res)
	h, res := r.TexObjectCreate(r.th, pitched(r.alloc(series(64, func(int) uint32 { return 0x07070707 })), 8, 8),
		driver.TextureDesc{Flags: driver.CU_TRSF_READ_AS_INTEGER}, nil)
	r.must(res)
	in, out, s := r.alloc(series(4, func(int) uint32 { return 1 })), r.alloc(series(4, func(int) uint32 { return 0 })),
		r.newStream()
	r.Hold(uintptr(s))
	r.must(r.LaunchKernel(r.th, f, 1, 1, 1, 1, 1, 1, 0, s, params(uint64(h), in, out)))
	r.must(r.TexObjectDestroy(r.th, h))
	r.Release(uintptr(s))
	r.must(r.StreamSynchronize(r.th, s))
	if got := r.wordsAt(out, 1)[0]; got != 7 {
		t.Errorf("the sample is %d", got)
	}
	for range 2 * mostGone { // the driver forgets them
		h, res := r.TexObjectCreate(r.th, pitched(in, 4, 1), driver.TextureDesc{}, nil)
		r.must(res)
		r.must(r.TexObjectDestroy(r.th, h))
	}
	left := 0
	r.objects.images.Range(func(_, _ any) bool { left++; return true })
	if left > mostGone {
		t.Errorf("%d textures are left", left)
	}
}

// TestCheckTexture finds reads of rows that nothing has written.
func TestCheckTexture(t *testing.T) {
	var found []string
	r := newLab(t, CheckKernels(CheckMemory, func(text string) { found = append(found, text) }))
	p, res := r.MemAlloc(r.th, 512)
	r.must(res)
	r.must(r.MemsetD8(r.th, p, 7, 64))
	h := r.texture(pitched(p, 8, 8), driver.TextureDesc{Flags: driver.CU_TRSF_READ_AS_INTEGER})
	const body = "tex.2d.v4.u32.s32 {v0,v1,v2,v3}, [h, {x0,x1}];"
	got, res := r.sampled(body, h, 1, 1, 0, 0)
	r.must(res)
	if r.takeMisuses() != 0 || got[0] != 7 {
		t.Errorf("a row that was written: %v, %v", got, found)
	}
	_, res = r.sampled(body, h, 1, 2, 0, 0)
	r.must(res)
	if r.takeMisuses() != 1 {
		t.Errorf("a row that was not written: %v", found)
	}
	r.must(r.MemFree(r.th, p))
}

// TestSurfaces stores words, and loads them, within a surface and beyond.
func TestSurfaces(t *testing.T) {
	r := newLab(t)
	a := r.newArray(4, 3, 0, driver.CUDA_ARRAY3D_SURFACE_LDST)
	move := driver.Memcpy2D{SrcMemoryType: driver.CU_MEMORYTYPE_HOST, DstMemoryType: driver.CU_MEMORYTYPE_ARRAY,
		DstArray:     a,
		WidthInBytes: 16, Height: 3}
	back, p := r.pinned(series(12, func(i int) uint32 { return uint32(i) }))
	move.SrcHost = p
	r.must(r.Memcpy2D(r.th, move))
	h, res := r.SurfObjectCreate(r.th, inArray(a))
	r.must(res)
	t.Cleanup(func() { r.SurfObjectDestroy(r.th, h) })
	coordinates := []uint32{4, 1, 0, 0, 16, 1, 0, 0, 0, 3, 0, 0, ^uint32(3), 2, 0, 0}
	for mode, want := range map[string][]uint32{"clamp": {5, 7, 8, 8}, "zero": {5, 0, 0, 0}} {
		got, res := r.sampled("suld.b.2d.b32."+mode+" v0, [h, {x0,x1}];", uint64(h), coordinates...)
		r.must(res)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", mode, got, want)
		}
	}
	_, res = r.sampled("sust.b.2d.b32.zero [h, {x0,x1}], 77;", uint64(h), coordinates...)
	r.must(res)
	r.must(r.Memcpy2D(r.th, driver.Memcpy2D{SrcMemoryType: driver.CU_MEMORYTYPE_ARRAY, SrcArray: a,
		DstMemoryType: driver.CU_MEMORYTYPE_HOST, DstHost: p, WidthInBytes: 16, Height: 3}))
	if want := series(12, func(i int) uint32 {
		if i == 5 {
			return 77
		}
		return uint32(i)
	}); string(back) != want {
		t.Errorf("the array has %v", back)
	}
	if got, res := r.sampled("suq.width.b32 v0, [h];", uint64(h), 0, 0, 0, 0); res != ok || got[0] != 4 {
		t.Errorf("the width is %v, %v", got, res)
	}
	_, res = r.sampled("sust.p.2d.b32.zero [h, {x0,x1}], 88;", uint64(h), 1<<30, 1, 0, 0, 3<<30, 1, 0, 0)
	r.must(res)
	if got, res := r.sampled("suld.b.2d.b32.zero v0, [h, {x0,x1}];", uint64(h), 0, 1, 0, 0); res != ok || got[0] != 4 {
		t.Errorf("stores far beyond the row change its first element: %v, %v", got, res)
	}
	_, res = r.sampled("sust.b.2d.b32.trap [h, {x0,x1}], 77;", uint64(h), coordinates...)
	if res != driver.ResultIllegalAddress {
		t.Errorf("with .trap: %v", res)
	}
	r.takeMisuses()
}

// TestArrayCopies copies boxes of arrays of all kinds there and back, now, on a stream, and in graphs.
func TestArrayCopies(t *testing.T) {
	r := newLab(t)
	for _, c := range []struct{ height, depth, flags uint64 }{{0, 0, 0}, {5, 0, 0}, {5, 3, 0}, {0, 3, layered},
		{5, 3, layered}} {
		a := r.newArray(7, c.height, c.depth, uint32(c.flags))
		h, d := max(c.height, 1), max(c.depth, 1)
		content := []byte(series(int(7*h*d), func(i int) uint32 { return uint32(i) }))
		_, from := r.pinned(string(content))
		target, to := r.pinned(strings.Repeat("x", len(content)))
		in := driver.Memcpy3D{SrcMemoryType: driver.CU_MEMORYTYPE_HOST, SrcHost: from, SrcPitch: 28, SrcHeight: h,
			DstMemoryType: driver.CU_MEMORYTYPE_ARRAY,
			DstArray:      a, WidthInBytes: 28, Height: h, Depth: d}
		// The last column of words of the last plane.
		out := driver.Memcpy3D{SrcMemoryType: driver.CU_MEMORYTYPE_ARRAY, SrcArray: a, SrcXInBytes: 24, SrcZ: d - 1,
			DstMemoryType: driver.CU_MEMORYTYPE_HOST, DstHost: to, DstPitch: 4, DstHeight: h, WidthInBytes: 4,
			Height: h, Depth: 1}
		want := series(int(h), func(i int) uint32 { return uint32((int(d)-1)*7*int(h) + 7*i + 6) })
		s := r.newStream()
		for name, move := range map[string]func(c driver.Memcpy3D) driver.Result{
			"now":         func(c driver.Memcpy3D) driver.Result { return r.Memcpy3D(r.th, c) },
			"on a stream": func(c driver.Memcpy3D) driver.Result { return r.Memcpy3DAsync(r.th, c, s) },
			"as a node": func(c driver.Memcpy3D) driver.Result {
				g, res := r.GraphCreate(r.th, 0)
				r.must(res)
				_, res = r.GraphAddMemcpyNode(r.th, g, nil, &c, r.ctx)
				r.must(res)
				return r.launchGraph(g, s)
			},
			"captured": func(c driver.Memcpy3D) driver.Result {
				r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_GLOBAL))
				r.must(r.Memcpy3DAsync(r.th, c, s))
				g, res := r.StreamEndCapture(r.th, s)
				r.must(res)
				return r.launchGraph(g, s)
			},
		} {
			copy(target, bytes.Repeat([]byte("x"), len(target)))
			r.must(move(in))
			r.must(move(out))
			r.must(r.StreamSynchronize(r.th, s))
			if got := string(target[:len(want)]); got != want {
				t.Errorf("%+v %s: %q, want %q", c, name, got, want)
			}
		}
		in.DstXInBytes = 4
		r.want("too wide", driver.ResultInvalidValue, r.Memcpy3D(r.th, in))
	}
}

// launchGraph launches a graph on a stream.
func (r *lab) launchGraph(g driver.Graph, s driver.Stream) driver.Result {
	r.t.Helper()
	x, res := r.GraphInstantiateWithFlags(r.th, g, 0)
	r.must(res)
	res = r.GraphLaunch(r.th, x, s)
	r.must(r.StreamSynchronize(r.th, s))
	r.must(r.GraphExecDestroy(r.th, x))
	r.must(r.GraphDestroy(r.th, g))
	return res
}

// TestLinearArrayCopies copies bytes of arrays.
func TestLinearArrayCopies(t *testing.T) {
	r := newLab(t)
	a, b := r.newArray(8, 0, 0, 0), r.newArray(8, 0, 0, 0)
	p := r.alloc(strings.Repeat("p", 32))
	r.must(r.MemcpyHtoA(r.th, a, 0, []byte(strings.Repeat("a", 32))))
	r.must(r.MemcpyDtoA(r.th, a, 8, p, 4))
	r.must(r.MemcpyAtoA(r.th, b, 0, a, 4, 16))
	r.must(r.MemcpyAtoD(r.th, p+8, b, 4, 8))
	if got, want := r.read(p, 32), "pppppppppppp"+"aaaa"; got[:16] != want {
		t.Errorf("%q, want %q", got, want)
	}
	back, to := r.pinned(strings.Repeat("x", 16))
	s := r.newStream()
	r.must(r.MemcpyAtoHAsync(r.th, to, b, 0, 16, s))
	r.must(r.StreamSynchronize(r.th, s))
	if string(back) != "aaaappppaaaaaaaa" {
		t.Errorf("the array has %q", back)
	}
	r.must(r.MemcpyHtoAAsync(r.th, a, 16, to, 16, s))
	r.want("beyond the end", driver.ResultInvalidValue, r.MemcpyHtoAAsync(r.th, a, 20, to, 16, s))
	r.want("nothing", ok, r.MemcpyHtoA(r.th, a, 99, nil))

	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_GLOBAL))
	r.must(r.MemcpyHtoAAsync(r.th, a, 16, to, 8, s))
	_, nodes := r.captured(s)
	g, res := r.StreamEndCapture(r.th, s)
	r.must(res)
	p3, res := r.GraphMemcpyNodeGetParams(r.th, nodes[0])
	r.must(res)
	if p3.DstMemoryType != driver.CU_MEMORYTYPE_ARRAY || p3.DstArray != a || p3.DstXInBytes != 16 || p3.DstDevice != 0 {
		t.Errorf("a captured copy has %+v", p3)
	}
	r.must(r.GraphMemcpyNodeSetParams(r.th, nodes[0], &p3))
	r.must(r.launchGraph(g, s))
}

// TestArrayDestroyed destroys an array by two calls at once, the first of which waits, and copies to it meanwhile.
func TestArrayDestroyed(t *testing.T) {
	r := newLab(t, VirtualTime())
	a, res := r.ArrayCreate(r.th, driver.ArrayDescriptor{Width: 4, NumChannels: 1,
		Format: driver.CU_AD_FORMAT_UNSIGNED_INT8})
	r.must(res)
	r.spin(r.newStream(), time.Millisecond)
	th, first := r.otherThread(), make(chan driver.Result)
	go func() { first <- r.ArrayDestroy(th, a) }()
	r.blocked(1)
	r.want("a copy", driver.ResultContextIsDestroyed, r.MemcpyHtoA(r.th, a, 0, []byte("text")))
	r.want("the second call", driver.ResultContextIsDestroyed, r.ArrayDestroy(r.th, a))
	r.Advance(time.Second)
	r.want("the first call", ok, <-first)
	if n := r.takeMisuses(); n != 2 {
		t.Errorf("%d misuses", n)
	}
}

// TestTextureDestroyed destroys textures as surfaces, and everything after a fault of a kernel.
func TestTextureDestroyed(t *testing.T) {
	r := newLab(t)
	a, res := r.ArrayCreate(r.th, driver.ArrayDescriptor{Width: 4, NumChannels: 1,
		Format: driver.CU_AD_FORMAT_UNSIGNED_INT8})
	r.must(res)
	h, res := r.TexObjectCreate(r.th, inArray(a), driver.TextureDesc{}, nil)
	r.must(res)
	r.want("a texture as a surface", ok, r.SurfObjectDestroy(r.th, driver.SurfObject(h)))
	if m := r.Misuses(); len(m) != 1 || m[0].What != "this handle is of kind texture object, not surface object" {
		t.Errorf("misuses: %v", m)
	}
	_, res = r.sampled("tex.2d.v4.u32.s32 {v0,v1,v2,v3}, [h, {x0,x1}];", 0, 1, 1, 0, 0)
	r.want("the kernel", driver.ResultIllegalAddress, res)
	r.want("the texture", driver.ResultIllegalAddress, r.TexObjectDestroy(r.th, h))
	r.want("the array", driver.ResultIllegalAddress, r.ArrayDestroy(r.th, a))
	if n := r.Census(); n["array"] != 0 || n["texture object"] != 0 {
		t.Errorf("open objects: %v", n)
	}
	r.takeMisuses()
}

// TestArrayAttributes makes an array and a texture on a driver whose attributes say that it has none: they do not
// change what it does.
func TestArrayAttributes(t *testing.T) {
	r := newLab(t, DeviceAttribute(driver.CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 0),
		DeviceAttribute(driver.CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 0),
		DeviceAttribute(driver.CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 0))
	r.newArray(4, 0, 0, 0)
	r.texture(pitched(r.alloc(strings.Repeat("x", 256)), 8, 8), driver.TextureDesc{})
}

// TestArrayLife counts the memory of arrays, and what is left of them when their context ends.
func TestArrayLife(t *testing.T) {
	r := newLab(t)
	before, _, res := r.MemGetInfo(r.th)
	r.must(res)
	a, res := r.ArrayCreate(r.th, driver.ArrayDescriptor{Width: 1024, Height: 1024, Format: driver.CU_AD_FORMAT_FLOAT,
		NumChannels: 4})
	r.must(res)
	h, res := r.TexObjectCreate(r.th, inArray(a), driver.TextureDesc{}, nil)
	r.must(res)
	if during, _, _ := r.MemGetInfo(r.th); before-during != 16<<20 {
		t.Errorf("the array takes %d bytes", before-during)
	}
	if n := r.Census(); n["array"] != 1 || n["texture object"] != 1 {
		t.Errorf("open objects: %v", n)
	}
	two, res := r.ArrayGetDescriptor(r.th, a)
	if res != ok || two.Width != 1024 || two.Height != 1024 || two.NumChannels != 4 {
		t.Errorf("%+v, %v", two, res)
	}
	r.must(r.ArrayDestroy(r.th, a))
	r.must(r.TexObjectDestroy(r.th, h))
	if after, _, _ := r.MemGetInfo(r.th); after != before || len(r.Census()) > 1 {
		t.Errorf("%d bytes and %v are left", before-after, r.Census())
	}
	r.want("a destroyed array", driver.ResultContextIsDestroyed, r.ArrayDestroy(r.th, a))
	_, res = r.TexObjectGetTextureDesc(r.th, h)
	r.want("a destroyed texture", driver.ResultInvalidValue, res)
	r.want("a destroyed texture again", ok, r.TexObjectDestroy(r.th, h))
	r.takeMisuses()
	c, res := r.CtxCreateV2(r.th, 0, 0)
	r.must(res)
	a, res = r.ArrayCreate(r.th, driver.ArrayDescriptor{Width: 4, Format: driver.CU_AD_FORMAT_HALF, NumChannels: 2})
	r.must(res)
	_, res = r.TexObjectCreate(r.th, inArray(a), driver.TextureDesc{}, nil)
	r.must(res)
	r.must(r.CtxDestroy(r.th, c))
	r.must(r.CtxSetCurrent(r.th, r.ctx))
	r.want("another context's array", driver.ResultContextIsDestroyed, r.ArrayDestroy(r.th, a))
	if n := r.Census(); n["array"] != 0 || n["texture object"] != 0 {
		t.Errorf("open objects: %v", n)
	}
	r.takeMisuses()
}
