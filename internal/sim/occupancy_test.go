package sim

import (
	"slices"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
)

// clusters returns the configuration of a launch in clusters of n blocks; 0 stands for no attribute.
func clusters(n, gridX, blockX, shared uint32) driver.LaunchConfig {
	c := driver.LaunchConfig{GridX: gridX, GridY: 1, GridZ: 1, BlockX: blockX, BlockY: 1, BlockZ: 1,
		SharedMemBytes: shared}
	if n != 0 {
		a := words(driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, n, 1, 1)
		c.Attributes, c.Count = &a, 1
	}
	return c
}

// TestClusterOccupancy compares how many clusters fit on the device with the results of an H200.
func TestClusterOccupancy(t *testing.T) {
	r := newLab(t)
	f := r.kernel("k", "")
	r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448))
	sizes := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 17, 32}
	for _, tt := range []struct {
		block, shared uint32
		want          []int32 // of the first 8 sizes, or of all if clusters need not be portable
	}{
		{32, 0, []int32{1056, 528, 327, 248, 193, 163, 139, 124}},
		{256, 0, []int32{1056, 528, 327, 248, 193, 163, 139, 124, 102, 88, 74, 65, 58, 58, 16, 0}},
		{1024, 0, []int32{264, 132, 79, 62, 47, 39, 32, 30, 23, 21, 16, 14, 14, 14, 4, 0}},
		{32, 10000, []int32{1056, 528, 327, 248, 193, 163, 139, 124}},
		{32, 49152, []int32{528, 264, 163, 124, 94, 79, 69, 62}},
		{1024, 232448, []int32{132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 2, 0}},
	} {
		any := int32(0)
		if len(tt.want) == len(sizes) {
			any = 1
		}
		r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, any))
		for i, want := range tt.want {
			n, res := r.OccupancyMaxActiveClusters(r.th, f, clusters(sizes[i], 4*sizes[i], tt.block, tt.shared))
			if n != want || res != ok {
				t.Errorf("clusters of %d blocks of %d threads, %d bytes: %d, %v; want %d", sizes[i], tt.block,
					tt.shared, n, res, want)
			}
		}
		n, res := r.OccupancyMaxPotentialClusterSize(r.th, f, clusters(0, 64, tt.block, tt.shared))
		if want := 8 * (1 + any); n != want || res != ok {
			t.Errorf("the largest cluster has %d blocks, %v; want %d", n, res, want)
		}
	}
	r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0))
	r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 49152))
	for _, tt := range []struct {
		name   string
		config driver.LaunchConfig
		want   driver.Result
	}{
		{"clusters of 9", clusters(9, 18, 32, 0), driver.ResultInvalidClusterSize},
		{"a grid of 3", clusters(2, 3, 32, 0), driver.ResultInvalidClusterSize},
		{"blocks of 2048", clusters(2, 4, 2048, 0), ok},
		{"blocks of 0", clusters(2, 4, 0, 0), driver.ResultInvalidValue},
		{"no blocks", clusters(2, 0, 32, 0), driver.ResultInvalidValue},
		{"too much memory", clusters(2, 4, 32, 60000), ok},
		{"none", clusters(0, 4, 32, 0), ok},
	} {
		n, res := r.OccupancyMaxActiveClusters(r.th, f, tt.config)
		if n != 0 || res != tt.want {
			t.Errorf("%s: %d, %v; want %v", tt.name, n, res, tt.want)
		}
	}
	bad := []driver.LaunchAttribute{words(100)}
	_, res := r.OccupancyMaxActiveClusters(r.th, f, *config(0, 1, bad))
	r.want("an unknown attribute", driver.ResultInvalidValue, res)
	_, res = r.OccupancyMaxActiveClusters(r.th, 0, clusters(0, 1, 1, 0))
	r.want("no kernel", driver.ResultInvalidValue, res)
	n, res := r.OccupancyMaxPotentialClusterSize(r.th, f, clusters(0, 64, 32, 60000))
	if n != 0 || res != ok {
		t.Errorf("the largest cluster of blocks that do not fit: %d, %v", n, res)
	}
}

