package simnvml

import (
	"fmt"

	"github.com/purecu/purecu/nvml/raw"
)

// counters are the errors of a GPU's memory.
type counters struct {
	volatile, aggregate [2]uint64 // corrected, and uncorrected: since the driver was loaded, and ever
	remapped            [2]uint32 // rows that were replaced
	pending, failed     bool      // a row will be replaced when the GPU is reset; one could not be
}

// at calls f with a GPU, while the state is locked. A GPU that is not there is a misuse.
func (n *model) at(index int, f func(g *gpu)) {
	if index < 0 || index >= len(n.gpus) {
		n.machine.Misuse("NVML", fmt.Sprintf("there is no GPU %d, so nothing happens to it", index))
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n.gpus[index])
}

// ECCErrors adds errors to the counters of a GPU's memory, and reports them as events.
func (n *model) ECCErrors(index int, corrected, uncorrected uint64) {
	n.at(index, func(g *gpu) {
		for i, k := range [2]uint64{corrected, uncorrected} {
			g.errors.volatile[i] += k
			g.errors.aggregate[i] += k
			if k > 0 {
				n.happens(g, [2]uint64{raw.EventTypeSingleBitEccError, raw.EventTypeDoubleBitEccError}[i], 0)
			}
		}
	})
}

// RemappedRows sets how many rows of a GPU's memory were replaced, and whether one waits for a reset, or could not be.
func (n *model) RemappedRows(index int, corrected, uncorrected uint32, pending, failed bool) {
	n.at(index, func(g *gpu) {
		g.errors.remapped, g.errors.pending, g.errors.failed = [2]uint32{corrected, uncorrected}, pending, failed
		n.happens(g, raw.EventTypeDramRetirementEvent, 0)
		if failed {
			n.happens(g, raw.EventTypeDramRetirementFailure, 0)
		}
	})
}

// LoseGPU makes all calls about a GPU fail as if it had fallen off the bus, and reports XID 79.
func (n *model) LoseGPU(index int) {
	n.at(index, func(g *gpu) {
		n.happens(g, raw.EventTypeXidCriticalError, 79)
		g.lost = true
	})
}

// ClocksEventReasons sets why the clocks of a GPU are not higher: a sum of raw.ClocksEventReason….
func (n *model) ClocksEventReasons(index int, reasons uint64) {
	n.at(index, func(g *gpu) { g.reasons = reasons })
}

// count returns how many errors of a kind there were.
func (c *counters) count(kind raw.MemoryErrorType, since raw.EccCounterType) uint64 {
	all := &c.volatile
	if since == raw.NVML_AGGREGATE_ECC {
		all = &c.aggregate
	}
	if kind == raw.NVML_MEMORY_ERROR_TYPE_UNCORRECTED {
		return all[1]
	}
	return all[0]
}

// DeviceGetTotalEccErrors returns how many errors there were.
func (n *model) DeviceGetTotalEccErrors(device raw.Device, kind raw.MemoryErrorType, since raw.EccCounterType,
	count *uint64) raw.Return {
	return n.then(n.answers.DeviceGetTotalEccErrors(device, kind, since, count), device,
		func(g *gpu, _ GPU) { *count = g.errors.count(kind, since) })
}

// DeviceGetDetailedEccErrors returns how many errors there were. All were in the device's memory.
func (n *model) DeviceGetDetailedEccErrors(device raw.Device, kind raw.MemoryErrorType, since raw.EccCounterType,
	counts *raw.EccErrorCounts) raw.Return {
	return n.then(n.answers.DeviceGetDetailedEccErrors(device, kind, since, counts), device,
		func(g *gpu, _ GPU) { counts.DeviceMemory = g.errors.count(kind, since) })
}

// DeviceGetMemoryErrorCounter returns how many errors there were in a part of the GPU. All were in the device's memory.
func (n *model) DeviceGetMemoryErrorCounter(device raw.Device, kind raw.MemoryErrorType, since raw.EccCounterType,
	where raw.MemoryLocation, count *uint64) raw.Return {
	return n.then(n.answers.DeviceGetMemoryErrorCounter(device, kind, since, where, count), device, func(g *gpu, _ GPU) {
		if where == raw.NVML_MEMORY_LOCATION_DRAM {
			*count = g.errors.count(kind, since)
		}
	})
}

// DeviceClearEccErrorCounts sets the counters to zero.
func (n *model) DeviceClearEccErrorCounts(device raw.Device, since raw.EccCounterType) raw.Return {
	return n.change("DeviceClearEccErrorCounts", device, func(g *gpu) raw.Return {
		switch since {
		case raw.NVML_VOLATILE_ECC:
			g.errors.volatile = [2]uint64{}
		case raw.NVML_AGGREGATE_ECC:
			g.errors.aggregate = [2]uint64{}
		default:
			return raw.NVML_ERROR_INVALID_ARGUMENT
		}
		return raw.NVML_SUCCESS
	}, since)
}

// DeviceGetRemappedRows returns how many rows were replaced.
func (n *model) DeviceGetRemappedRows(device raw.Device, corrected, uncorrected, pending, failed *uint32) raw.Return {
	return n.then(n.answers.DeviceGetRemappedRows(device, corrected, uncorrected, pending, failed), device,
		func(g *gpu, _ GPU) {
			*corrected, *uncorrected = g.errors.remapped[0], g.errors.remapped[1]
			*pending, *failed = bit(g.errors.pending), bit(g.errors.failed)
		})
}

// DeviceGetRemappedRowsV2 returns how many rows were replaced.
func (n *model) DeviceGetRemappedRowsV2(device raw.Device, rows *raw.RemappedRowsInfoV2) raw.Return {
	return n.then(n.answers.DeviceGetRemappedRowsV2(device, rows), device, func(g *gpu, _ GPU) {
		rows.CorrActiveRemaps, rows.UncActiveRemaps = g.errors.remapped[0], g.errors.remapped[1]
		rows.BPending, rows.BFailureOccurred = bit(g.errors.pending), bit(g.errors.failed)
	})
}

// DeviceGetRowRemapperHistogram returns how many banks have how many spare rows left.
func (n *model) DeviceGetRowRemapperHistogram(device raw.Device, values *raw.RowRemapperHistogramValues) raw.Return {
	return n.then(n.answers.DeviceGetRowRemapperHistogram(device, values), device, func(g *gpu, _ GPU) {
		// Each row is in a bank of its own.
		banks := uint32(min(uint64(g.errors.remapped[0])+uint64(g.errors.remapped[1]), uint64(values.Max)))
		values.Max, values.High = values.Max-banks, banks
		if g.errors.failed && values.High > 0 {
			values.High, values.None = values.High-1, values.None+1
		}
	})
}

// bit is C's number for a condition.
func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
