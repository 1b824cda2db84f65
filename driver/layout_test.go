package driver

import (
	"testing"
	"unsafe"
)

// TestLayouts compares the structs with C's: the offset of each group of fields, and the size.
func TestLayouts(t *testing.T) {
	var (
		k KernelNodeParams
		c Memcpy3D
		s MemsetNodeParams
		i GraphInstantiateParams
	)
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"KernelNodeParams.GridDimX", unsafe.Offsetof(k.GridDimX), 8},
		{"KernelNodeParams.BlockDimX", unsafe.Offsetof(k.BlockDimX), 20},
		{"KernelNodeParams.SharedMemBytes", unsafe.Offsetof(k.SharedMemBytes), 32},
		{"KernelNodeParams.KernelParams", unsafe.Offsetof(k.KernelParams), 40},
		{"KernelNodeParams.Extra", unsafe.Offsetof(k.Extra), 48},
		{"KernelNodeParams.Kern", unsafe.Offsetof(k.Kern), 56},
		{"KernelNodeParams.Ctx", unsafe.Offsetof(k.Ctx), 64},
		{"KernelNodeParams", unsafe.Sizeof(k), 72},
		{"Memcpy3D.SrcLOD", unsafe.Offsetof(c.SrcLOD), 24},
		{"Memcpy3D.SrcMemoryType", unsafe.Offsetof(c.SrcMemoryType), 32},
		{"Memcpy3D.SrcHost", unsafe.Offsetof(c.SrcHost), 40},
		{"Memcpy3D.SrcDevice", unsafe.Offsetof(c.SrcDevice), 48},
		{"Memcpy3D.SrcPitch", unsafe.Offsetof(c.SrcPitch), 72},
		{"Memcpy3D.DstXInBytes", unsafe.Offsetof(c.DstXInBytes), 88},
		{"Memcpy3D.DstMemoryType", unsafe.Offsetof(c.DstMemoryType), 120},
		{"Memcpy3D.DstDevice", unsafe.Offsetof(c.DstDevice), 136},
		{"Memcpy3D.DstPitch", unsafe.Offsetof(c.DstPitch), 160},
		{"Memcpy3D.WidthInBytes", unsafe.Offsetof(c.WidthInBytes), 176},
		{"Memcpy3D", unsafe.Sizeof(c), 200},
		{"MemsetNodeParams.Value", unsafe.Offsetof(s.Value), 16},
		{"MemsetNodeParams.ElementSize", unsafe.Offsetof(s.ElementSize), 20},
		{"MemsetNodeParams.Height", unsafe.Offsetof(s.Height), 32},
		{"MemsetNodeParams", unsafe.Sizeof(s), 40},
		{"GraphInstantiateParams.UploadStream", unsafe.Offsetof(i.UploadStream), 8},
		{"GraphInstantiateParams.ErrNode", unsafe.Offsetof(i.ErrNode), 16},
		{"GraphInstantiateParams.Result", unsafe.Offsetof(i.Result), 24},
		{"GraphInstantiateParams", unsafe.Sizeof(i), 32},
	} {
		if f.got != f.want {
			t.Errorf("%s is at, or has, %d bytes, in C %d", f.name, f.got, f.want)
		}
	}
}
