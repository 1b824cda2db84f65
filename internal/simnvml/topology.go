package simnvml

import "github.com/purecu/purecu/nvml/raw"

// All GPUs of a software machine are on one NUMA node, and those of one kind can access each other's memory over PCIe,
// or over NVLinks, if there are any.

// SystemGetTopologyGpuSet returns the GPUs near a processor, which are all near those that the recorded machine had.
func (n *model) SystemGetTopologyGpuSet(processor uint32, count *uint32, devices []raw.Device) raw.Return {
	clear(devices)
	r := n.answers.SystemGetTopologyGpuSet(processor, count, devices)
	if r != raw.NVML_SUCCESS || len(devices) > 0 && devices[0] == 0 {
		return r
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(devices) > 0 && len(devices) < len(n.gpus) {
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	for i, g := range n.gpus[:min(len(n.gpus), len(devices))] {
		devices[i] = g.handle
	}
	if *count < uint32(len(n.gpus)) {
		*count = uint32(len(n.gpus))
	}
	return r
}

// DeviceGetTopologyNearestGpus returns the other GPUs if they are asked for by the level of a NUMA node.
func (n *model) DeviceGetTopologyNearestGpus(device raw.Device, level raw.GpuTopologyLevel, count *uint32,
	devices []raw.Device) raw.Return {
	room := uint32(0)
	if count != nil {
		room = *count
	}
	return n.then(n.answers.DeviceGetTopologyNearestGpus(device, level, count, devices), device, func(g *gpu, _ GPU) {
		if level != raw.NVML_TOPOLOGY_NODE {
			return
		}
		*count = uint32(len(n.gpus) - 1)
		i := uint32(0)
		for _, other := range n.gpus {
			if other != g && i < min(room, uint32(len(devices))) {
				devices[i] = other.handle
				i++
			}
		}
	})
}

// others answers a call about two GPUs: the answers know one of a GPU with itself.
func (n *model) others(r raw.Return, one, other raw.Device, set func(alike bool)) raw.Return {
	n.mu.Lock()
	a, b := n.find(one), n.find(other)
	n.mu.Unlock()
	if one == other || a == nil || b == nil {
		return r
	}
	set(a.profile == b.profile)
	return raw.NVML_SUCCESS
}

// DeviceGetTopologyCommonAncestor returns how near two GPUs are to each other.
func (n *model) DeviceGetTopologyCommonAncestor(one, other raw.Device, level *raw.GpuTopologyLevel) raw.Return {
	r := n.answers.DeviceGetTopologyCommonAncestor(one, other, level)
	if r != raw.NVML_ERROR_NOT_SUPPORTED {
		return r
	}
	return n.others(r, one, other, func(bool) { *level = raw.NVML_TOPOLOGY_NODE })
}

// DeviceGetP2PStatus reports whether a GPU can access the memory of another one.
func (n *model) DeviceGetP2PStatus(one, other raw.Device, kind raw.GpuP2PCapsIndex,
	status *raw.GpuP2PStatus) raw.Return {
	r := n.answers.DeviceGetP2PStatus(one, other, kind, status)
	if r != raw.NVML_SUCCESS {
		return r
	}
	return n.others(r, one, other, func(alike bool) {
		if !alike { // as CUDA says
			return
		}
		switch kind {
		case raw.NVML_P2P_CAPS_INDEX_READ, raw.NVML_P2P_CAPS_INDEX_WRITE, raw.NVML_P2P_CAPS_INDEX_PCI:
			*status = raw.NVML_P2P_STATUS_OK
		case raw.NVML_P2P_CAPS_INDEX_NVLINK, raw.NVML_P2P_CAPS_INDEX_ATOMICS:
			n.mu.Lock()
			defer n.mu.Unlock()
			if connected(n.find(one), n.find(other)) {
				*status = raw.NVML_P2P_STATUS_OK
			}
		}
	})
}

// DeviceOnSameBoard reports whether two GPUs are on one board.
func (n *model) DeviceOnSameBoard(one, other raw.Device, same *int32) raw.Return {
	r := n.answers.DeviceOnSameBoard(one, other, same)
	if r != raw.NVML_SUCCESS {
		return r
	}
	return n.others(r, one, other, func(bool) { *same = 0 })
}