// TestAvailableSharedMemory compares the shared memory that is left for blocks with that of an H200.
func TestAvailableSharedMemory(t *testing.T) {
	r := newLab(t)
	m := r.load(header + ".entry k() { ret; } .entry k2() { .shared .align 8 .b8 b[20000]; ret; }")
	k, res := r.ModuleGetFunction(r.th, m, "k")
	r.must(res)
	static, res := r.ModuleGetFunction(r.th, m, "k2")
	r.must(res)
	r.must(r.FuncSetAttribute(r.th, k, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448))
	for _, tt := range []struct {
		f               driver.Function
		blocks, threads int32
		want            uint64 // 0 for an error
	}{
		{k, 1, 32, 232448}, {k, 2, 1024, 116736}, {k, 3, 256, 77824}, {k, 3, 1024, 0}, {k, 4, 128, 58368},
		{k, 11, 128, 21120},
		{k, 11, 256, 0}, {k, 18, 32, 12928}, {k, 25, 32, 9216}, {k, 32, 32, 7296}, {k, 33, 32, 0}, {k, 0, 32, 0},
		{k, 1, 0, 0},
		{static, 1, 32, 29152}, {static, 11, 32, 1120}, {static, 18, 32, 0},
	} {
		n, res := r.OccupancyAvailableDynamicSMemPerBlock(r.th, tt.f, tt.blocks, tt.threads)
		if n != tt.want || (res == ok) != (tt.want != 0) {
			t.Errorf("%d blocks of %d threads: %d, %v; want %d", tt.blocks, tt.threads, n, res, tt.want)
		}
	}
}

// TestRequiredClusters launches kernels whose text says something about clusters.
func TestRequiredClusters(t *testing.T) {
	r := newLab(t, WithKernel("k1", Kernel{}), WithKernel("k2", Kernel{}), WithKernel("k3", Kernel{}))
	m := r.load(".version 7.8\n.target sm_90\n.address_size 64\n.entry k1() .reqnctapercluster 2, 1, 1 { ret; }\n" +
		".entry k2() .explicitcluster { ret; }\n.entry k3() .maxntid 64, 1, 1 .maxclusterrank 4 { ret; }\n")
	for _, tt := range []struct {
		kernel        string
		cluster, grid uint32
		want          driver.Result
	}{
		{"k1", 2, 4, ok}, {"k1", 4, 4, driver.ResultInvalidClusterSize}, {"k1", 0, 4, ok},
		{"k1", 0, 3, driver.ResultInvalidClusterSize},
		{"k2", 0, 4, driver.ResultInvalidClusterSize}, {"k2", 2, 4, ok}, {"k3", 4, 8, ok},
		{"k3", 8, 8, driver.ResultInvalidClusterSize},
		{"k3", 0, 8, ok},
	} {
		f, res := r.ModuleGetFunction(r.th, m, tt.kernel)
		r.must(res)
		c := clusters(tt.cluster, tt.grid, 32, 0)
		if res := r.LaunchKernelEx(r.th, &c, f, driver.KernelParams{}); res != tt.want {
			t.Errorf("%s in clusters of %d, %d blocks: %v, want %v", tt.kernel, tt.cluster, tt.grid, res, tt.want)
		}
	}
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	f, _ := r.ModuleGetFunction(r.th, m, "k1")
	p := driver.KernelNodeParams{Func: f, GridDimX: 4, GridDimY: 1, GridDimZ: 1, BlockDimX: 32, BlockDimY: 1,
		BlockDimZ: 1}
	_, res = r.GraphAddKernelNode(r.th, g, nil, &p)
	r.must(res)
	p.GridDimX = 3
	_, res = r.GraphAddKernelNode(r.th, g, nil, &p)
	r.want("a node of 3 blocks", driver.ResultInvalidClusterSize, res) // as on an H200, driver 580
	r.must(r.GraphDestroy(r.th, g))
	n, res := r.OccupancyMaxActiveClusters(r.th, f, clusters(0, 64, 32, 0))
	if n != 528 || res != ok {
		t.Errorf("%d clusters, %v", n, res)
	}
	for _, tt := range []struct { // as on an H200, driver 580
		kernel        string
		cluster, grid uint32
		want          int32 // 0 stands for an error
	}{
		{"k1", 0, 3, 0}, {"k1", 0, 4, 8}, {"k1", 2, 3, 0}, {"k1", 4, 8, 0}, {"k2", 0, 8, 0}, {"k2", 2, 8, 8},
		{"k2", 2, 3, 0}, {"k3", 0, 8, 8}, {"k3", 4, 8, 8}, {"k3", 8, 8, 0},
	} {
		f, _ := r.ModuleGetFunction(r.th, m, tt.kernel)
		want := ok
		if tt.want == 0 {
			want = driver.ResultInvalidClusterSize
		}
		n, res := r.OccupancyMaxPotentialClusterSize(r.th, f, clusters(tt.cluster, tt.grid, 32, 0))
		if n != tt.want || res != want {
			t.Errorf("%+v: %d, %v", tt, n, res)
		}
	}
	f, _ = r.ModuleGetFunction(r.th, m, "k3")
	r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2))
	_, res = r.OccupancyMaxActiveClusters(r.th, f, clusters(0, 64, 32, 0))
	r.want("the width alone", driver.ResultInvalidClusterSize, res)
	r.want("the width alone, a launch", driver.ResultInvalidClusterSize,
		r.LaunchKernel(r.th, f, 4, 1, 1, 1, 1, 1, 0, 0, driver.KernelParams{}))
	for _, text := range []string{".reqnctapercluster 0", ".maxclusterrank x"} {
		_, res := r.ModuleLoadData(r.th, append([]byte(header+".entry k() "+text+" { ret; }"), 0))
		r.want(text, driver.ResultInvalidPTX, res)
	}
}

