package simnvml

import "github.com/purecu/purecu/nvml/raw"

// DeviceGetFieldValues returns the values of fields, each with its own result.
func (n *model) DeviceGetFieldValues(device raw.Device, values []raw.FieldValue) raw.Return {
	if len(values) == 0 {
		return n.answers.DeviceGetFieldValues(device, values)
	}
	all := n.machine.GPUs() // once, so that the values belong together
	for i := range values {
		if r := n.answers.DeviceGetFieldValues(device, values[i:i+1]); r != raw.NVML_SUCCESS {
			return r
		}
		n.mu.Lock()
		if g := n.device(device); g != nil {
			n.setField(&values[i], g, n.now(g, all))
		}
		n.mu.Unlock()
	}
	return raw.NVML_SUCCESS
}

// DeviceClearFieldValues sets counters of a GPU to 0. Each field has its own result.
func (n *model) DeviceClearFieldValues(device raw.Device, values []raw.FieldValue) raw.Return {
	if len(values) == 0 {
		return n.answers.DeviceClearFieldValues(device, values)
	}
	if r := n.DeviceGetFieldValues(device, values); r != raw.NVML_SUCCESS {
		return r
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	g := n.device(device)
	for i := range values {
		f := &values[i]
		f.Value = raw.Value{}
		switch {
		case g == nil || !countsOfPCIe(f.FieldId):
			f.NvmlReturn = raw.NVML_ERROR_INVALID_ARGUMENT
		case f.NvmlReturn == raw.NVML_SUCCESS:
			if g.cleared == nil {
				g.cleared = make(map[uint32]bool)
			}
			g.cleared[f.FieldId] = true
		}
	}
	return raw.NVML_SUCCESS
}

// countsOfPCIe reports whether a field counts errors of PCI Express.
func countsOfPCIe(id uint32) bool {
	switch id {
	case raw.NVML_FI_DEV_PCIE_REPLAY_COUNTER, raw.NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER,
		raw.NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER:
		return true
	}
	return id >= raw.NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS && id <= raw.NVML_FI_DEV_PCIE_COUNT_LANE_ERROR
}

// DeviceGetPcieReplayCounter returns how often data was sent again.
func (n *model) DeviceGetPcieReplayCounter(device raw.Device, count *uint32) raw.Return {
	return n.then(n.answers.DeviceGetPcieReplayCounter(device, count), device, func(g *gpu, _ GPU) {
		if g.cleared[raw.NVML_FI_DEV_PCIE_REPLAY_COUNTER] {
			*count = 0
		}
	})
}

// setField sets the value of a field that changes.
func (n *model) setField(f *raw.FieldValue, g *gpu, now GPU) {
	f.Timestamp, f.LatencyUsec = int64(n.timestamp()), 1
	setLinkField(f, g)
	if f.NvmlReturn == raw.NVML_SUCCESS && lacksField(f.FieldId, now) {
		f.NvmlReturn = raw.NVML_ERROR_NOT_SUPPORTED
	}
	if f.NvmlReturn != raw.NVML_SUCCESS {
		return
	}
	if g.cleared[f.FieldId] {
		f.Value = raw.Value{}
	}
	if s, ok := settingFields[f.FieldId]; ok {
		*f.Value.UllVal() = now.Settings[s]
	}
	switch f.FieldId {
	case raw.NVML_FI_DEV_MEMORY_TEMP:
		*f.Value.UiVal() = temperature(now)
	case raw.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, raw.NVML_FI_DEV_ENERGY:
		*f.Value.UllVal() = n.energy(now)
	case raw.NVML_FI_DEV_POWER_AVERAGE, raw.NVML_FI_DEV_POWER_INSTANT:
		if f.ScopeId == raw.NVML_POWER_SCOPE_GPU { // that of the memory is as it was recorded
			*f.Value.UiVal() = power(now)
		}
	case raw.NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
		*f.Value.UllVal() = g.errors.volatile[0]
	case raw.NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
		*f.Value.UllVal() = g.errors.volatile[1]
	case raw.NVML_FI_DEV_ECC_SBE_AGG_TOTAL:
		*f.Value.UllVal() = g.errors.aggregate[0]
	case raw.NVML_FI_DEV_ECC_DBE_AGG_TOTAL:
		*f.Value.UllVal() = g.errors.aggregate[1]
	case raw.NVML_FI_DEV_REMAPPED_COR:
		*f.Value.UiVal() = g.errors.remapped[0]
	case raw.NVML_FI_DEV_REMAPPED_UNC:
		*f.Value.UiVal() = g.errors.remapped[1]
	case raw.NVML_FI_DEV_REMAPPED_PENDING:
		*f.Value.UiVal() = bit(g.errors.pending)
	case raw.NVML_FI_DEV_REMAPPED_FAILURE:
		*f.Value.UiVal() = bit(g.errors.failed)
	}
}

// lacksField reports whether a field needs ECC, which is off, or spare rows or a thermometer of the memory, which the
// GPU does not have.
func lacksField(id uint32, now GPU) bool {
	switch id {
	case raw.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, raw.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, raw.NVML_FI_DEV_ECC_SBE_AGG_TOTAL,
		raw.NVML_FI_DEV_ECC_DBE_AGG_TOTAL:
		return now.Settings[eccMode] == 0
	case raw.NVML_FI_DEV_REMAPPED_COR, raw.NVML_FI_DEV_REMAPPED_UNC, raw.NVML_FI_DEV_REMAPPED_PENDING,
		raw.NVML_FI_DEV_REMAPPED_FAILURE:
		return now.Profile.Memory.Rows == 0
	case raw.NVML_FI_DEV_MEMORY_TEMP:
		return now.Profile.Temperatures.Memory == 0
	}
	return false
}
