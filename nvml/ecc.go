package nvml

import (
	"math"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// ECCErrorCounts says how many errors memories had. A memory that the GPU does not have has 0.
type ECCErrorCounts struct{ L1Cache, L2Cache, DeviceMemory, RegisterFile uint64 }

// DetailedECCErrors returns how many errors some memories of the GPU had (nvmlDeviceGetDetailedEccErrors).
// [Device.MemoryErrors] knows more memories.
func (d *Device) DetailedECCErrors(e MemoryError, c ECCCounter) (ECCErrorCounts, error) {
	const op = "nvmlDeviceGetDetailedEccErrors"
	w, err := d.obj().call(op, words{b: uint64(e), c: uint64(c)}, func(l *raw.Library, w words) (words, raw.Return) {
		var n raw.EccErrorCounts
		r := l.DeviceGetDetailedEccErrors(raw.Device(w.a), raw.MemoryErrorType(w.b), raw.EccCounterType(w.c), &n)
		return words{n.L1Cache, n.L2Cache, n.DeviceMemory, n.RegisterFile}, r
	})
	return ECCErrorCounts{w.a, w.b, w.c, w.d}, err
}

// SRAMErrorCounts says how many errors the memories inside a GPU had.
type SRAMErrorCounts struct {
	Corrected uint64
	// Parity and SECDED are the uncorrected errors, by the check that has found them.
	Parity, SECDED uint64
}

// SRAMErrors says how many errors the memories inside a GPU had.
type SRAMErrors struct {
	Volatile  SRAMErrorCounts // since the driver was loaded
	Aggregate SRAMErrorCounts // since the GPU was made
	// L2, SM, PCIe, Microcontroller and Other are the parts of the GPU that the uncorrected errors of Aggregate were
	// in.
	L2, SM, PCIe, Microcontroller, Other uint64
	// ThresholdExceeded says that the GPU had so many errors that it should be tested.
	ThresholdExceeded bool
}

// SRAMErrors returns how many errors the memories inside the GPU had (nvmlDeviceGetSramEccErrorStatus). Only GPUs since
// Ampere have this.
func (d *Device) SRAMErrors() (SRAMErrors, error) {
	return get(d.obj(), "nvmlDeviceGetSramEccErrorStatus", func(l *raw.Library, h uint64) (SRAMErrors, raw.Return) {
		s := raw.EccSramErrorStatus{Version: raw.EccSramErrorStatusV1Version}
		r := l.DeviceGetSramEccErrorStatus(raw.Device(h), &s)
		return SRAMErrors{
			Volatile:  SRAMErrorCounts{s.VolatileCor, s.VolatileUncParity, s.VolatileUncSecDed},
			Aggregate: SRAMErrorCounts{s.AggregateCor, s.AggregateUncParity, s.AggregateUncSecDed},
			L2:        s.AggregateUncBucketL2, SM: s.AggregateUncBucketSm, PCIe: s.AggregateUncBucketPcie,
			Microcontroller: s.AggregateUncBucketMcu, Other: s.AggregateUncBucketOther,
			ThresholdExceeded: truth(s.BThresholdExceeded),
		}, r
	})
}

// SRAMError is a place in a memory inside a GPU that had uncorrected errors.
type SRAMError struct {
	// Unit, Location, Sublocation, ExtLocation and Address are the place. Their meaning depends on the GPU.
	Unit, Location, Sublocation, ExtLocation, Address uint32
	// Parity says that a parity check has found the errors.
	Parity bool
	Count  uint32
}

// UniqueSRAMErrors returns the places in the memories inside the GPU that had uncorrected errors
// (nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts). Only GPUs since Blackwell whose [Device.ECCMode] is on have this.
func (d *Device) UniqueSRAMErrors() ([]SRAMError, error) {
	const op = "nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts"
	return get(d.obj(), op, func(l *raw.Library, h uint64) ([]SRAMError, raw.Return) {
		all, r := list(func(n *uint32, entries []raw.EccSramUniqueUncorrectedErrorEntryV1) raw.Return {
			c := raw.EccSramUniqueUncorrectedErrorCounts{Version: raw.EccSramUniqueUncorrectedErrorCountsV1Version,
				EntryCount: *n, Entries: first(entries)}
			r := l.DeviceGetSramUniqueUncorrectedEccErrorCounts(raw.Device(h), &c)
			*n = c.EntryCount
			return r
		})
		return each(all, func(e raw.EccSramUniqueUncorrectedErrorEntryV1) SRAMError {
			return SRAMError{e.Unit, e.Location, e.Sublocation, e.Extlocation, e.Address, truth(e.IsParity), e.Count}
		}), r
	})
}

// RetiredPage is a page of a GPU's memory that is not used any more because of errors.
type RetiredPage struct {
	// Address is the one that the hardware uses, and that XID 63 reports. Addresses of programs are others.
	Address uint64
	// Time is when the page was retired, or the zero Time if it is unknown.
	Time time.Time
}

// RetiredPages returns the pages that were retired for a reason, with those that the next reset retires
// (nvmlDeviceGetRetiredPages_v2, and nvmlDeviceGetRetiredPages for older drivers). GPUs since Ampere replace rows
// instead: see [Device.RemappedRows].
func (d *Device) RetiredPages(cause PageRetirementCause) ([]RetiredPage, error) {
	const op = "nvmlDeviceGetRetiredPages_v2"
	return get(d.obj(), op, func(l *raw.Library, h uint64) ([]RetiredPage, raw.Return) {
		var times []uint64
		all, r := list(func(n *uint32, addresses []uint64) raw.Return {
			times = make([]uint64, len(addresses))
			return l.DeviceGetRetiredPagesV2(raw.Device(h), cause, n, addresses, times)
		})
		if lacks(r) {
			all, r = list(func(n *uint32, addresses []uint64) raw.Return {
				return l.DeviceGetRetiredPages(raw.Device(h), cause, n, addresses)
			})
			times = make([]uint64, len(all))
		}
		pages := make([]RetiredPage, len(all))
		for i, address := range all {
			pages[i] = RetiredPage{address, someTime(times[i])}
		}
		return pages, r
	})
}

// someTime returns the time of a number since 1970 whose unit is not documented. The size of the number says which it
// is, for two centuries.
func someTime(n uint64) time.Time {
	switch {
	case n == 0:
		return time.Time{}
	case n < 1<<33:
		return time.Unix(int64(n), 0)
	case n < 1<<43:
		return time.UnixMilli(int64(n))
	case n < 1<<53:
		return time.UnixMicro(int64(n))
	}
	return time.Unix(0, int64(min(n, math.MaxInt64)))
}

// RemappedRows says how many rows of a GPU's memory were replaced by spare ones.
type RemappedRows struct {
	// Corrected and Uncorrected are the rows that had correctable and uncorrectable errors.
	Corrected, Uncorrected int
	// InactiveCorrected and InactiveUncorrected are those of them whose replacement is not in use. They are 0 if the
	// driver does not say them. Unverified: no driver has confirmed them.
	InactiveCorrected, InactiveUncorrected int
	// Pending says that the next reset replaces more rows.
	Pending bool
	// Failed says that a row could not be replaced: the GPU should be exchanged.
	Failed bool
}

// RemappedRows returns how many rows of the GPU's memory were replaced by spare ones (nvmlDeviceGetRemappedRows_v2, and
// nvmlDeviceGetRemappedRows for older drivers). Only GPUs since Ampere have this.
func (d *Device) RemappedRows() (RemappedRows, error) {
	return get(d.obj(), "nvmlDeviceGetRemappedRows_v2", func(l *raw.Library, h uint64) (RemappedRows, raw.Return) {
		var n raw.RemappedRowsInfoV2
		r := l.DeviceGetRemappedRowsV2(raw.Device(h), &n)
		if lacks(r) {
			n = raw.RemappedRowsInfoV2{}
			r = l.DeviceGetRemappedRows(raw.Device(h), &n.CorrActiveRemaps, &n.UncActiveRemaps, &n.BPending, &n.BFailureOccurred)
		}
		return RemappedRows{int(n.CorrActiveRemaps), int(n.UncActiveRemaps), int(n.CorrInactiveRemaps),
			int(n.UncInactiveRemaps), truth(n.BPending), truth(n.BFailureOccurred)}, r
	})
}

// RowRemapperHistogram says how many banks of a GPU's memory have how many spare rows left: all, many, some, few, none.
type RowRemapperHistogram struct{ Max, High, Partial, Low, None int }

// RowRemapperHistogram returns how many banks of the GPU's memory have how many spare rows left
// (nvmlDeviceGetRowRemapperHistogram). Only GPUs since Ampere have this.
func (d *Device) RowRemapperHistogram() (RowRemapperHistogram, error) {
	const op = "nvmlDeviceGetRowRemapperHistogram"
	return get(d.obj(), op, func(l *raw.Library, h uint64) (RowRemapperHistogram, raw.Return) {
		var v raw.RowRemapperHistogramValues
		r := l.DeviceGetRowRemapperHistogram(raw.Device(h), &v)
		return RowRemapperHistogram{int(v.Max), int(v.High), int(v.Partial), int(v.Low), int(v.None)}, r
	})
}

// RepairStatus reports whether the next reset repairs a channel of the memory, and whether it repairs a group of
// processors (nvmlDeviceGetRepairStatus). Only GPUs since Ampere have this.
func (d *Device) RepairStatus() (channelPending, processorsPending bool, err error) {
	const op = "nvmlDeviceGetRepairStatus"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		s := raw.RepairStatus{Version: raw.RepairStatusV1Version}
		r := l.DeviceGetRepairStatus(raw.Device(w.a), &s)
		return words{a: uint64(s.BChannelRepairPending), b: uint64(s.BTpcRepairPending)}, r
	})
	return w.a != 0, w.b != 0, err
}

// UnrepairableMemory reports whether the GPU's memory has errors that cannot be repaired
// (nvmlDeviceGetUnrepairableMemoryFlag_v1). Unverified: no driver has confirmed it.
func (d *Device) UnrepairableMemory() (bool, error) {
	const op = "nvmlDeviceGetUnrepairableMemoryFlag_v1"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var s raw.UnrepairableMemoryStatusV1
		r := l.DeviceGetUnrepairableMemoryFlagV1(raw.Device(w.a), &s)
		return words{a: uint64(s.BUnrepairableMemory)}, r
	})
	return w.a != 0, err
}
