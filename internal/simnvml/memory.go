package simnvml

import "github.com/purecu/purecu/nvml/raw"

// driverMemory is what the driver takes of the memory that CUDA knows of, in bytes. It also has the rest of the memory.
const driverMemory = 128 << 10

// memoryInfo returns how much memory there is.
func memoryInfo(g *gpu, now GPU) raw.MemoryV2 {
	if g.part != nil {
		return raw.MemoryV2{Total: now.Memory, Used: now.Used, Free: now.Memory - now.Used}
	}
	total := g.profile.Memory.Total
	m := raw.MemoryV2{Total: total, Reserved: total - now.Memory + driverMemory, Used: now.Used}
	m.Free = m.Total - min(m.Total, m.Reserved+m.Used)
	return m
}

// DeviceGetMemoryInfo returns how much memory there is. What the driver reserves counts as used.
func (n *model) DeviceGetMemoryInfo(device raw.Device, memory *raw.Memory) raw.Return {
	return n.then(n.answers.DeviceGetMemoryInfo(device, memory), device, func(g *gpu, now GPU) {
		m := memoryInfo(g, now)
		*memory = raw.Memory{Total: m.Total, Used: m.Total - m.Free, Free: m.Free}
	})
}

// DeviceGetMemoryInfoV2 returns how much memory there is, and how much of it the driver reserves.
func (n *model) DeviceGetMemoryInfoV2(device raw.Device, memory *raw.MemoryV2) raw.Return {
	return n.then(n.answers.DeviceGetMemoryInfoV2(device, memory), device, func(g *gpu, now GPU) {
		m := memoryInfo(g, now)
		m.Version = memory.Version
		*memory = m
	})
}

// DeviceGetBAR1MemoryInfo returns how much of the memory the processor can address. An H200 maps all that is used.
func (n *model) DeviceGetBAR1MemoryInfo(device raw.Device, bar *raw.BAR1Memory) raw.Return {
	return n.then(n.answers.DeviceGetBAR1MemoryInfo(device, bar), device, func(g *gpu, now GPU) {
		if g.part != nil { // its share
			bar.Bar1Total = bar.Bar1Total / memorySlices * uint64(g.part.parent.at.Size)
			bar.Bar1Used, bar.Bar1Free = 0, bar.Bar1Total
		}
		used := min(now.Used, bar.Bar1Free) // a small BAR1 does not map all memory
		bar.Bar1Used += used
		bar.Bar1Free -= used
	})
}
