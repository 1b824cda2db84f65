// Package texture computes what a GPU's texture units return: which texels a coordinate means, their values, and what
// the filter makes of them. It knows no instruction and no memory: the caller reads the texels.
package texture

import "math"

// Format is the format of a channel, with the numbers of CUarray_format.
type Format uint32

// The formats.
const (
	U8  Format = 1
	U16 Format = 2
	U32 Format = 3
	S8  Format = 8
	S16 Format = 9
	S32 Format = 10
	F16 Format = 16
	F32 Format = 32
)

// Size returns the size of a channel in bytes, or 0 if there is no such format.
func (f Format) Size() uint64 {
	switch f {
	case U8, S8:
		return 1
	case U16, S16, F16:
		return 2
	case U32, S32, F32:
		return 4
	}
	return 0
}

// Float reports whether the channels are floats.
func (f Format) Float() bool { return f == F16 || f == F32 }

// Mode says which texel a coordinate outside of the texture means, with the numbers of CUaddress_mode.
type Mode uint32

// The modes.
const (
	Wrap Mode = iota
	Clamp
	Mirror
	Border
)

// Object is a texture or a surface as kernels see it.
type Object struct {
	Format   Format
	Channels int // 1, 2 or 4
	Layout
	Sampler
}

// Layout says where the texels are.
type Layout struct {
	// Size is the number of texels of each dimension; those that the texture does not have are 1.
	Size [3]uint32
	// Dims is the number of dimensions, and Layers that of the layers, or 0 if it has none.
	Dims   int
	Layers uint32
	// Memory says that the texture is linear memory, in which reads beyond its end return zero.
	Memory bool
	// Addr is the address of the first texel. Pitch and Plane are the bytes from one row or one plane to the next.
	Addr, Pitch, Plane uint64
}

// Sampler says how coordinates are read.
type Sampler struct {
	Modes      [3]Mode
	Linear     bool // the filter
	Normalized bool // coordinates are from 0 to 1
	Integer    bool // integers stay what they are
	SRGB       bool
	Border     [4]float32
}

// Texel returns the size of a texel in bytes.
func (o *Object) Texel() uint64 { return o.Format.Size() * uint64(o.Channels) }

// Address returns the address of a texel.
func (l *Layout) Address(texel uint64, x, y, z uint32) uint64 {
	return l.Addr + uint64(x)*texel + uint64(y)*l.Pitch + uint64(z)*l.Plane
}

// Memory reads n bytes of a texel, or reports false.
type Memory func(addr, n uint64) (texel [16]byte, there bool)

// Value is a texel as registers have it: integers, or the bits of floats.
type Value [4]uint32

// Sample is what an instruction says in addition to coordinates.
type Sample struct {
	Layer    uint32   // of a texture that has layers
	Distance [3]int32 // in texels
}

// Read returns a sample. at are the coordinates, as the bits of floats. It reports false if memory could not be read.
func (o *Object) Read(memory Memory, at [3]uint32, s Sample) (v Value, there bool) {
	if o.Memory { // only integers find anything there
		return Value{}, true
	}
	t := taps{o: o, memory: memory, layer: o.layer(s.Layer)}
	filtered := o.Linear && !o.raw()
	for d := range o.Dims {
		t.axes[d] = o.axis(d, math.Float32frombits(at[d]), int64(s.Distance[d]), filtered)
	}
	if filtered && o.Dims == 1 && o.Layers == 0 && o.Modes[1] == Border {
		t.axes[1] = axis{at: [2]int64{-1, 0}, weight: one / 2} // as on an H200, y is 0
	}
	return t.sum(filtered)
}

// Fetch is Read for integers as coordinates, which are never filtered. As on an H200, texels outside are zero,
// and so are all texels of an array of one dimension without layers.
func (o *Object) Fetch(memory Memory, at [3]uint32, s Sample) (v Value, there bool) {
	t := taps{o: o, memory: memory, layer: o.layer(s.Layer)}
	for d := range o.Dims {
		i := int64(int32(at[d])) + int64(s.Distance[d])
		if i < 0 || i >= int64(o.Size[d]) || o.Dims == 1 && o.Layers == 0 && !o.Memory {
			return Value{}, true
		}
		t.axes[d] = axis{at: [2]int64{i, i}}
	}
	return t.sum(false)
}