// TestFunctionState asks for the state of a kernel, and configures it.
func TestFunctionState(t *testing.T) {
	r := newLab(t)
	m := r.load(header + ".entry k() { ret; }")
	f, res := r.ModuleGetFunction(r.th, m, "k")
	r.must(res)
	if got, res := r.FuncGetModule(r.th, f); got != m || res != ok {
		t.Errorf("the module is %#x, %v", got, res)
	}
	r.must(r.FuncLoad(r.th, f))
	if state, res := r.FuncIsLoaded(r.th, f); state != driver.CU_FUNCTION_LOADING_STATE_LOADED || res != ok {
		t.Errorf("the state is %d, %v", state, res)
	}
	for config, want := range map[int32]driver.Result{-1: driver.ResultInvalidValue, 0: ok, 3: ok,
		4: driver.ResultInvalidValue} {
		r.want("cache", want, r.FuncSetCacheConfig(r.th, f, config))
	}
	for config, want := range map[int32]driver.Result{-1: driver.ResultInvalidValue, 2: ok,
		3: driver.ResultInvalidValue} {
		r.want("shared memory", want, r.FuncSetSharedMemConfig(r.th, f, config))
	}
	_, res = r.FuncGetModule(r.th, 0)
	r.want("no kernel", driver.ResultInvalidValue, res)
}

