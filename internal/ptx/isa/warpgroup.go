package isa

import (
	"fmt"
	"strings"

	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/ptx/warpgroup"
)

// warpgroupRows are the products of matrices that four warps compute together. They take place at once here.
func warpgroupRows() []*Instruction {
	nothing := func(modifiers, operands string) *Instruction {
		return &Instruction{Name: "wgmma", Modifiers: modifiers + " sync aligned", Operands: operands, Kind: vm.Nothing}
	}
	return []*Instruction{
		nothing("fence", ""),
		nothing("commit_group", ""),
		nothing("wait_group", "i"),
		warpgroupRow("k16", "dt=f16|f32 t=f16 u=f16", "i i i i?"),
		warpgroupRow("k16", "dt=f32 t=bf16 u=bf16", "i i i i?"),
		warpgroupRow("k8", "dt=f32 t=tf32 u=tf32", "i i"),
		warpgroupRow("k32", "dt=f16|f32 t=e4m3|e5m2 u=e4m3|e5m2", "i i"),
		warpgroupRow("k32", "satfinite? dt=s32 t=s8|u8 u=s8|u8", ""),
		warpgroupRow("k256", "dt=s32 t=b1 u=b1 and popc", ""),
	}
}

// warpgroupRow is a row of products with elements of some types, and with constants as operands.
func warpgroupRow(k, types, constants string) *Instruction {
	var shapes []string
	for n := 8; n <= 256; n += 8 {
		if strings.Contains(types, "s32") && n != 8 && n != 24 && n%16 != 0 {
			continue // there are fewer of integers
		}
		shapes = append(shapes, fmt.Sprintf("m64n%d%s", n, k))
	}
	return &Instruction{Name: "wgmma",
		Modifiers: "mma_async sync aligned shape=" + strings.Join(shapes, "|") + " " + types,
		Operands:  "0:b32 g:b64 b:b64 C " + constants, Kind: vm.Sync, Special: "warpgroup", Make: multiply,
		Lengths: func(v Variant) []int {
			_, n, _ := shapeOf(v.Get("shape"))
			return []int{n / 2 / elements(v.Get("dt")), 4}
		}}
}

// multiply returns the function of a product.
func multiply(v Variant) vm.Func {
	_, n, k := shapeOf(v.Get("shape"))
	d := v.Get("dt")
	p := &warpgroup.Product{N: n, Size: 32 / k, Scaled: d != "s32", Packed: elements(d)}
	if p.Size > 0 {
		p.A, p.B, p.D, p.Round = element(v.T()), element(v.Get("u")), element(d), rounded(d, v.Has("satfinite"))
	}
	return p.Func()
}
