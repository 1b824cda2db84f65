package profile

// The sources of the GPUs other than the H200 are the output of deviceQuery and of PyTorch in public repositories (the
// multiprocessors, the memory that CUDA sees, the L2 cache, the bus and the engines that copy), and the output of
// nvidia-smi -q -x that NVIDIA has published in its repository k8s-test-infra (all that NVML says: PCI, clocks, power,
// temperatures, boards). What can persist in the L2 cache is 5/8 of it on an H100 and an H200, and 11/16 on GPUs of
// compute capability 8.9.

// t4 is a Tesla T4. It has no L2 cache that persists, and no window of an access policy: public reports of
// cudaDeviceProp on compute capability 7.5.
var t4 = &GPU{Name: "T4", Product: "Tesla T4", Capability: cc75, Multiprocessors: 40, Engines: 3,
	Memory: Memory{Size: 15_655_829_504, Total: 15360 << 20, BAR1: 256 << 20, BusWidth: 256, L2: 4 << 20},
	Clocks: Clocks{Idle: 300, Graphics: 1590, Step: 15, Applications: 585, Memory: 5001, SlowMemory: 405,
		IdleVideo: 540, Video: 1470},
	Power: Power{Idle: 14_000, Least: 60_000, Most: 70_000}, Temperatures: Temperatures{96, 93, 0, 85},
	PCI:   PCI{0x1eb810de, 0x12a210de, 3},
	Board: Board{"900-2G183-A800-001", "90.04.96.00.02", "G183.0200.00.02", "1.1", "5.0"}}

// a100 is an A100-SXM4-40GB.
var a100 = &GPU{Name: "A100", Product: "NVIDIA A100-SXM4-40GB", Capability: cc80, Multiprocessors: 108, Engines: 3,
	Memory: Memory{Size: 42_405_855_232, Total: 40960 << 20, BAR1: 65536 << 20, BusWidth: 5120, L2: 40 << 20,
		Persisting: 25 << 20, Window: 134_213_632, Rows: 640},
	Clocks: Clocks{Idle: 210, Graphics: 1410, Step: 15, Applications: 1095, Memory: 1215, IdleVideo: 585, Video: 1290},
	Power:  Power{Idle: 50_000, Least: 100_000, Most: 400_000}, Temperatures: Temperatures{92, 89, 95, 85},
	PCI:     PCI{0x20b010de, 0x134f10de, 4},
	Board:   Board{"692-2G506-0200-003", "92.00.45.00.03", "G506.0200.00.04", "2.0", "6.16"},
	NVLinks: 12, MIG: migA100}

// l40s is an L40S.
var l40s = &GPU{Name: "L40S", Product: "NVIDIA L40S", Capability: cc89, Multiprocessors: 142, Engines: 2,
	Memory: Memory{Size: 47_576_711_168, Total: 46068 << 20, BAR1: 65536 << 20, BusWidth: 384, L2: 96 << 20,
		Persisting: 66 << 20, Window: 134_213_632, Rows: 192},
	Clocks: Clocks{Idle: 210, Graphics: 2520, Step: 15, Applications: 2520, Memory: 9001, SlowMemory: 405,
		IdleVideo: 1185, Video: 1965},
	Power: Power{Idle: 33_000, Least: 100_000, Most: 350_000}, Temperatures: Temperatures{93, 90, 0, 88},
	PCI:   PCI{0x26b910de, 0x185110de, 4},
	Board: Board{"900-2G133-A880-000", "95.02.66.00.15", "G133.0242.00.03", "2.1", "6.16"}}

// h100 is an H100-SXM5-80GB. Its attributes were recorded with driver 580; how much memory CUDA sees was not.
var h100 = &GPU{Name: "H100", Product: "NVIDIA H100 80GB HBM3", Recorded: true, Capability: cc90, Multiprocessors: 132,
	Engines: 3, Groups: groupsGH100,
	Memory: Memory{Size: 85_017_755_648, Total: 81559 << 20, BAR1: 131072 << 20, BusWidth: 5120, L2: 50 << 20,
		Persisting: 32_000 << 10, Window: 128 << 20, Rows: 2560},
	Clocks: Clocks{Idle: 345, Graphics: 1980, Step: 15, Applications: 1980, Memory: 2619, SlowMemory: 1593,
		IdleVideo: 765, Video: 1545},
	Power: Power{Idle: 69_000, Least: 200_000, Most: 700_000}, Temperatures: Temperatures{95, 89, 95, 87},
	PCI:     PCI{0x233010de, 0x16c110de, 5},
	Board:   Board{"692-2G520-0200-000", "96.00.99.00.01", "G520.0200.00.05", "2.1", "7.16"},
	NVLinks: 18, MIG: migH100}

// h200 is an H200 with driver 580.159.04.
var h200 = &GPU{Name: "H200", Product: "NVIDIA H200", Recorded: true, Capability: cc90,
	Multiprocessors: 132, Engines: 3,
	Groups: groupsGH100,
	Memory: Memory{Size: 150_110_011_392, Total: 150_754_820_096, BAR1: 262144 << 20, BusWidth: 6016, L2: 60 << 20,
		Persisting: 38_400 << 10, Window: 128 << 20, Rows: 3072},
	Clocks: Clocks{Idle: 345, Graphics: 1980, Step: 15, Applications: 1980, Memory: 3201, SlowMemory: 2201,
		IdleVideo: 765, Video: 1545},
	Power: Power{Idle: 80_000, Least: 200_000, Most: 700_000}, Temperatures: Temperatures{95, 89, 95, 87},
	PCI:     PCI{0x233510de, 0x18bf10de, 5},
	Board:   Board{"692-2G520-0282-000", "96.00.A5.00.1A", "G520.0282.02.02", "2.1", "7.16"},
	NVLinks: 18, MIG: migH200}

// groupsGH100 follows from the results of cuOccupancyMaxActiveClusters of one H200. Other cards may have others.
var groupsGH100 = []uint64{18, 18, 16, 16, 16, 16, 16, 8, 2, 2, 2, 2}

// b200 is a B200. Its groups of multiprocessors are a guess: 148 of them in 8 groups.
var b200 = &GPU{Name: "B200", Product: "NVIDIA B200", Capability: cc100, Multiprocessors: 148, Engines: 3,
	Groups: []uint64{20, 20, 18, 18, 18, 18, 18, 18},
	Memory: Memory{Size: 182642 << 20, Total: 183359 << 20, BAR1: 262144 << 20, BusWidth: 8192, L2: 132_644_864,
		Persisting: 82_903_040, Window: 128 << 20, Rows: 3840},
	Clocks: Clocks{Idle: 120, Graphics: 1965, Step: 15, Applications: 1965, Memory: 3996, SlowMemory: 3402,
		IdleVideo: 600, Video: 1965},
	Power: Power{Idle: 140_000, Least: 200_000, Most: 1_000_000}, Temperatures: Temperatures{93, 91, 95, 88},
	PCI:     PCI{0x290110de, 0x199910de, 5},
	Board:   Board{"692-2G525-0220-500", "97.00.FA.00.09", "G525.0220.00.03", "2.1", "7.16"},
	NVLinks: 18, MIG: migB200}
