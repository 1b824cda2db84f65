package compile

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/texture"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// images has an array of 512 bytes at 1<<32: of floats, or with the handle 4, of elements of four integers, or with 1,
// of integers of 8 bits.
type images struct{}

// Texture implements vm.Images.
func (images) Texture(handle uint64) *texture.Object {
	o := &texture.Object{Format: texture.F32, Channels: 1, Layout: texture.Layout{Size: [3]uint32{8, 4, 4}, Dims: 3,
		Addr: 1 << 32, Pitch: 32, Plane: 128},
		Sampler: texture.Sampler{Modes: [3]texture.Mode{texture.Clamp, texture.Clamp}}}
	switch handle {
	case 2, 3: // integers with and without signs
		o.Format = map[uint64]texture.Format{2: texture.S32, 3: texture.U32}[handle]
	case 8, 9: // pairs of them
		o.Format, o.Channels, o.Size[0] = map[uint64]texture.Format{8: texture.S32, 9: texture.U32}[handle], 2, 4
	case 4:
		o.Format, o.Channels, o.Size, o.Pitch, o.Plane = texture.U32, 4, [3]uint32{4, 4, 2}, 64, 256
	case 1:
		o.Format, o.Size, o.Plane = texture.U8, [3]uint32{32, 4, 4}, 128
	}
	return o
}

// Surface implements vm.Images.
func (i images) Surface(handle uint64) *texture.Object { return i.Texture(handle) }

// imageWord is a word of the array.
func imageWord(i int) uint32 { return uint32(i)*0x2040811 ^ 0x81234567 }

// imageExample returns an example of an instruction: its threads have the coordinates x, y and z, as integers and as
// floats fx, fy and fz. want returns the words v0 to v3 of a thread, or is nil if there is a fault. stored changes the
// array as the kernel does.
func imageExample(handle uint64, body string, want func(x, y, z int) [4]uint32, stored func(array []byte)) *example {
	text := textHeader + `.entry k(.param .u64 h, .param .u64 out) { .reg .b32 t,x,y,z,v0,v1,v2,v3; .reg .b16 s;
		.reg .f32 fx,fy,fz; .reg .b64 h,o,w; ld.param.u64 h,[h]; ld.param.u64 o,[out]; mov.u32 t,%tid.x;
		mul.wide.u32 w,t,16; add.u64 o,o,w; and.b32 x,t,7; shr.u32 y,t,3; mov.u32 z,1;
		cvt.rn.f32.u32 fx,x; cvt.rn.f32.u32 fy,y; cvt.rn.f32.u32 fz,z;
	mov.u32 v0,0; mov.u32 v1,0; mov.u32 v2,0; mov.u32 v3,0;
		` + body + ` st.global.v4.b32 [o],{v0,v1,v2,v3}; ret; }`
	return &example{name: body, text: text, grid: 1, block: 32, params: []uint64{handle, 1 << 40},
		prepare: func() (memory, func(*vm.Fault) string) {
			array, results := make([]byte, 512), make([]uint64, 64)
			for i := range 128 {
				binary.LittleEndian.PutUint32(array[4*i:], imageWord(i))
			}
			after := slices.Clone(array)
			if stored != nil {
				stored(after)
			}
			return memory{1 << 32: array, 1 << 40: vm.BytesOf(results)}, func(fault *vm.Fault) string {
				switch {
				case want == nil && (fault == nil || fault.Code != vm.IllegalAddress):
					return fmt.Sprintf("%+v", fault)
				case want == nil:
					return ""
				case fault != nil:
					return fmt.Sprintf("%+v", fault)
				}
				for i := range 32 {
					w, got := want(i&7, i>>3, 1), [4]uint32{}
					for c := range got {
						got[c] = binary.LittleEndian.Uint32(vm.BytesOf(results)[16*i+4*c:])
					}
					if got != w {
						return fmt.Sprintf("thread %d has %x, want %x", i, got, w)
					}
				}
				if string(array) != string(after) {
					return fmt.Sprintf("the array has %x, want %x", array, after)
				}
				return ""
			}
		}}
}

