package driver

import (
	"testing"
	"unsafe"
)

// TestMemoryLayouts compares the structures with C's, whose offsets come from cuda.h of CUDA 13.0 on a 64-bit platform.
func TestMemoryLayouts(t *testing.T) {
	var (
		props  MemPoolProps
		access MemAccessDesc
		d2     Memcpy2D
		d3     Memcpy3D
	)
	for name, c := range map[string]struct{ got, want uintptr }{
		"CUmemLocation":                          {unsafe.Sizeof(MemLocation{}), 8},
		"CUmemAccessDesc":                        {unsafe.Sizeof(access), 12},
		"CUmemAccessDesc.flags":                  {unsafe.Offsetof(access.Flags), 8},
		"CUmemPoolPtrExportData":                 {unsafe.Sizeof(MemPoolPtrExportData{}), 64},
		"CUmemPoolProps":                         {unsafe.Sizeof(props), 88},
		"CUmemPoolProps.location":                {unsafe.Offsetof(props.Location), 8},
		"CUmemPoolProps.win32SecurityAttributes": {unsafe.Offsetof(props.Win32SecurityAttributes), 16},
		"CUmemPoolProps.maxSize":                 {unsafe.Offsetof(props.MaxSize), 24},
		"CUmemPoolProps.usage":                   {unsafe.Offsetof(props.Usage), 32},
		"CUDA_MEMCPY2D":                          {unsafe.Sizeof(d2), 128},
		"CUDA_MEMCPY2D.srcMemoryType":            {unsafe.Offsetof(d2.SrcMemoryType), 16},
		"CUDA_MEMCPY2D.srcDevice":                {unsafe.Offsetof(d2.SrcDevice), 32},
		"CUDA_MEMCPY2D.srcPitch":                 {unsafe.Offsetof(d2.SrcPitch), 48},
		"CUDA_MEMCPY2D.dstXInBytes":              {unsafe.Offsetof(d2.DstXInBytes), 56},
		"CUDA_MEMCPY2D.dstPitch":                 {unsafe.Offsetof(d2.DstPitch), 104},
		"CUDA_MEMCPY2D.Height":                   {unsafe.Offsetof(d2.Height), 120},
		"CUDA_MEMCPY3D":                          {unsafe.Sizeof(d3), 200},
		"CUDA_MEMCPY3D.srcMemoryType":            {unsafe.Offsetof(d3.SrcMemoryType), 32},
		"CUDA_MEMCPY3D.srcPitch":                 {unsafe.Offsetof(d3.SrcPitch), 72},
		"CUDA_MEMCPY3D.dstXInBytes":              {unsafe.Offsetof(d3.DstXInBytes), 88},
		"CUDA_MEMCPY3D.dstDevice":                {unsafe.Offsetof(d3.DstDevice), 136},
		"CUDA_MEMCPY3D.dstHeight":                {unsafe.Offsetof(d3.DstHeight), 168},
		"CUDA_MEMCPY3D.Depth":                    {unsafe.Offsetof(d3.Depth), 192},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", name, c.got, c.want)
		}
	}
}
