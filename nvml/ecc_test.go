package nvml_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// worn is a GPU whose memories had errors.
type worn struct {
	basis
	newer bool
}

func (g worn) DeviceGetDetailedEccErrors(_ raw.Device, e raw.MemoryErrorType, c raw.EccCounterType,
	n *raw.EccErrorCounts) raw.Return {
	*n = raw.EccErrorCounts{L1Cache: uint64(e), L2Cache: uint64(c), DeviceMemory: 3, RegisterFile: 4}
	return raw.NVML_SUCCESS
}

func (g worn) DeviceGetSramEccErrorStatus(_ raw.Device, s *raw.EccSramErrorStatus) raw.Return {
	*s = raw.EccSramErrorStatus{Version: s.Version, AggregateUncParity: 1, AggregateUncSecDed: 2, AggregateCor: 3,
		VolatileUncParity: 4, VolatileUncSecDed: 5, VolatileCor: 6, AggregateUncBucketL2: 7, AggregateUncBucketSm: 8,
		AggregateUncBucketPcie: 9, AggregateUncBucketMcu: 10, AggregateUncBucketOther: 11, BThresholdExceeded: 1}
	if s.Version != raw.EccSramErrorStatusV1Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	return raw.NVML_SUCCESS
}

func (g worn) DeviceGetSramUniqueUncorrectedEccErrorCounts(_ raw.Device,
	c *raw.EccSramUniqueUncorrectedErrorCounts) raw.Return {
	if c.Version != raw.EccSramUniqueUncorrectedErrorCountsV1Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	room := c.EntryCount
	c.EntryCount = 1
	switch {
	case c.Entries == nil:
		return raw.NVML_SUCCESS
	case room < 1:
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	unsafe.Slice(c.Entries, room)[0] = raw.EccSramUniqueUncorrectedErrorEntryV1{Unit: 1, Location: 2, Sublocation: 3,
		Extlocation: 4, Address: 5, IsParity: 1, Count: 6}
	return raw.NVML_SUCCESS
}

var retired = []uint64{0x1000, 0x2000, 0x3000, 0x4000, 0x5000}

func (g worn) DeviceGetRetiredPagesV2(_ raw.Device, c raw.PageRetirementCause, n *uint32,
	addresses, times []uint64) raw.Return {
	if !g.newer {
		return raw.Unimplemented{}.DeviceGetRetiredPagesV2(0, c, n, addresses, times)
	}
	copy(times, []uint64{1.7e9, 1.7e12, 1.7e15, 1.7e18, 0})
	return g.DeviceGetRetiredPages(0, c, n, addresses)
}

func (g worn) DeviceGetRetiredPages(_ raw.Device, c raw.PageRetirementCause, n *uint32, addresses []uint64) raw.Return {
	room := *n
	*n = uint32(len(retired))
	if room < *n {
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	copy(addresses, retired)
	return raw.NVML_SUCCESS
}

func (g worn) DeviceGetRemappedRowsV2(_ raw.Device, n *raw.RemappedRowsInfoV2) raw.Return {
	if !g.newer {
		return raw.Unimplemented{}.DeviceGetRemappedRowsV2(0, n)
	}
	*n = raw.RemappedRowsInfoV2{CorrActiveRemaps: 1, CorrInactiveRemaps: 2, UncActiveRemaps: 3, UncInactiveRemaps: 4,
		BPending: 1}
	return raw.NVML_SUCCESS
}

func (g worn) DeviceGetRemappedRows(_ raw.Device, corrected, uncorrected, pending, failed *uint32) raw.Return {
	*corrected, *uncorrected, *pending, *failed = 1, 3, 0, 1
	return raw.NVML_SUCCESS
}

func (g worn) DeviceGetRowRemapperHistogram(_ raw.Device, v *raw.RowRemapperHistogramValues) raw.Return {
	*v = raw.RowRemapperHistogramValues{Max: 3072, High: 1, Partial: 2, Low: 3, None: 4}
	return raw.NVML_SUCCESS
}

func (g worn) DeviceGetRepairStatus(_ raw.Device, s *raw.RepairStatus) raw.Return {
	if s.Version != raw.RepairStatusV1Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	s.BTpcRepairPending = 1
	return raw.NVML_SUCCESS
}

func (g worn) DeviceGetUnrepairableMemoryFlagV1(_ raw.Device, s *raw.UnrepairableMemoryStatusV1) raw.Return {
	s.BUnrepairableMemory = 1
	return raw.NVML_SUCCESS
}

func TestECC(t *testing.T) {
	d, older := deviceOf(t, worn{newer: true}), deviceOf(t, worn{})
	wants(t, nvml.ECCErrorCounts{L1Cache: uint64(nvml.MemoryErrorUncorrected), L2Cache: uint64(nvml.ECCAggregate),
		DeviceMemory: 3, RegisterFile: 4})(d.DetailedECCErrors(nvml.MemoryErrorUncorrected, nvml.ECCAggregate))
	wants(t, nvml.SRAMErrors{Volatile: nvml.SRAMErrorCounts{Corrected: 6, Parity: 4, SECDED: 5},
		Aggregate: nvml.SRAMErrorCounts{Corrected: 3, Parity: 1, SECDED: 2}, L2: 7, SM: 8, PCIe: 9, Microcontroller: 10,
		Other: 11, ThresholdExceeded: true})(d.SRAMErrors())
	wants(t, []nvml.SRAMError{{Unit: 1, Location: 2, Sublocation: 3, ExtLocation: 4, Address: 5, Parity: true, Count: 6}})(
		d.UniqueSRAMErrors())
	var pages, undated []nvml.RetiredPage
	for _, address := range retired {
		pages = append(pages, nvml.RetiredPage{Address: address, Time: time.Unix(1.7e9, 0)})
		undated = append(undated, nvml.RetiredPage{Address: address})
	}
	pages[4].Time = time.Time{}
	wants(t, pages)(d.RetiredPages(nvml.RetiredDoubleBitECCError))
	wants(t, undated)(older.RetiredPages(nvml.RetiredDoubleBitECCError))
	wants(t, nvml.RemappedRows{Corrected: 1, Uncorrected: 3, InactiveCorrected: 2, InactiveUncorrected: 4, Pending: true})(
		d.RemappedRows())
	wants(t, nvml.RemappedRows{Corrected: 1, Uncorrected: 3, Failed: true})(older.RemappedRows())
	wants(t, nvml.RowRemapperHistogram{Max: 3072, High: 1, Partial: 2, Low: 3, None: 4})(d.RowRemapperHistogram())
	if channel, processors, err := d.RepairStatus(); channel || !processors || err != nil {
		t.Errorf("the repairs are %v and %v (%v)", channel, processors, err)
	}
	wants(t, true)(d.UnrepairableMemory())
}