// TestNodeAttributes sets attributes of kernel nodes, and compares the results with those of an H200.
func TestNodeAttributes(t *testing.T) {
	r := newLab(t)
	f := r.kernel("k", "")
	g, res := r.GraphCreate(r.th, 0)
	r.must(res)
	defer func() { r.must(r.GraphDestroy(r.th, g)) }()
	p := driver.KernelNodeParams{Func: f, GridDimX: 4, GridDimY: 1, GridDimZ: 1, BlockDimX: 32, BlockDimY: 1,
		BlockDimZ: 1}
	n, res := r.GraphAddKernelNode(r.th, g, nil, &p)
	r.must(res)
	other, res := r.GraphAddKernelNode(r.th, g, nil, &p)
	r.must(res)
	gets := map[int32]bool{1: true, 2: true, 4: true, 5: true, 8: true, 9: true, 10: true, 13: true, 14: true}
	for id := int32(-1); id < 20; id++ {
		want := driver.ResultInvalidValue
		if gets[id] {
			want = ok
		}
		_, res := r.GraphKernelNodeGetAttribute(r.th, n, id)
		r.want("get", want, res)
		if id == 16 {
			want = ok
		}
		r.want("set", want, r.GraphKernelNodeSetAttribute(r.th, n, id, new(driver.LaunchAttributeValue)))
	}
	set := func(id int32, list ...uint32) driver.Result {
		a := words(id, list...)
		return r.GraphKernelNodeSetAttribute(r.th, n, id, &a.Value)
	}
	const cluster, cooperative, priority = driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
		driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY
	minus := func(n int32) uint32 { return uint32(-n) }
	r.must(set(priority, minus(7)))
	if v, _ := r.GraphKernelNodeGetAttribute(r.th, n, priority); int8(v[0]) != -5 {
		t.Errorf("the priority is %d", int8(v[0]))
	}
	r.want("clusters of 3 in 4 blocks", driver.ResultInvalidClusterSize, set(cluster, 3, 1, 1))
	r.must(set(cluster, 2, 1, 1))
	p.GridDimX = 5
	r.want("5 blocks", driver.ResultInvalidClusterSize, r.GraphKernelNodeSetParams(r.th, n, &p))
	r.must(r.GraphKernelNodeCopyAttributes(r.th, other, n))
	if v, _ := r.GraphKernelNodeGetAttribute(r.th, other, cluster); v[0] != 2 {
		t.Errorf("the copied cluster is %d", v[0])
	}
	r.must(set(cluster))
	p.GridDimX = 1 << 20
	r.must(r.GraphKernelNodeSetParams(r.th, n, &p))
	r.want("a large cooperative grid", driver.ResultCooperativeLaunchTooLarge, set(cooperative, 1))
	p.GridDimX = 4
	r.must(r.GraphKernelNodeSetParams(r.th, n, &p))
	r.must(set(cooperative, 1))
	p.GridDimX = 1 << 20
	r.want("a large grid", driver.ResultCooperativeLaunchTooLarge, r.GraphKernelNodeSetParams(r.th, n, &p))
}

// TestCapturedAttributes looks at the attributes of captured launches, which come from the launch and the stream.
func TestCapturedAttributes(t *testing.T) {
	r := newLab(t)
	f, s := r.kernel("k", ""), r.newStream()
	minus3 := words(0, 0xfffffffd).Value
	r.must(r.StreamSetAttribute(r.th, s, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY, minus3))
	r.must(r.StreamSetAttribute(r.th, s, driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, words(0, 1).Value))
	r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
	list := []driver.LaunchAttribute{words(driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 2, 1, 1),
		words(driver.CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50)}
	r.must(r.LaunchKernelEx(r.th, config(s, 4, list), f, driver.KernelParams{}))
	g, res := r.StreamEndCapture(r.th, s)
	r.must(res)
	defer func() { r.must(r.GraphDestroy(r.th, g)) }()
	nodes := make([]driver.GraphNode, 1)
	_, res = r.GraphGetNodes(r.th, g, nodes)
	r.must(res)
	for id, want := range map[int32]byte{4: 2, 5: driver.CU_CLUSTER_SCHEDULING_POLICY_SPREAD, 8: 0xfd, 10: 1, 14: 50} {
		if v, res := r.GraphKernelNodeGetAttribute(r.th, nodes[0], id); v[0] != want || res != ok {
			t.Errorf("attribute %d is %d, %v; want %d", id, v[0], res, want)
		}
	}
}

