package isa

import (
	"fmt"
	"math"

	"github.com/purecu/purecu/internal/ptx/texture"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// imageRows are the instructions for textures and surfaces. A is the column of the handle, and list 1 has those of the
// coordinates, of which the layer is the first. List 2 has distances in texels, or with list 3 differences of
// coordinates, which choose among sizes of a texture: here each has one.
func imageRows() []*Instruction {
	const (
		geometries = "geom=1d|2d|3d|a1d|a2d "
		results    = "vec=v4 t=f32|s32|u32 "
		bytes      = "vec?=v2|v4 t=b8|b16|b32|b64 "
		outside    = "outside=trap|clamp|zero"
	)
	image := func(name, modifiers, operands string, make func(Variant) vm.Func) *Instruction {
		return &Instruction{Name: name, Modifiers: modifiers, Operands: operands, Kind: vm.Touches, Make: make,
			Lengths: imageLengths}
	}
	return []*Instruction{
		image("tex", geometries+results+"u=f32|s32", "v T:u 2:b32?", sampled),
		image("tex", "base "+geometries+results+"u=f32|s32", "v T:u 2:b32?", sampled),
		image("tex", "level "+geometries+results+"u=f32", "v T:u c:f32 2:b32?", sampled),
		image("tex", "grad "+geometries+results+"u=f32", "v T:u 2:f32 3:f32", sampled),
		image("tld4", "channel=r|g|b|a geom=2d|a2d "+results+"u=f32", "v T:u", gathered),
		image("txq", "what=width|height|depth t=b32", "d T", queried),
		image("suq", "what=width|height|depth t=b32", "d T", queried),
		image("suld", "b "+geometries+"cop?=ca|cg|cs|cv "+bytes+outside, "v T:b32", surfaceLoad),
		image("sust", "b "+geometries+"cop?=wb|cg|cs|wt "+bytes+outside, "T:b32 w", surfaceStore),
		image("sust", "p "+geometries+"cop?=wb|cg|cs|wt vec?=v2|v4 t=b32 "+outside, "T:b32 w", surfaceStore),
		image("sured", "b op=add geom=1d|2d|3d t=u32|s32|u64 "+outside, "T:b32 b", surfaceReduction),
		image("sured", "b op=min|max geom=1d|2d|3d t=u32|s32|u64|s64 "+outside, "T:b32 b", surfaceReduction),
		image("sured", "b op=and|or geom=1d|2d|3d t=b32 "+outside, "T:b32 b", surfaceReduction),
		image("sured", "p op=add|and|or geom=1d|2d|3d t=b32 "+outside, "T:b32 b", surfaceReduction),
		image("sured", "p op=min|max geom=1d|2d|3d t=b32|b64 "+outside, "T:b32 b", surfaceReduction),
	}
}

// imageLengths returns how many coordinates, and how many distances or differences, a variant has.
func imageLengths(v Variant) []int {
	switch v.Get("geom") {
	case "1d":
		return []int{0, 1, 1, 1}
	case "2d":
		return []int{0, 2, 2, 2}
	case "a1d":
		return []int{0, 2, 1, 1}
	case "a2d":
		return []int{0, 4, 2, 2}
	case "3d":
		return []int{0, 4, 4, 4}
	}
	return make([]int, 4)
}

// place has where the coordinates of an instruction are in its list.
type place struct{ first, dims int }

func placeOf(v Variant) place {
	switch v.Get("geom") {
	case "1d":
		return place{0, 1}
	case "2d":
		return place{0, 2}
	case "a1d":
		return place{1, 1}
	case "a2d":
		return place{1, 2}
	}
	return place{0, 3}
}

// words returns the coordinates of a lane, and its layer.
func (p place) words(w *vm.Warp, o *vm.Op, lane int) (at [3]uint32, layer uint32) {
	list := o.X.Lists[1]
	for d := range p.dims {
		at[d] = uint32(w.R[list[p.first+d]][lane])
	}
	if p.first > 0 {
		layer = uint32(w.R[list[0]][lane])
	}
	return at, layer
}

// eachImage calls f for each active lane with the object of its handle, until there is a fault.
func eachImage(w *vm.Warp, o *vm.Op, find func(lane int, handle uint64) *texture.Object,
	f func(lane int, image *texture.Object)) {
	var image *texture.Object
	handle := uint64(0)
	for i := range w.Each {
		if h := w.R[o.A][i]; image == nil || h != handle {
			if image = find(i, h); image == nil {
				return
			}
			handle = h
		}
		if f(i, image); w.Fault != nil {
			return
		}
	}
}

// setValue sets the registers of a vector.
func setValue(w *vm.Warp, o *vm.Op, lane int, v texture.Value) {
	for j, c := range o.X.D[:o.X.N] {
		if c >= 0 {
			w.R[c][lane] = uint64(v[j])
		}
	}
}

// sampled returns the function of tex.
func sampled(v Variant) vm.Func {
	p, whole, grad := placeOf(v), v.Get("u") == "s32", v.Has("grad")
	return func(w *vm.Warp, o *vm.Op) {
		eachImage(w, o, w.Texture, func(i int, image *texture.Object) {
			memory := func(addr, n uint64) ([16]byte, bool) { return w.ReadTexel(o, i, addr, n) }
			at, layer := p.words(w, o, i)
			s := texture.Sample{Layer: layer}
			for d := range p.dims {
				if list := o.X.Lists[2]; list != nil && !grad {
					s.Distance[d] = int32(w.R[list[d]][i])
				}
			}
			if whole {
				setOf(w, o, i, image.Fetch, memory, at, s)
				return
			}
			setOf(w, o, i, image.Read, memory, at, s)
		})
	}
}

// setOf sets the registers of a vector to what a sample returns.
func setOf(w *vm.Warp, o *vm.Op, lane int, read func(texture.Memory, [3]uint32, texture.Sample) (texture.Value, bool),
	memory texture.Memory, at [3]uint32, s texture.Sample) {
	if value, there := read(memory, at, s); there {
		setValue(w, o, lane, value)
	}
}

// gathered returns the function of tld4.
func gathered(v Variant) vm.Func {
	p := placeOf(v)
	channel := map[string]int{"r": 0, "g": 1, "b": 2, "a": 3}[v.Get("channel")]
	return func(w *vm.Warp, o *vm.Op) {
		eachImage(w, o, w.Texture, func(i int, image *texture.Object) {
			memory := func(addr, n uint64) ([16]byte, bool) { return w.ReadTexel(o, i, addr, n) }
			at, layer := p.words(w, o, i)
			if value, there := image.Gather(memory, at, texture.Sample{Layer: layer}, channel); there {
				setValue(w, o, i, value)
			}
		})
	}
}

// queried returns the function of txq and suq.
func queried(v Variant) vm.Func {
	what, surface := v.Get("what"), v.Name == "suq"
	return func(w *vm.Warp, o *vm.Op) {
		find := w.Texture
		if surface {
			find = w.Surface
		}
		eachImage(w, o, find, func(i int, image *texture.Object) {
			w.R[o.D][i] = uint64(image.Extent(what, surface))
		})
	}
}

// surfaceOf returns what an access of a surface means, and a function that finds it for a lane. It reports false if
// there is nothing to access, perhaps after a fault.
func surfaceOf(v Variant) func(w *vm.Warp, o *vm.Op, lane int, image *texture.Object, n uint64) (uint64, bool) {
	p, outside := placeOf(v), v.Get("outside")
	return func(w *vm.Warp, o *vm.Op, lane int, image *texture.Object, n uint64) (uint64, bool) {
		at, layer := p.words(w, o, lane)
		if v.Has("p") { // in texels, also far beyond the row
			x := int64(int32(at[0])) * int64(n)
			at[0] = uint32(max(min(x, math.MaxInt32), math.MinInt32))
		} else if at[0]&(uint32(n)-1) != 0 {
			w.FailLane(vm.Misaligned, lane, fmt.Sprintf("byte %d of a surface is not aligned to %d bytes",
				int32(at[0]), n))
			return 0, false
		}
		addr, inside := image.Element(at, layer, n, outside == "clamp")
		if !inside && outside == "trap" {
			w.FailLane(vm.IllegalAddress, lane, "an access outside of a surface, with .trap")
		}
		return addr, inside
	}
}

// surfaceLoad returns the function of suld.
func surfaceLoad(v Variant) vm.Func {
	size, find := uint64(sizeOf(v.T())/8), surfaceOf(v)
	if v.Get("t") == "b64" && v.Get("vec") == "v4" {
		return nil
	}
	return func(w *vm.Warp, o *vm.Op) {
		columns := vector(o, o.D)
		eachImage(w, o, w.Surface, func(i int, image *texture.Object) {
			n := size * uint64(len(columns))
			var bytes [16]byte
			if addr, inside := find(w, o, i, image, n); inside {
				bytes, _ = w.ReadTexel(o, i, addr, n)
			}
			for j, c := range columns {
				value := uint64(0)
				for k := range size {
					value |= uint64(bytes[uint64(j)*size+k]) << (8 * k)
				}
				if c >= 0 && w.Fault == nil {
					w.R[c][i] = value
				}
			}
		})
	}
}

// surfaceStore returns the function of sust.
func surfaceStore(v Variant) vm.Func {
	size, find, formatted := uint64(sizeOf(v.T())/8), surfaceOf(v), v.Has("p")
	if v.Get("t") == "b64" && v.Get("vec") == "v4" {
		return nil
	}
	return func(w *vm.Warp, o *vm.Op) {
		columns := vector(o, o.B)
		eachImage(w, o, w.Surface, func(i int, image *texture.Object) {
			n := size * uint64(len(columns))
			var bytes [16]byte
			if formatted {
				var value texture.Value
				for j, c := range columns {
					value[j] = uint32(w.R[c][i])
				}
				n, bytes = image.Texel(), image.Encode(value)
			} else {
				for j, c := range columns {
					for k := range size {
						bytes[uint64(j)*size+k] = byte(w.R[c][i] >> (8 * k))
					}
				}
			}
			if addr, inside := find(w, o, i, image, n); inside {
				w.WriteTexel(o, i, addr, n, bytes)
			}
		})
	}
}

// surfaceReduction returns the function of sured. Of .p, the surface says whether there are signs.
func surfaceReduction(v Variant) vm.Func {
	size, find, formatted := uint64(sizeOf(v.T())/8), surfaceOf(v), v.Has("p")
	f := updateOf(v)
	signed := f
	if formatted {
		signed = updateOf(v.with("t", fmt.Sprint("s", 8*size)))
	}
	return func(w *vm.Warp, o *vm.Op) {
		eachImage(w, o, w.Surface, func(i int, image *texture.Object) {
			if n := image.Texel(); formatted && n != size {
				w.FailLane(vm.IllegalAddress, i, fmt.Sprintf("a reduction of %d bytes in a surface whose texels have %d",
					size, n))
				return
			}
			addr, inside := find(w, o, i, image, size)
			if !inside {
				return
			}
			if p := w.Pointer(o, i, addr, size, true); p != nil {
				g := f
				if image.Format == texture.S32 {
					g = signed
				}
				change(p, 0, size, func(old uint64) uint64 { return g(old, w.R[o.B][i], 0) })
			}
		})
	}
}
