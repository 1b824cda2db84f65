package profile

// Capability is what all GPUs of a compute capability have. The sources are the technical specifications per compute
// capability in the CUDA C++ programming guide, cuda_occupancy.h of CUDA 13.0, the documentation of
// cuDevSmResourceSplitByCount, and for 9.0 an H200.
type Capability struct {
	Number          int32 // 90 for 9.0
	Threads, Blocks int32 // the most of a multiprocessor
	// Of shared memory, in bytes: what a multiprocessor has, the most for a block, what the system uses of it for each
	// block in addition, and of which number a block gets a multiple.
	Shared, SharedOfBlock, SharedOfSystem, SharedUnit int32
	CarveOuts                                         []uint64 // how much of its memory can be shared, in KiB
	Clusters                                          bool     // blocks can form clusters, and launches can overlap
	Domains                                           int32    // of the order of memory
	Parts                                             Parts
	DoubleRatio                                       int32  // how many times faster single precision is than double
	Cores                                             int32  // of a multiprocessor
	Architecture                                      uint32 // NVML's number of it
}

// Parts says how many multiprocessors a part of a device has: at least so many, and a multiple of Step. With
// CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING both are Fine.
type Parts struct{ Least, Step, Fine uint32 }

// Major returns the first number of the compute capability.
func (c *Capability) Major() int32 { return c.Number / 10 }

// Minor returns the second number of the compute capability.
func (c *Capability) Minor() int32 { return c.Number % 10 }

// What compute capabilities have.
var (
	cc75 = &Capability{Number: 75, Threads: 1024, Blocks: 16,
		Shared: 64 << 10, SharedOfBlock: 64 << 10, SharedUnit: 256, CarveOuts: []uint64{32, 64},
		Domains: 1, Parts: Parts{2, 2, 2}, DoubleRatio: 32, Cores: 64, Architecture: 6}

	cc80 = &Capability{Number: 80, Threads: 2048, Blocks: 32,
		Shared: 164 << 10, SharedOfBlock: 163 << 10, SharedOfSystem: 1 << 10, SharedUnit: 128,
		CarveOuts: []uint64{8, 16, 32, 64, 100, 132, 164},
		Domains:   1, Parts: Parts{4, 2, 2}, DoubleRatio: 2, Cores: 64, Architecture: 7}

	cc89 = &Capability{Number: 89, Threads: 1536, Blocks: 24,
		Shared: 100 << 10, SharedOfBlock: 99 << 10, SharedOfSystem: 1 << 10, SharedUnit: 128,
		CarveOuts: []uint64{8, 16, 32, 64, 100},
		Domains:   1, Parts: Parts{4, 2, 2}, DoubleRatio: 64, Cores: 128, Architecture: 8}

	cc90 = &Capability{Number: 90, Threads: 2048, Blocks: 32,
		Shared: 228 << 10, SharedOfBlock: 227 << 10, SharedOfSystem: 1 << 10, SharedUnit: 128,
		CarveOuts: []uint64{8, 16, 32, 64, 100, 132, 164, 196, 228}, Clusters: true,
		Domains: 4, Parts: Parts{8, 8, 2}, DoubleRatio: 2, Cores: 128, Architecture: 9}

	cc100 = &Capability{Number: 100, Threads: 2048, Blocks: 32,
		Shared: 228 << 10, SharedOfBlock: 227 << 10, SharedOfSystem: 1 << 10, SharedUnit: 128,
		CarveOuts: []uint64{8, 16, 32, 64, 100, 132, 164, 196, 228}, Clusters: true,
		Domains: 4, Parts: Parts{8, 8, 2}, DoubleRatio: 2, Cores: 128, Architecture: 10}
)