// TestOccupancyOfBlocks compares the occupancy of kernels whose text limits the size of a block with that
// on an H200 (driver 580, CUDA 13.0).
func TestOccupancyOfBlocks(t *testing.T) {
	r := newLab(t)
	m := r.load(header + ".entry r100() .reqntid 100, 1, 1 { ret; } .entry r33() .reqntid 33 { ret; } " +
		".entry m100() .maxntid 100 { ret; } .entry m20() .maxntid 5, 4 { ret; }")
	for _, c := range []struct {
		kernel             string
		limit, grid, block int32
		threads, blocks    int32
	}{
		{"r100", 0, 264, 1024, 1024, 2}, {"r100", 100, 4224, 64, 100, 16}, {"r100", 256, 1056, 256, 256, 8},
		{"r33", 0, 264, 1024, 64, 32}, {"r33", 33, 4224, 33, 33, 32}, {"m100", 0, 4224, 64, 128, 16},
		{"m100", 256, 4224, 64, 1024, 2}, {"m20", 0, 4224, 20, 96, 21}, {"m20", 1024, 4224, 20, 1025, 0},
	} {
		f, res := r.ModuleGetFunction(r.th, m, c.kernel)
		r.must(res)
		grid, block, res := r.OccupancyMaxPotentialBlockSize(r.th, f, 0, 0, c.limit)
		if r.must(res); grid != c.grid || block != c.block {
			t.Errorf("%s, limit %d: %d blocks of %d threads, want %d of %d", c.kernel, c.limit, grid, block, c.grid, c.block)
		}
		if n, res := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.th, f, c.threads, 0); res != ok || n != c.blocks {
			t.Errorf("%s, %d threads: %d blocks, want %d", c.kernel, c.threads, n, c.blocks)
		}
	}
}

// TestOccupancyAsOnH200 compares results about kernels that prefer some memory as shared memory, and about blocks and
// clusters that do not fit. Source: H200, driver 580, 2026-11-28.
func TestOccupancyAsOnH200(t *testing.T) {
	const (
		none, shared, l1, equal = driver.CU_FUNC_CACHE_PREFER_NONE, driver.CU_FUNC_CACHE_PREFER_SHARED,
			driver.CU_FUNC_CACHE_PREFER_L1, driver.CU_FUNC_CACHE_PREFER_EQUAL
		dimension = driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
	)
	r := newLab(t)
	m := r.load(header + ".entry any() { ret; } .entry m256() .maxntid 256, 1, 1 { ret; }")
	fns := make(map[string]driver.Function)
	for _, name := range []string{"any", "m256"} {
		f, res := r.ModuleGetFunction(r.th, m, name)
		r.must(res)
		fns[name] = f
	}
	prefer := func(kernel string, config, percent int32) driver.Function {
		f := fns[kernel]
		r.must(r.FuncSetCacheConfig(r.th, f, config))
		r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent))
		return f
	}
	for _, tt := range []struct {
		kernel          string
		config, percent int32
		threads         int32
		shared          uint64
		want            int32
	}{
		{"any", none, -1, 257, 48 << 10, 4}, {"any", none, 0, 33, 1000, 4}, {"any", none, 0, 32, 48 << 10, 1},
		{"any", none, 50, 256, 48 << 10, 2}, {"any", none, 50, 1, 1000, 32}, {"m256", none, 100, 257, 48 << 10, 4},
		{"any", l1, -1, 257, 1000, 4}, {"m256", shared, -1, 257, 48 << 10, 4}, {"m256", l1, -1, 1024, 0, 2},
		{"any", equal, -1, 256, 1000, 8}, {"m256", none, -1, 1024, 300 << 10, 0},
	} {
		f := prefer(tt.kernel, tt.config, tt.percent)
		n, res := r.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(r.th, f, tt.threads, tt.shared, 0)
		if n != tt.want || res != ok {
			t.Errorf("%+v: %d blocks, %v", tt, n, res)
		}
	}
	if n, _ := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.th, prefer("any", equal, -1), 257, 48<<10); n == 4 {
		t.Error("with a preference for equal parts, as many blocks fit as with one for shared memory")
	}
	for _, tt := range []struct {
		kernel          string
		config, percent int32
		shared          uint64
		limit           int32
		blocks, threads int32 // of a multiprocessor, and of a block
	}{
		{"any", none, -1, 48 << 10, 0, 2, 1024}, {"any", l1, -1, 48 << 10, 2000, 1, 1024},
		{"any", equal, 0, 48 << 10, 32, 1, 32}, {"any", none, 0, 1000, 0, 2, 1024}, {"m256", l1, -1, 0, 2000, 8, 256},
		{"m256", none, -1, 300 << 10, 100, 0, 0},
	} {
		f := prefer(tt.kernel, tt.config, tt.percent)
		grid, threads, res := r.OccupancyMaxPotentialBlockSize(r.th, f, 0, tt.shared, tt.limit)
		if grid != tt.blocks*profile.Default().Multiprocessors || threads != tt.threads || res != ok {
			t.Errorf("%+v: %d blocks of %d threads, %v", tt, grid, threads, res)
		}
	}
	for _, tt := range []struct {
		config, percent int32
		blocks, threads int32
		want            uint64
	}{
		{none, -1, 8, 64, 0x7200}, {none, 50, 8, 32, 0x4200}, {l1, -1, 1, 32, 48 << 10},
		{equal, -1, 2, 64, 48 << 10},
	} {
		f := prefer("any", tt.config, tt.percent)
		n, res := r.OccupancyAvailableDynamicSMemPerBlock(r.th, f, tt.blocks, tt.threads)
		if n != tt.want || res != ok {
			t.Errorf("%+v: %#x bytes, %v", tt, n, res)
		}
	}
	for _, tt := range []struct {
		kernel string
		config driver.LaunchConfig
		want   int32
		res    driver.Result
	}{
		{"any", clusters(3, 2, 257, 0), 0, driver.ResultInvalidClusterSize},
		{"m256", clusters(4, 1, 64, 0), 0, driver.ResultInvalidClusterSize},
		{"any", clusters(16, 4, 64, 0), 0, driver.ResultInvalidClusterSize},
		{"any", clusters(16, 2, 1025, 0), 0, driver.ResultInvalidClusterSize},
		{"any", *config(0, 1, []driver.LaunchAttribute{words(dimension, 0, 1, 1)}), 0, driver.ResultInvalidClusterSize},
		{"m256", clusters(2, 0, 64, 0), 0, driver.ResultInvalidValue},
		{"any", clusters(1, 2, 1025, 0), 0, ok}, {"any", clusters(2, 4, 64, 0), 8, ok},
		{"m256", clusters(0, 4, 257, 100), 8, ok}, {"m256", clusters(0, 1, 257, 300<<10), 0, ok},
	} {
		n, res := r.OccupancyMaxPotentialClusterSize(r.th, prefer(tt.kernel, none, -1), tt.config)
		if n != tt.want || res != tt.res {
			t.Errorf("%s, %d blocks of %d threads: clusters of %d, %v; want %d, %v", tt.kernel, tt.config.GridX,
				tt.config.BlockX, n, res, tt.want, tt.res)
		}
	}
}