// imageExamples are examples of instructions for textures and surfaces.
func imageExamples() (list []*example) {
	add := func(handle uint64, body string, want func(x, y, z int) [4]uint32, stored func(array []byte)) {
		list = append(list, imageExample(handle, body, want, stored))
	}
	float := func(word uint32) [4]uint32 { return [4]uint32{word} }
	texel := func(x, y, z int) [4]uint32 { return float(imageWord(32*z + 8*y + x)) }
	for _, t := range []string{"f32", "s32", "u32"} {
		for _, form := range []string{
			"tex.3d.v4.%s.f32 {v0,v1,v2,v3},[h,{fx,fy,fz,fz}];", "tex.3d.v4.%s.s32 {v0,v1,v2,v3},[h,{x,y,z,z}];",
			"tex.base.3d.v4.%s.f32 {v0,v1,v2,v3},[h,{fx,fy,fz,fz}];",
			"tex.base.3d.v4.%s.s32 {v0,v1,v2,v3},[h,{x,y,z,z}];",
			"tex.level.3d.v4.%s.f32 {v0,v1,v2,v3},[h,{fx,fy,fz,fz}],fx;",
			"tex.grad.3d.v4.%s.f32 {v0,v1,v2,v3},[h,{fx,fy,fz,fz}],{fx,fx,fx,fx},{fy,fy,fy,fy};",
		} {
			add(0, fmt.Sprintf(form, t), texel, nil)
		}
		add(0, "mov.u32 v0,-1; tex.3d.v4."+t+".f32 {v0,v1,v2,v3},[h,{fx,fy,fz,fz}],{v0,z,v1,v1};",
			func(x, y, z int) [4]uint32 { return texel(max(x-1, 0), min(y+1, 3), z) }, nil)
		for c, name := range []string{"r", "g", "b", "a"} {
			add(4, "tld4."+name+".2d.v4."+t+".f32 {v0,v1,v2,v3},[h,{fx,fy}];", func(x, y, _ int) (v [4]uint32) {
				for i, at := range [4][2]int{{x - 1, y}, {x, y}, {x, y - 1}, {x - 1, y - 1}} {
					v[i] = imageWord(16*max(at[1], 0) + 4*min(max(at[0], 0), 3) + c)
				}
				return v
			}, nil)
		}
	}
	for i, what := range []string{"width", "height", "depth"} {
		for _, name := range []string{"txq", "suq"} {
			for handle, size := range map[uint64][]uint32{0: {8, 4, 4}, 4: {4, 4, 2}} {
				add(handle, name+"."+what+".b32 v0,[h];",
					func(int, int, int) [4]uint32 { return [4]uint32{size[i]} }, nil)
			}
		}
	}
	return slices.Concat(list, surfaceExamples(), reductionExamples())
}

// reductionExamples are examples of sured, within a surface and beyond.
func reductionExamples() (list []*example) {
	type form struct {
		handle        uint64
		kind, op, typ string
		computed      string // what the type means
	}
	var forms []form
	for op, types := range map[string]string{"add": "u32 s32 u64", "min": "u32 s32 u64 s64", "max": "u32 s32 u64 s64",
		"and": "b32", "or": "b32"} {
		for _, typ := range strings.Fields(types) {
			forms = append(forms, form{1, "b", op, typ, typ})
		}
		forms = append(forms, form{2, "p", op, "b32", "s32"}, form{3, "p", op, "b32", "u32"})
		if op[0] == 'm' {
			forms = append(forms, form{8, "p", op, "b64", "s64"}, form{9, "p", op, "b64", "u64"})
		}
	}
	nothing := func(int, int, int) (v [4]uint32) { return v }
	for _, f := range forms {
		size := int(syntax.TypeSize(f.typ))
		scale, register := size, map[int]string{4: "v0", 8: "w"}[size]
		if f.kind == "p" {
			scale = 1
		}
		for _, mode := range []string{"trap", "clamp", "zero"} {
			for _, first := range []int{0, 5, -3} {
				row := 32 / size
				results := nothing
				if mode == "trap" && (first+8 > row || first < 0) {
					results = nil
				}
				body := fmt.Sprintf("mad.lo.s32 x,x,%d,%d; mad.lo.u32 v0,t,0x9e3779b9,0x71234567; mul.lo.u32 v1,v0,0x85ebca6b; "+
					"mov.b64 w,{v0,v1}; sured.%s.%s.3d.%s.%s [h,{x,y,z,z}],%s; mov.u32 v0,0; mov.u32 v1,0;", scale, first*scale,
					f.kind, f.op, f.typ, mode, register)
				list = append(list, imageExample(f.handle, body, results, func(array []byte) {
					for i := range 32 {
						x := i&7 + first
						if inside := min(max(x, 0), row-1); inside != x && mode != "clamp" {
							continue
						} else {
							x = inside
						}
						at := array[128+i>>3*32+x*size:]
						v0 := uint32(i)*0x9e3779b9 + 0x71234567
						if size == 4 {
							binary.LittleEndian.PutUint32(at, uint32(updated(f.op, f.computed,
								uint64(binary.LittleEndian.Uint32(at)), uint64(v0))))
						} else {
							binary.LittleEndian.PutUint64(at, updated(f.op, f.computed, binary.LittleEndian.Uint64(at),
								uint64(v0*0x85ebca6b)<<32|uint64(v0)))
						}
					}
				}))
			}
		}
	}
	return list
}

