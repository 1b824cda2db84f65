package compile

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/tensormap"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// TestWarpgroups executes products of warpgroups with all types, and copies of boxes of tensors.
func TestWarpgroups(t *testing.T) {
	for _, e := range warpgroups() {
		e.check(t)
	}
}

// warpgroups returns the examples of TestWarpgroups.
func warpgroups() (list []*example) {
	for _, row := range isa.All() {
		for _, v := range row.Variants() {
			switch {
			case v.Special == "warpgroup" && strings.HasPrefix(v.Get("shape"), "m64n8k"):
				list = append(list, groupProductOf(v))
			case v.Special == "tensor":
				list = append(list, tensorCopyOf(v))
			}
		}
	}
	return append(list, &example{name: "wgmma.fence", grid: 1, block: 32, text: textHeader + `.entry k() { .reg .b64 d;
		.shared .align 128 .b8 s[128]; mov.u64 d, s; wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned;
		wgmma.wait_group.sync.aligned 1; prefetch.tensormap [d]; prefetch.param.tensormap [d];
		fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [d], 128; ret; }`,
		prepare: func() (memory, func(*vm.Fault) string) { return memory{}, faulty }})
}

// faulty says what fault there was, if any.
func faulty(fault *vm.Fault) string {
	if fault != nil {
		return fmt.Sprintf("%+v", fault)
	}
	return ""
}

// bitsOfRow returns the bits of element x of a row of a factor, and its value.
func bitsOfRow(kind string, row, x int) (uint64, float64) {
	n := row*37 + x*11
	switch kind {
	case "u8":
		return uint64(n & 0xff), float64(n & 0xff)
	case "s8":
		return uint64(n & 0xff), float64(int8(n))
	case "b1":
		n = row*73 + x*x
	}
	return small(kind, n)
}

// groupProductOf returns the product of the 16 rows of a warp, which are in registers, and 8 columns in shared memory.
func groupProductOf(v isa.Variant) *example {
	kinds := [3]string{v.Get("dt"), v.T(), v.Get("u")}
	size := bitsOfElement(v.T())
	k, lengths := 256/size, v.Lengths(v)
	in := make([]byte, 32*4*4+8*32+32*4*4) // the registers of the first factor, the second factor, the sums
	var a [16][256]float64
	var b [8][256]float64
	set := func(at, bit int, v uint64) {
		word := in[at+bit/32*4:]
		binary.LittleEndian.PutUint32(word, binary.LittleEndian.Uint32(word)|uint32(v<<(bit%32)))
	}
	for x := range k {
		for row := range 16 {
			v, value := bitsOfRow(kinds[1], row, x)
			word := x * size / 32 // of the row
			lane := row%8*4 + word%4
			a[row][x] = value
			set(lane*16+(row/8+word/4*2)*4, x*size%32, v)
		}
		for column := range 8 {
			v, value := bitsOfRow(kinds[2], column+3, x)
			b[column][x] = value
			byteOf := x * size / 8
			set(512+byteOf/16*128+column*16, x*size-byteOf/16*128, v)
		}
	}
	first := 5.0
	if kinds[0] == "s32" {
		first = math.MaxInt32 - 100
	}
	for i := range 32 * 4 {
		one, _ := small("f16", 6) // 3
		bits := one | one<<16
		switch kinds[0] {
		case "f32":
			bits = uint64(math.Float32bits(5))
		case "s32":
			bits = uint64(math.MaxInt32 - 100)
		}
		binary.LittleEndian.PutUint32(in[768+4*i:], uint32(bits))
	}
	if kinds[0] == "f16" {
		first = 3
	}
	var text strings.Builder
	fmt.Fprintf(&text, `%s.entry k(.param .u64 in, .param .u64 out) { .reg .b32 d<4>, a<4>, t, x;
		.reg .b64 i, o, y, z, db; .reg .pred p; .shared .align 128 .b8 s[256];
		ld.param.u64 i, [in]; ld.param.u64 o, [out]; mov.u32 t, %%tid.x; mul.wide.u32 y, t, 16;
		add.u64 o, o, y; add.u64 y, y, i; ld.global.v4.b32 {a0,a1,a2,a3}, [y]; ld.global.v4.b32 {d0,d1,d2,d3}, [y+768];
		mul.wide.u32 y, t, 8; add.u64 i, i, y; ld.global.b64 z, [i+512]; mov.u64 db, s; add.u64 y, y, db; st.shared.b64 [y], z;
		bar.sync 0; shr.u64 db, db, 4; or.b64 db, db, %d; setp.eq.u32 p, t, t;
		%s {`, textHeader, 128>>4<<16, v)
	constants := map[string]string{"f16": ", 1, -1, 0", "bf16": ", -1, 1, 0", "tf32": ", -1, -1", "e4m3": ", 1, -1",
		"e5m2": ", 1, 1"}
	negated := strings.Count(constants[v.T()], "-") == 1
	var names []string
	for i := range lengths[0] {
		names = append(names, fmt.Sprint("d", i))
	}
	fmt.Fprintf(&text, "%s}, {a0,a1,a2,a3}, db, p%s; st.global.v4.b32 [o], {d0,d1,d2,d3}; ret; }",
		strings.Join(names, ","),
		constants[v.T()])
	return &example{name: v.String(), text: text.String(), grid: 1, block: 32, params: []uint64{1 << 32, 1 << 33},
		prepare: func() (memory, func(*vm.Fault) string) {
			out := make([]byte, 32*16)
			return memory{1 << 32: in, 1 << 33: out}, func(fault *vm.Fault) string {
				for lane := range 32 {
					for i := range 4 {
						row, column, want := lane/4+i/2*8, lane%4*2+i%2, 0.0
						for x := range k {
							want += a[row][x] * b[column][x]
						}
						if negated {
							want = -want
						}
						if want += first; v.Has("satfinite") {
							want = min(want, math.MaxInt32)
						}
						got := uint64(binary.LittleEndian.Uint32(out[lane*16+4*i:]))
						if kinds[0] == "f16" {
							got = uint64(binary.LittleEndian.Uint16(out[lane*16+2*i:]))
						}
						if kinds[0] == "s32" && !v.Has("satfinite") {
							want = float64(int32(int64(want)))
						}
						if g := valueOf(kinds[0], got); g != want && fault == nil {
							return fmt.Sprintf("element (%d, %d) is %g, want %g", row, column, g, want)
						}
					}
				}
				return faulty(fault)
			}
		}}
}