// TestOrderOfLaunchChecks makes launches with several mistakes. Source: H200, driver 580, 2026-11-28.
func TestOrderOfLaunchChecks(t *testing.T) {
	const (
		dimension, cooperative = driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
		badCluster, tooLarge   = driver.ResultInvalidClusterSize, driver.ResultCooperativeLaunchTooLarge
		invalid                = driver.ResultInvalidValue
	)
	r := newLab(t)
	m := r.load(header + ".entry any() { ret; } .entry m256() .maxntid 256, 1, 1 { ret; }")
	for _, tt := range []struct {
		name                string
		grid, block, shared uint32
		attribute           driver.LaunchAttribute
		want                driver.Result
	}{
		{"any", 1, 64, 300 << 10, words(cooperative, 1), tooLarge},
		{"any", 2, 32, 300 << 10, words(cooperative, 1), tooLarge},
		{"any", 1 << 20, 64, 0, words(cooperative, 1), tooLarge},
		{"any", 0, 64, 300 << 10, words(cooperative, 1), invalid},
		{"any", 1 << 20, 1025, 0, words(cooperative, 1), invalid},
		{"any", 4, 64, 300 << 10, words(dimension, 3, 1, 1), badCluster},
		{"any", 4, 1, 300 << 10, words(dimension, 0, 1, 1), badCluster},
		{"any", 0, 64, 0, words(dimension, 0, 1, 1), badCluster},
		{"any", 0, 64, 0, words(dimension, 16, 1, 1), invalid},
		{"m256", 1, 1025, 100, words(dimension, 0, 1, 1), invalid},
		{"m256", 1, 257, 300 << 10, words(dimension, 0, 1, 1), invalid},
		{"m256", 2, 1025, 0, words(dimension, 4, 1, 1), invalid},
	} {
		f, res := r.ModuleGetFunction(r.th, m, tt.name)
		r.must(res)
		c := config(0, tt.grid, []driver.LaunchAttribute{tt.attribute})
		c.BlockX, c.SharedMemBytes = tt.block, tt.shared
		if res := r.LaunchKernelEx(r.th, c, f, driver.KernelParams{}); res != tt.want {
			t.Errorf("%s, %d blocks of %d threads, %d bytes, attribute %d %v: %v, want %v", tt.name, tt.grid, tt.block,
				tt.shared, tt.attribute.ID, tt.attribute.Value[:4], res, tt.want)
		}
		if tt.attribute.ID != cooperative {
			continue
		}
		if res := r.LaunchCooperativeKernel(r.th, f, tt.grid, 1, 1, tt.block, 1, 1, tt.shared, 0,
			driver.KernelParams{}); res != tt.want {
			t.Errorf("%s, %d blocks of %d threads, %d bytes, cooperative: %v, want %v", tt.name, tt.grid, tt.block,
				tt.shared, res, tt.want)
		}
	}
	// The clusters do not divide the grid, and the grid is too large to be cooperative.
	for _, tt := range []struct{ grid, cluster uint32 }{{1, 2}, {1, 4}, {2, 4}} {
		f, res := r.ModuleGetFunction(r.th, m, "any")
		r.must(res)
		both := []driver.LaunchAttribute{words(cooperative, 1), words(dimension, tt.cluster, 1, 1)}
		for range 2 {
			c := config(0, tt.grid, both)
			c.SharedMemBytes = 300 << 10
			r.want("cooperative with clusters", badCluster, r.LaunchKernelEx(r.th, c, f, driver.KernelParams{}))
			slices.Reverse(both)
		}
	}
}