// surfaceExamples are examples of loads and stores of all sizes, within a surface and beyond.
func surfaceExamples() (list []*example) {
	nothing := func(int, int, int) (v [4]uint32) { return v }
	for log, size := range []int{1, 2, 4, 8} {
		bits := 8 * size
		register := []string{"s", "s", "v0", "w"}[log]
		load := []string{"cvt.u32.u16 v0,s;", "cvt.u32.u16 v0,s;", "", "mov.b64 {v0,v1},w;"}[log]
		store := []string{"cvt.u16.u32 s,v0;", "cvt.u16.u32 s,v0;", "", "mov.b64 w,{v0,v1};"}[log]
		for _, mode := range []string{"trap", "clamp", "zero"} {
			for _, beyond := range []bool{false, true} {
				first, row := 0, 32/size // the first element, and how many a row has
				if beyond {
					first = row + 3
				}
				at := func(x, y, z int) (offset int, inside bool) {
					i := min(x+first, row-1)
					return 128*z + 32*y + i*size, x+first < row || mode == "clamp"
				}
				outside := first+8 > row
				x := fmt.Sprintf("mad.lo.u32 x,x,%d,%d; ", size, first*size)
				loads := func(x, y, z int) (v [4]uint32) {
					offset, inside := at(x, y, z)
					array := make([]byte, 520)
					for i := range 128 {
						binary.LittleEndian.PutUint32(array[4*i:], imageWord(i))
					}
					for i := 0; i < size && inside; i++ {
						v[i/4] |= uint32(array[offset+i]) << (8 * (i % 4))
					}
					return v
				}
				stores := nothing
				if mode == "trap" && outside {
					loads, stores = nil, nil
				}
				list = append(list, imageExample(1,
					x+fmt.Sprintf("suld.b.3d.b%d.%s %s,[h,{x,y,z,z}]; ", bits, mode, register)+
						load,
					loads, nil))
				// Threads whose places are the same store the same.
				body := x + fmt.Sprintf("min.u32 v0,x,%d; mad.lo.u32 v0,v0,0x1357,y; mul.lo.u32 v1,v0,0x8123457; %s "+
					"sust.b.3d.b%d.%s [h,{x,y,z,z}],%s; mov.u32 v0,0; mov.u32 v1,0;", 32-size, store, bits, mode,
					register)
				list = append(list, imageExample(1, body, stores, func(array []byte) {
					for i := range 32 {
						offset, inside := at(i&7, i>>3, 1)
						v0 := uint32(min((i&7+first)*size, 32-size)*0x1357 + i>>3)
						word := uint64(v0*0x8123457)<<32 | uint64(v0)
						for j := 0; j < size && inside; j++ {
							array[offset+j] = byte(word >> (8 * j))
						}
					}
				}))
				if size == 4 {
					formatted := strings.NewReplacer("sust.b.", "sust.p.", "mad.lo.u32 x,x,4,", "mad.lo.u32 x,x,1,",
						fmt.Sprint(first*4, ";"), fmt.Sprint(first, ";"),
						"min.u32 v0,x,28", "min.u32 v0,x,7").Replace(body)
					list = append(list, imageExample(0, formatted, stores, func(array []byte) {
						for i := range 32 {
							if offset, inside := at(i&7, i>>3, 1); inside {
								v0 := uint32(min(i&7+first, 7)*0x1357 + i>>3)
								binary.LittleEndian.PutUint32(array[offset:], v0)
							}
						}
					}))
				}
			}
		}
	}
	return list
}