// Gather returns one channel of the four texels around a coordinate, in the order of tld4.
func (o *Object) Gather(memory Memory, at [3]uint32, s Sample, channel int) (v Value, there bool) {
	t := taps{o: o, memory: memory, layer: o.layer(s.Layer)}
	for d := range min(o.Dims, 2) {
		x := math.Float32frombits(at[d])
		t.axes[d] = o.axis(d, x, int64(s.Distance[d]), true)
		mirrored := o.Modes[d] == Mirror && o.Normalized && math.Abs(math.Mod(math.Floor(float64(x)), 2)) == 1
		if a := &t.axes[d].at; mirrored {
			a[0], a[1] = a[1], a[0]
		}
	}
	for i, xy := range [4][2]int{{0, 1}, {1, 1}, {1, 0}, {0, 0}} {
		texel, there := t.texel(xy[0], xy[1], 0)
		if !there {
			return v, false
		}
		v[i] = o.Decode(texel)[channel]
	}
	return v, true
}

// Extent returns the width, height or depth, as the instructions that ask for them do. The layers are the last of them.
func (o *Object) Extent(what string, surface bool) uint32 {
	height, depth := uint32(0), uint32(0)
	switch {
	case o.Dims == 1 && o.Layers == 0 && !surface && !o.Memory:
		height = 1
	case o.Dims == 1:
		height = o.Layers
	case o.Layers > 0:
		height, depth = o.Size[1], o.Layers
	case o.Dims == 2:
		height = o.Size[1]
	default:
		height, depth = o.Size[1], o.Size[2]
	}
	switch what {
	case "width":
		return o.Size[0]
	case "height":
		return height
	}
	return depth
}

// Element returns the address of n bytes of a surface, and whether they are in the surface. The first coordinate is in
// bytes. With clamp, those are taken that are nearest.
func (o *Object) Element(at [3]uint32, layer uint32, n uint64, clamp bool) (addr uint64, inside bool) {
	row := uint64(o.Size[0]) * o.Texel()
	if n > row {
		return 0, false
	}
	last := [3]int64{int64((row - n) / n * n), int64(o.Size[1]) - 1, int64(o.Size[2]) - 1}
	if o.Layers > 0 {
		at[2], last[2] = layer, int64(o.Layers)-1
	}
	var where [3]uint64
	for d := range where {
		i := int64(int32(at[d]))
		if clamp {
			i = max(min(i, last[d]), 0)
		}
		if i < 0 || i > last[d] {
			return 0, false
		}
		where[d] = uint64(i)
	}
	return o.Addr + where[0]/n*n + where[1]*o.Pitch + where[2]*o.Plane, true
}

// raw reports whether the channels are integers that stay what they are.
func (o *Object) raw() bool {
	return !o.Format.Float() && (o.Integer || o.Format.Size() == 4)
}

// layer returns the layer that a number means.
func (o *Object) layer(n uint32) uint32 {
	if o.Layers == 0 {
		return 0
	}
	return min(n, o.Layers-1)
}

// The weights of texels have so many bits of fraction.
const (
	fraction = 8
	one      = 1 << fraction
)

// axis has the two texels that a coordinate means in one dimension, or -1 for the border, and the weight of the second.
type axis struct {
	at     [2]int64
	weight int64
}

// axis returns the texels of a coordinate, and of a distance from it.
func (o *Object) axis(d int, x float32, distance int64, linear bool) axis {
	scaled, bits := o.scaled(d, x)
	if !linear {
		i := o.index(d, scaled>>bits+distance)
		return axis{at: [2]int64{i, i}}
	}
	fixed := (scaled<<fraction+1<<(bits-1))>>bits - one/2 // the nearest, or the greater one of two
	i := fixed>>fraction + distance
	a := axis{at: [2]int64{o.index(d, i), o.index(d, i+1)}, weight: fixed & (one - 1)}
	if a.at[0] == a.at[1] { // beyond the outermost texel, it is the only one
		a.weight = 0
	}
	return a
}