// TestCooperativeClusters makes cooperative launches with clusters. One block of them fits on a multiprocessor. Source:
// H200, driver 580, 2026-11-28, which was asked about captures and nodes only with 128 blocks in clusters of 8.
func TestCooperativeClusters(t *testing.T) {
	const (
		dimension, cooperative = driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
		tooLarge               = driver.ResultCooperativeLaunchTooLarge
		all                    = 232448 // bytes
	)
	r := newLab(t)
	f, s := r.kernel("k", ""), r.newStream()
	r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, all))
	r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))
	for _, tt := range []struct {
		grid, cluster uint32
		want          driver.Result
	}{
		{132, 0, ok}, {133, 0, tooLarge}, {132, 1, ok}, {132, 2, ok}, {132, 4, tooLarge}, {124, 4, tooLarge},
		{128, 8, tooLarge}, {120, 8, ok}, {136, 8, tooLarge}, {128, 16, tooLarge}, {112, 16, ok},
	} {
		both := []driver.LaunchAttribute{words(cooperative, 1)}
		if tt.cluster != 0 {
			both = append(both, words(dimension, tt.cluster, 1, 1))
		}
		c := config(s, tt.grid, both)
		c.SharedMemBytes = all
		if res := r.LaunchKernelEx(r.th, c, f, driver.KernelParams{}); res != tt.want {
			t.Errorf("%d blocks in clusters of %d: %v, want %v", tt.grid, tt.cluster, res, tt.want)
		}
		r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
		if res := r.LaunchKernelEx(r.th, c, f, driver.KernelParams{}); res != tt.want {
			t.Errorf("%d captured blocks in clusters of %d: %v, want %v", tt.grid, tt.cluster, res, tt.want)
		}
		g, res := r.StreamEndCapture(r.th, s)
		if tt.want == ok {
			r.must(res)
			r.must(r.GraphDestroy(r.th, g))
		} else {
			r.want("end", driver.ResultStreamCaptureInvalidated, res)
		}
		if tt.grid > uint32(profile.Default().Multiprocessors) { // too large without clusters, too
			continue
		}
		// The last attribute of a node is the one that does not fit.
		g, res = r.GraphCreate(r.th, 0)
		r.must(res)
		for range both {
			n, res := r.GraphAddKernelNode(r.th, g, nil, &driver.KernelNodeParams{Func: f, GridDimX: tt.grid,
				GridDimY: 1, GridDimZ: 1, BlockDimX: 32, BlockDimY: 1, BlockDimZ: 1, SharedMemBytes: all})
			r.must(res)
			for i, a := range both {
				want := ok
				if i == len(both)-1 {
					want = tt.want
				}
				if res := r.GraphKernelNodeSetAttribute(r.th, n, a.ID, &a.Value); res != want {
					t.Errorf("attribute %d of a node of %d blocks in clusters of %d: %v, want %v", a.ID, tt.grid,
						tt.cluster, res, want)
				}
			}
			slices.Reverse(both)
		}
		r.must(r.GraphDestroy(r.th, g))
	}
}

