package simnvml

import (
	"cmp"
	"slices"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// Account is what a process has done on a GPU since it had no context there.
type Account struct {
	ID    uint32
	Begun int64 // when it had the first context, in nanoseconds since 1970
	Ended int64 // when the last context was destroyed, or 0
	Busy  time.Duration
	Peak  uint64 // the most memory at a time, in bytes
}

// mostAccounts is how many accounts a GPU keeps.
const mostAccounts = 4000

// Accounting reports whether accounts are kept.
func (s *Settings) Accounting() bool { return s[accounting] != 0 }

// beginAccounts begins to keep accounts, if that was off. Processes that are older have none.
func beginAccounts(before Settings, s *Settings, now uint64) {
	if !before.Accounting() {
		s[accountsFrom] = now
	}
}

// accounts returns the accounts that are kept, the oldest first. Of one process only the newest counts.
func (g GPU) accounts() []Account {
	s := &g.Settings
	if !s.Accounting() {
		return nil
	}
	var list []Account
	for _, a := range g.Accounts {
		if a.Begun >= int64(s[accountsFrom]) && (a.Ended == 0 || a.Ended > int64(s[accountsAfter])) {
			list = append(list, a)
		}
	}
	slices.SortStableFunc(list, func(a, b Account) int { return cmp.Compare(a.Begun, b.Begun) })
	newest := map[uint32]int{}
	for i, a := range list {
		newest[a.ID] = i
	}
	kept := list[:0]
	for i, a := range list {
		if newest[a.ID] == i {
			kept = append(kept, a)
		}
	}
	return kept[max(0, len(kept)-mostAccounts):]
}

// DeviceGetAccountingPids returns the processes with accounts.
func (n *model) DeviceGetAccountingPids(device raw.Device, count *uint32, pids []uint32) raw.Return {
	index, ok := n.indexOf(device)
	if !ok || count == nil {
		return n.answers.DeviceGetAccountingPids(device, count, pids)
	}
	list := n.machine.GPUs()[index].accounts()
	room := min(*count, uint32(len(pids)))
	switch there := uint32(len(list)); {
	case there == 0:
		return n.answers.DeviceGetAccountingPids(device, count, pids)
	case there > room:
		*count = there
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	default:
		*count = there
	}
	for i, a := range list {
		pids[i] = a.ID
	}
	return raw.NVML_SUCCESS
}

// DeviceGetAccountingStats returns what a process has done.
func (n *model) DeviceGetAccountingStats(device raw.Device, pid uint32, stats *raw.AccountingStats) raw.Return {
	r := n.answers.DeviceGetAccountingStats(device, pid, stats)
	index, ok := n.indexOf(device)
	if r != raw.NVML_ERROR_NOT_FOUND || !ok {
		return r
	}
	list := n.machine.GPUs()[index].accounts()
	i := slices.IndexFunc(list, func(a Account) bool { return a.ID == pid })
	if i < 0 {
		return r
	}
	a := list[i]
	life := time.Duration(cmp.Or(a.Ended, n.machine.Clock().Now().UnixNano()) - a.Begun)
	share := 0.0
	if life > 0 {
		share = min(float64(a.Busy)/float64(life), 1)
	}
	*stats = raw.AccountingStats{GpuUtilization: percent(share), MemoryUtilization: percent(memoryShare * share),
		MaxMemoryUsage: a.Peak, StartTime: uint64(a.Begun / int64(time.Microsecond)), IsRunning: bit(a.Ended == 0)}
	if a.Ended != 0 {
		stats.Time = uint64(life.Milliseconds())
	}
	return raw.NVML_SUCCESS
}