// scaled returns a coordinate in texels, as an integer with so many bits of fraction. As on an H200, a normalized
// coordinate has 21 bits of fraction before it is multiplied.
func (o *Object) scaled(d int, x float32) (scaled int64, bits int) {
	const most = 1 << 29 // beyond it, everything is far outside
	v := float64(x)
	if x != x {
		v = 0
	}
	if !o.Normalized {
		const bits = 24
		return int64(math.Floor(max(min(v, most), -most) * (1 << bits))), bits
	}
	const normalized, unit = 21, 1 << 21
	switch o.Modes[d] {
	case Wrap, Mirror:
		v -= 2 * math.Floor(v/2)
	default:
		v = max(min(v, 4), -4)
	}
	if v != v { // it was infinite
		v = 0
	}
	n := int64(math.Floor(v * unit))
	switch {
	case o.Modes[d] == Wrap:
		n %= unit
	case o.Modes[d] == Mirror && n > unit:
		n = 2*unit - n
	}
	return n * int64(o.Size[d]), normalized
}

// index returns the texel that is meant by an index, which may be outside, or -1 for the border.
func (o *Object) index(d int, i int64) int64 {
	n := int64(o.Size[d])
	if i >= 0 && i < n {
		return i
	}
	mode := o.Modes[d]
	if n == 0 { // the texture is empty
		return -1
	}
	if !o.Normalized && (mode == Wrap || mode == Mirror) {
		mode = Clamp
	}
	switch mode {
	case Border:
		return -1
	case Wrap:
		return (i%n + n) % n
	case Mirror:
		if i = (i%(2*n) + 2*n) % (2 * n); i >= n {
			i = 2*n - 1 - i
		}
		return i
	}
	return max(min(i, n-1), 0)
}

// taps are the texels of a sample.
type taps struct {
	o      *Object
	memory Memory
	layer  uint32
	axes   [3]axis
}

// texel returns the bytes of a texel, by which of the two of each axis is meant.
func (t *taps) texel(x, y, z int) (texel [16]byte, there bool) {
	o := t.o
	var at [3]uint32
	for d, i := range [3]int{x, y, z} {
		switch k := t.axes[d].at[i]; {
		case k < 0:
			return o.border(), true
		case d < o.Dims:
			at[d] = uint32(k)
		}
	}
	if o.Layers > 0 {
		at[2] = t.layer
	}
	return t.memory(o.Address(o.Texel(), at[0], at[1], at[2]), o.Texel())
}

// sum returns the weighted sum of the texels, or the one that there is.
func (t *taps) sum(filtered bool) (v Value, there bool) {
	if !filtered {
		texel, there := t.texel(0, 0, 0)
		return t.o.Decode(texel), there
	}
	var list [8]tap
	weights := t.weights()
	for i := range list {
		if weights[i] == 0 {
			continue
		}
		if list[i].texel, there = t.texel(i&1, i>>1&1, i>>2); !there {
			return v, false
		}
		list[i].weight = weights[i]
	}
	for c := range t.o.Channels {
		v[c] = t.o.filter(&list, c)
	}
	return v, true
}

// border returns the bytes of the border: those of integers that stay what they are are the bits of the floats.
func (o *Object) border() (texel [16]byte) {
	for c := range o.Channels {
		x := float64(o.Border[c])
		bits := math.Float32bits(o.Border[c])
		switch {
		case o.raw() || o.Format == F32:
		case o.Format == F16:
			bits = uint32(cutHalf(o.Border[c]))
		case o.Format == U8 || o.Format == U16: // cut off, as by an H200
			bits = uint32(min(max(x, 0)*float64(o.most()+1), float64(o.most())))
		default:
			bits = uint32(int32(math.Round(max(min(x, 1), -1) * float64(o.most()))))
		}
		o.put(&texel, c, bits)
	}
	return texel
}