// tensorCopyOf returns a copy in which each lane has a box of 16 bytes.
func tensorCopyOf(v isa.Variant) *example {
	const base, tensor, other, old = 1 << 32, 1 << 33, 10, 12
	rank := isa.Dimensions(v)
	m := tensormap.Map{Type: 2, Rank: rank, Address: tensor}
	for i := range rank {
		m.Sizes[i], m.Strides[i], m.Box[i], m.Steps[i] = 128, 512, 1, 1
	}
	m.Box[0] = 4
	list := []string{"[a]", "[m, {" + strings.Join([]string{"c", "0", "0", "0", "0"}[:rank], ",") + "}]", "[mb]",
		"1", "m"}
	operands := map[string][]string{"m M n": list[:3], "m M n c:b16": list[:4], "M n": {list[1], list[0]},
		"M": {list[1]}, "m M n e:b64": {list[0], list[1], list[2], list[4]}, "m M n c:b16 e:b64": list,
		"M n e:b64": {list[1], list[0], list[4]},
		"M e:b64":   {list[1], list[4]}}[v.Instruction.Operands]
	loads := strings.HasPrefix(v.Get("space"), "shared")
	text := textHeader + `.entry k(.param .u64 map, .param .u64 out) { .reg .b64 m, a, o, y; .reg .b32 c, t, x; .reg .pred p;
		.shared .align 128 .b8 s[4096]; .shared .b64 mb; ld.param.u64 m, [map]; ld.param.u64 o, [out]; mov.u32 t, %tid.x;
		mul.wide.u32 y, t, 4; add.u64 o, o, y; shl.b32 c, t, 2; mov.u64 a, s; mul.wide.u32 y, t, 128; add.u64 a, a, y;
		st.shared.v4.b32 [a], {10,10,10,10}; setp.eq.u32 p, t, 0; @p mbarrier.init.shared.b64 [mb], 32; bar.sync 0;
		mbarrier.expect_tx.shared.b64 [mb], 16;
		` + v.String() + " " + strings.Join(operands, ", ") + `; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
		ld.shared.u32 x, [a+4]; st.global.u32 [o], x; ret; }`
	return &example{name: v.String(), text: text, grid: 1, block: 32, params: []uint64{base, base + 128},
		prepare: func() (memory, func(*vm.Fault) string) {
			words, data := make([]uint64, 32), make([]byte, 512)
			encoded := m.Encode()
			copy(words, encoded[:])
			for i := range 128 {
				binary.LittleEndian.PutUint32(data[4*i:], old)
			}
			return memory{base: vm.BytesOf(words), tensor: data}, func(fault *vm.Fault) string {
				want := map[string]uint32{"": other, "add": old + other, "min": other, "max": old, "inc": 0,
					"dec": other,
					"and": old & other, "or": old | other, "xor": old ^ other}[v.Get("op")]
				for lane := range 32 {
					got := binary.LittleEndian.Uint32(data[lane*16+4:])
					inShared := uint32(words[16+lane/2] >> (lane % 2 * 32))
					switch {
					case fault != nil:
					case loads && inShared != old:
						return fmt.Sprintf("lane %d has got %d", lane, inShared)
					case !loads && v.Get("space") == "global" && got != want:
						return fmt.Sprintf("the tensor has %d for lane %d, want %d", got, lane, want)
					}
				}
				return faulty(fault)
			}
		}}
}
