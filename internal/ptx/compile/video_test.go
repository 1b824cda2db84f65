package compile

import (
	"strings"
	"testing"
)

// recordedVideo has results of an H200 (driver 580.159.04) that are not those that the manual describes: an
// instruction, its operands, and the result. The lowest 13 bits of a conversion to tf32 are not compared.
var recordedVideo = []struct {
	ins           string
	a, b, c, want uint64
}{
	// vadd, vsub and vabsdiff are not limited to the largest number of .u32.
	{"vadd.u32.s32.u32.sat", 0x7fffffff, 0xfffffff7, 0, 0x7ffffff6},
	{"vadd.u32.u32.u32.sat", 0xdff6d4c9, 0xbeff7f7f, 0, 0x9ef65448},
	{"vsub.u32.u32.s32.sat", 0xcfb8607f, 0xc59abc01, 0, 0x0a1da47e},
	{"vabsdiff.u32.s32.u32.sat", 0xfffffff4, 0xfffffffe, 0, 0x0000000a},
	{"vadd.u32.u32.u32.sat.add", 0x80000000, 0x80000000, 0x80000000, 0x80000000},

	// A negative number is larger than c for the type .u32. vadd and vsub have 32 bits with a sign.
	{"vadd.u32.s32.s32.max", 0xee17f57e, 0xfffffff6, 0xfffffff6, 0xee17f574},
	{"vadd.u32.u32.u32.max", 0x00000001, 0x7fffffff, 0x80008000, 0x80000000},
	{"vadd.u32.u32.u32.sat.max", 0xa403d264, 0xfffffff2, 0x0000000d, 0xa403d256},
	{"vsub.u32.u32.s32.min", 0x7bff3d80, 0xe130d8af, 0xdf7d2a2d, 0xdf7d2a2d},
	{"vsub.u32.u32.s32.sat.max", 0xffffffef, 0xffffffff, 0xfffffff2, 0xfffffff0},
	{"vmax.u32.s32.s32.min", 0x80000001, 0xbf000000, 0xfffffff4, 0xfffffff4},
	{"vmin.u32.u32.s32.max", 0xfffffff7, 0xfffffff7, 0xfffffffc, 0xfffffff7},
	{"vshr.u32.s32.u32.wrap.max", 0xb957dab1, 0x149923d3, 0xffffffff, 0xfffff72a},

	// The others have all of their bits in a comparison.
	{"vabsdiff.u32.s32.u32.max", 0x8efb010a, 0xffffffff, 0xe7e3157c, 0x7104fef5},
	{"vabsdiff.u32.s32.u32.sat.max", 0xba098894, 0xffffffec, 0x57cfa70f, 0x45f67758},
	{"vabsdiff.s32.s32.s32.min", 0x7fffffff, 0xffffff83, 0xffffff83, 0xffffff83},
	{"vabsdiff.s32.s32.u32.min", 0xfffffffe, 0xfffffffe, 0x3eb42870, 0x3eb42870},
	{"vmax.s32.u32.u32.max", 0xbc80c380, 0x00000001, 0xbe82ab33, 0xbc80c380},
	{"vmin.s32.u32.u32.min", 0x80008004, 0xc0350401, 0x00000004, 0x00000004},
	{"vshr.s32.u32.u32.clamp.max", 0xffffffed, 0x00000000, 0x00000013, 0xffffffed},
	{"vshl.u32.u32.u32.clamp.max", 0x0000000f, 0xbfc00000, 0x00000006, 0x00000000},
	{"vshl.u32.u32.u32.wrap.min", 0xaa2f4668, 0xaa2f4668, 0xd517a335, 0xd517a335},
	{"vshl.u32.s32.u32.clamp.max", 0x80000000, 0x00000009, 0x00000010, 0x00000000},
	{"vshl.s32.s32.u32.clamp.min", 0xbf81ffff, 0x80000000, 0x80000000, 0x00000000},

	// vshl has 34 bits for .sat.
	{"vshl.s32.s32.u32.sat.clamp", 0x37936898, 0x80000001, 0, 0x00000000},
	{"vshl.s32.s32.u32.sat.clamp", 0x256b3416, 0x256b3416, 0, 0x80000000},
	{"vshl.s32.s32.u32.sat.clamp", 0xfffffffd, 0xfffffff3, 0, 0x7fffffff},
	{"vshl.u32.s32.u32.sat.clamp", 0x80000001, 0x05170968, 0, 0xffffffff},
	{"vshl.u32.s32.u32.sat.clamp", 0x00000002, 0x00000100, 0, 0x00000000},
	{"vshl.u32.s32.u32.sat.wrap", 0xde0256fc, 0x3d01bd6c, 0, 0x256fc000},
	{"vshl.s32.u32.u32.sat.wrap", 0x545005ba, 0x67eb7edc, 0, 0xa0000000},
	{"vshl.u32.s32.u32.sat.wrap.add", 0xe1388f3f, 0xfffffffa, 0xfffffffa, 0xfbfffffa},
	{"vshl.u32.u32.u32.sat.wrap.max", 0xbe03a7db, 0xca6c6ff7, 0xfffffffe, 0xfffffffe},
	{"vshl.u32.s32.u32.sat.wrap.max", 0xfb4710f9, 0xfb4710f9, 0x000000ff, 0xffffffff},
	{"vshl.s32.s32.u32.sat.wrap.min", 0x7395c6b1, 0xfffffffe, 0x7395c6b1, 0x40000000},

	// c has the sign of a in vset.
	{"vset.s32.s32.eq.min", 0xfffffff4, 0x00020000, 0xbfc00000, 0xbfc00000},
	{"vset.s32.u32.lt.max", 0x00020000, 0x80808080, 0xbf800000, 0x00000001},

	// The factors and c are signed in vmad.
	{"vmad.u32.u32.u32.shr15", 0xffffffff, 0xffffffff, 0x00000000, 0x00000000},
	{"vmad.u32.u32.u32.shr15", 0xc0400000, 0x00000018, 0xc0400000, 0xfff38c80},
	{"vmad.u32.u32.u32.sat", 0x5deef4f2, 0x9b20dedb, 0x00000000, 0x00000000},
	{"vmad.u32.u32.u32.po.sat.shr15", 0x0000000b, 0xbdd87e67, 0x00000000, 0xffffffff},
	{"vmad.s32.u32.u32.po.sat", 0xfffffff9, 0xfffffff9, 0x4d52ef7d, 0x4d52efaf},
	{"vmad.u32.s32.u32.sat", 0x8e0a301c, 0xfffffffe, 0x8e0a301c, 0x71f5cfe4},
	{"vmad.u32.s32.u32.po.shr7", 0xd9e187e1, 0xfffffff0, 0xfffffff0, 0x04c3cf03},
	{"vmad.s32.s32.u32.sat.shr15", 0x2b842b43, 0x80808080, 0xffffffed, 0x80000000},

	// A NaN is infinite for .rna.
	{"cvt.rna.tf32.f32", 0x7f800001, 0, 0, 0x7f800000},
	{"cvt.rna.tf32.f32", 0xff800001, 0, 0, 0xff800000},
	{"cvt.rna.satfinite.tf32.f32", 0x7f800001, 0, 0, 0x7f7fe000},
	{"cvt.rna.satfinite.tf32.f32", 0xff800001, 0, 0, 0xff7fe000},
	{"cvt.rna.satfinite.tf32.f32", 0x7f802366, 0, 0, 0x7f800000},
	{"cvt.rna.satfinite.tf32.f32", 0xff803ff0, 0, 0, 0xff800000},
	{"vshr.u32.u32.u32.sat.clamp.min", 0x850631e3, 0, 0xb9a7b3cb, 0xb9a7b3cb},
	{"vshr.u32.u32.u32.sat.wrap.max", 0x80000000, 0x200, 0x80013f80, 0x80000000},
}

// recordedVideoExamples returns them as examples.
func recordedVideoExamples() (list []*example) {
	for _, c := range recordedVideo {
		ins := c.ins + " D,A,B"
		switch name, second := c.ins[:4], c.ins[strings.LastIndex(c.ins, ".")+1:]; {
		case name == "cvt.":
			ins = c.ins + " D,A; and.b32 D,D,0xffffe000"
		case name == "vmad" || second == "add" || second == "min" || second == "max":
			ins += ",C"
		}
		list = append(list, computed(ins, "i", []uint64{c.a, c.b, c.c, 0}, func([]uint64) uint64 { return c.want }))
	}
	return list
}

// TestRecordedVideo executes instructions with operands of which an H200 has computed the result.
func TestRecordedVideo(t *testing.T) {
	for _, e := range recordedVideoExamples() {
		e.check(t)
	}
}