// most returns the integer that stands for 1.
func (o *Object) most() int64 {
	n := int64(1) << (8 * o.Format.Size())
	if o.Format == S8 || o.Format == S16 {
		n /= 2
	}
	return n - 1
}

// put sets the bits of a channel of a texel, and get returns them.
func (o *Object) put(texel *[16]byte, c int, bits uint32) {
	size := o.Format.Size()
	for i := range size {
		texel[uint64(c)*size+i] = byte(bits >> (8 * i))
	}
}

func (o *Object) get(texel *[16]byte, c int) (bits uint32) {
	size := o.Format.Size()
	for i := range size {
		bits |= uint32(texel[uint64(c)*size+i]) << (8 * i)
	}
	return bits
}

// Decode returns the value of a texel. Channels that the format does not have are zero.
func (o *Object) Decode(texel [16]byte) (v Value) {
	for c := range o.Channels {
		v[c] = o.channel(o.get(&texel, c), c)
	}
	return v
}

// channel returns the value of a channel with an index.
func (o *Object) channel(bits uint32, c int) uint32 {
	x := float32(0)
	switch o.Format {
	case U8, U16:
		most := uint32(1)<<(8*o.Format.Size()) - 1
		if o.Integer {
			return bits
		}
		if x = float32(bits) / float32(most); o.srgb(c) {
			x = linear(x)
		}
	case S8:
		if o.Integer {
			return uint32(int32(int8(bits)))
		}
		x = max(float32(int8(bits))/127, -1)
	case S16:
		if o.Integer {
			return uint32(int32(int16(bits)))
		}
		x = max(float32(int16(bits))/32767, -1)
	case F16:
		x = half(uint16(bits))
	default:
		return bits
	}
	return math.Float32bits(x)
}

// srgb reports whether a channel is an intensity of sRGB.
func (o *Object) srgb(c int) bool { return o.SRGB && o.Format == U8 && c < 3 }

// linear returns the intensity of a value of sRGB, with 8 bits, as an H200 has it.
func linear(x float32) float32 {
	y := float64(x) / 12.92
	if x > 0.04045 {
		y = math.Pow((float64(x)+0.055)/1.055, 2.4)
	}
	return math.Float32frombits((math.Float32bits(float32(y)) + 1<<15) &^ (1<<16 - 1))
}

// half returns the value of a float of 16 bits.
func half(h uint16) float32 {
	sign, exponent, mantissa := uint32(h)>>15<<31, uint32(h)>>10&31, uint32(h)&0x3ff
	switch exponent {
	case 0:
		return math.Float32frombits(math.Float32bits(float32(mantissa)/(1<<24)) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | mantissa<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | mantissa<<13)
}

// Encode returns the texel with a value, for a formatted store: integers are limited to what the format has.
func (o *Object) Encode(v Value) (texel [16]byte) {
	for c := range o.Channels {
		bits := v[c]
		switch o.Format {
		case U8, U16:
			bits = min(bits, uint32(o.most()))
		case S8, S16:
			most := int32(o.most())
			bits = uint32(max(min(int32(bits), most), -most-1))
		case F16:
			bits = uint32(toHalf(math.Float32frombits(bits)))
		}
		o.put(&texel, c, bits)
	}
	return texel
}

// cutHalf returns the nearest float of 16 bits that is not larger, apart from the sign.
func cutHalf(x float32) uint16 {
	h := toHalf(x)
	if h&0x7fff > 0 && math.Abs(float64(half(h))) > math.Abs(float64(x)) {
		h--
	}
	return h
}

// toHalf returns the nearest float of 16 bits, the even one of two.
func toHalf(x float32) uint16 {
	bits := math.Float32bits(x)
	sign, a := uint16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case a > 0x7f800000:
		return 0x7fff
	case a >= 0x47800000-0x1000:
		return sign | 0x7c00
	case a < 0x38800000: // the result is subnormal, or 0
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(a))*(1<<24)))
	}
	a -= 112 << 23
	return sign | uint16((a+0xfff+a>>13&1)>>13)
}
