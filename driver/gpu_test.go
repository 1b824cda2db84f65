package driver_test

import (
	"os"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/loader"
)

// TestGPUCalls makes calls of several families on a GPU: those whose arguments are passed in an
// unusual way.
func TestGPUCalls(t *testing.T) {
	path := os.Getenv("PURECU_TEST_GPU")
	if path == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	if path == "1" {
		path = ""
	}
	lib := must(loader.Open(path))
	table, at := driver.New(lib), driver.At{}
	ok := func(what string, res driver.Result) {
		t.Helper()
		if res != driver.ResultSuccess {
			t.Fatalf("%s: %v", what, res)
		}
	}
	ok("Init", table.Init(at, 0))
	ctx, res := table.DevicePrimaryCtxRetain(at, 0)
	ok("DevicePrimaryCtxRetain", res)
	defer func() { ok("DevicePrimaryCtxRelease", table.DevicePrimaryCtxRelease(at, 0)) }()
	at.Context = ctx

	memory, pitch, res := table.MemAllocPitch(at, 256, 16, 4)
	ok("MemAllocPitch", res)
	defer func() { ok("MemFree", table.MemFree(at, memory)) }()

	t.Run("tensor map", func(t *testing.T) { // sixteen words, and a result that is aligned to 128 bytes
		dims, strides, ones := []uint64{64, 16}, []uint64{pitch}, []uint32{1, 1}
		m, res := table.TensorMapEncodeTiled(at, driver.CU_TENSOR_MAP_DATA_TYPE_FLOAT32, driver.HostPtr(memory),
			dims, strides, []uint32{8, 8}, ones, 0, 0, 0, 0)
		if res == driver.ResultNotSupported || table.Missing(res) != nil {
			t.Skip("this GPU or this driver has no tensor maps")
		}
		if res != driver.ResultSuccess || m == (driver.TensorMap{}) {
			t.Errorf("TensorMapEncodeTiled: %v, %v", m, res)
		}
		again, res := table.TensorMapReplaceAddress(at, m, driver.HostPtr(memory))
		if res != driver.ResultSuccess || again != m {
			t.Errorf("TensorMapReplaceAddress: %v, %v, want %v", again, res, m)
		}
	})
	t.Run("copy", func(t *testing.T) { // the address of a struct
		var back [8]byte
		ok("MemsetD2D8", table.MemsetD2D8(at, memory, pitch, 7, 8, 2))
		ok("CtxSynchronize", table.CtxSynchronize(at))
		ok("MemcpyDtoH", table.MemcpyDtoH(at, back[:], memory+driver.DevicePtr(pitch)))
		ok("Memcpy2D", table.Memcpy2D(at, driver.Memcpy2D{
			SrcMemoryType: driver.CU_MEMORYTYPE_DEVICE, SrcDevice: memory, SrcPitch: pitch,
			DstMemoryType: driver.CU_MEMORYTYPE_DEVICE, DstDevice: memory + 128, DstPitch: pitch,
			WidthInBytes: 8, Height: 2,
		}))
		ok("CtxSynchronize", table.CtxSynchronize(at))
		var copied [8]byte
		ok("MemcpyDtoH", table.MemcpyDtoH(at, copied[:], memory+driver.DevicePtr(pitch)+128))
		if want := [8]byte{7, 7, 7, 7, 7, 7, 7, 7}; back != want || copied != want {
			t.Errorf("got %v and %v, want %v", back, copied, want)
		}
	})
	t.Run("attributes", func(t *testing.T) { // values behind void pointers
		v, res := table.PointerGetAttribute(at, driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory)
		ok("PointerGetAttribute", res)
		if v[0] != driver.CU_MEMORYTYPE_DEVICE {
			t.Errorf("the memory's type is %d", v[0])
		}
		pool, res := table.MemPoolCreate(at, driver.MemPoolProps{AllocType: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
			Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}})
		ok("MemPoolCreate", res)
		defer func() { ok("MemPoolDestroy", table.MemPoolDestroy(at, pool)) }()
		ok("MemPoolSetAttribute", table.MemPoolSetAttribute(at, pool, driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 1<<40))
		threshold, res := table.MemPoolGetAttribute(at, pool, driver.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		ok("MemPoolGetAttribute", res)
		if threshold != 1<<40 {
			t.Errorf("the threshold is %#x", threshold)
		}
	})
	t.Run("texture", func(t *testing.T) { // floating-point numbers, in registers and in a struct, and a union
		ref, res := table.TexRefCreate(at)
		ok("TexRefCreate", res)
		defer func() { ok("TexRefDestroy", table.TexRefDestroy(at, ref)) }()
		// The portable engine does not support it.
		if res := table.TexRefSetMipmapLevelClamp(at, ref, 0.25, 7.5); res != driver.ResultNotSupported {
			ok("TexRefSetMipmapLevelClamp", res)
			low, high, res := table.TexRefGetMipmapLevelClamp(at, ref)
			ok("TexRefGetMipmapLevelClamp", res)
			if low != 0.25 || high != 7.5 {
				t.Errorf("the levels are %v and %v", low, high)
			}
		}
		resource := driver.ResourceDesc{ResType: driver.CU_RESOURCE_TYPE_LINEAR}
		*resource.Res.Linear() = driver.ResourceDescResLinear{
			DevPtr: memory, Format: driver.CU_AD_FORMAT_FLOAT, NumChannels: 1, SizeInBytes: 256,
		}
		tex, res := table.TexObjectCreate(at, resource, driver.TextureDesc{MaxMipmapLevelClamp: 3.5}, nil)
		ok("TexObjectCreate", res)
		got, res := table.TexObjectGetResourceDesc(at, tex)
		ok("TexObjectGetResourceDesc", res)
		if *got.Res.Linear() != *resource.Res.Linear() {
			t.Errorf("the resource is %+v, want %+v", *got.Res.Linear(), *resource.Res.Linear())
		}
		ok("TexObjectDestroy", table.TexObjectDestroy(at, tex))
	})
	t.Run("virtual memory", func(t *testing.T) {
		prop := driver.MemAllocationProp{Type: driver.CU_MEM_ALLOCATION_TYPE_PINNED,
			Location: driver.MemLocation{Type: driver.CU_MEM_LOCATION_TYPE_DEVICE}}
		size, res := table.MemGetAllocationGranularity(at, prop, driver.CU_MEM_ALLOC_GRANULARITY_MINIMUM)
		ok("MemGetAllocationGranularity", res)
		handle, res := table.MemCreate(at, size, prop, 0)
		ok("MemCreate", res)
		p, res := table.MemAddressReserve(at, size, 0, 0, 0)
		ok("MemAddressReserve", res)
		ok("MemMap", table.MemMap(at, p, size, 0, handle, 0))
		access := driver.MemAccessDesc{Location: prop.Location, Flags: driver.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}
		ok("MemSetAccess", table.MemSetAccess(at, p, size, []driver.MemAccessDesc{access}))
		ok("MemsetD32", table.MemsetD32(at, p, 1, size/4))
		have, res := table.MemGetAllocationPropertiesFromHandle(at, handle)
		ok("MemGetAllocationPropertiesFromHandle", res)
		if have.Location != prop.Location || have.Type != prop.Type {
			t.Errorf("the properties are %+v, want %+v", have, prop)
		}
		ok("MemUnmap", table.MemUnmap(at, p, size))
		ok("MemRelease", table.MemRelease(at, handle))
		ok("MemAddressFree", table.MemAddressFree(at, p, size))
	})
	t.Run("graph", func(t *testing.T) { // a union in a struct that is passed in and returned
		g, res := table.GraphCreate(at, 0)
		ok("GraphCreate", res)
		defer func() { ok("GraphDestroy", table.GraphDestroy(at, g)) }()
		params := driver.MemsetNodeParams{Dst: memory, Value: 5, ElementSize: 4, Width: 4, Height: 1}
		first, res := table.GraphAddMemsetNode(at, g, nil, &params, ctx)
		ok("GraphAddMemsetNode", res)
		got, res := table.GraphMemsetNodeGetParams(at, first)
		ok("GraphMemsetNodeGetParams", res)
		if got.Dst != params.Dst || got.Value != params.Value || got.Width != params.Width {
			t.Errorf("the node has %+v, want %+v", got, params)
		}
		node := driver.GraphNodeParams{Type: driver.CU_GRAPH_NODE_TYPE_MEMSET}
		*node.Memset() = driver.MemsetNodeParamsV2{Dst: memory, Value: 6, ElementSize: 1, Width: 8, Height: 1, Ctx: ctx}
		second, _, res := table.GraphAddNode(at, g, []driver.GraphNode{first}, nil, node)
		if table.Missing(res) == nil {
			ok("GraphAddNode", res)
			got, res := table.GraphMemsetNodeGetParams(at, second)
			ok("GraphMemsetNodeGetParams", res)
			if got.Value != 6 || got.Width != 8 {
				t.Errorf("the node has %+v", got)
			}
		}
	})
}