// TestCooperativeChecks makes cooperative launches with several mistakes. An H200 answers in another way if it
// captures.
// Source: H200, driver 580, 2026-11-28.
func TestCooperativeChecks(t *testing.T) {
	const (
		badCluster, tooLarge = driver.ResultInvalidClusterSize, driver.ResultCooperativeLaunchTooLarge
		invalid, preferred   = driver.ResultInvalidValue, driver.CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION
		dimension            = driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
		captured, now        = true, false
	)
	r := newLab(t)
	f := r.kernel("k", "")
	for _, tt := range []struct {
		captured     bool
		grid, shared uint32
		list         []driver.LaunchAttribute
		want         driver.Result
	}{
		{now, 4, 300 << 10, nil, tooLarge},
		{captured, 4, 300 << 10, nil, invalid},
		{now, 4, 300 << 10, []driver.LaunchAttribute{words(dimension, 2, 1, 1)}, tooLarge},
		{captured, 4, 300 << 10, []driver.LaunchAttribute{words(dimension, 2, 1, 1)}, invalid},
		{captured, 4, 300 << 10, []driver.LaunchAttribute{words(dimension, 3, 1, 1)}, badCluster},
		{captured, 0, 0, []driver.LaunchAttribute{words(dimension, 3, 1, 1)}, invalid},
		{captured, 1 << 20, 0, []driver.LaunchAttribute{words(dimension, 3, 1, 1)}, badCluster},
		{now, 4, 300 << 10, []driver.LaunchAttribute{words(preferred, 2, 1, 1)}, badCluster},
		{captured, 4, 300 << 10, []driver.LaunchAttribute{words(preferred, 2, 1, 1)}, invalid},
		{now, 4, 300 << 10, []driver.LaunchAttribute{words(dimension, 2, 1, 1), words(preferred, 3, 1, 1)}, badCluster},
		{now, 4, 300 << 10, []driver.LaunchAttribute{words(dimension, 2, 1, 1), words(preferred, 4, 1, 1)},
			notSupported},
		{now, 4, 48<<10 + 1, []driver.LaunchAttribute{words(dimension, 2, 1, 1)}, tooLarge},
		{now, 4, 48 << 10, []driver.LaunchAttribute{words(dimension, 2, 1, 1)}, ok},
	} {
		s := r.newStream()
		c := config(s, tt.grid, append(tt.list, words(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1)))
		c.SharedMemBytes = tt.shared
		if tt.captured {
			r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
		}
		if res := r.LaunchKernelEx(r.th, c, f, driver.KernelParams{}); res != tt.want {
			t.Errorf("captured: %t, %d blocks, %d bytes, %d more attributes: %v, want %v", tt.captured, tt.grid,
				tt.shared, len(tt.list), res, tt.want)
		}
		if tt.captured {
			_, res := r.StreamEndCapture(r.th, s)
			r.want("end", driver.ResultStreamCaptureInvalidated, res)
		}
	}
}
