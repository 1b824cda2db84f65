package sim

import (
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/internal/sim/engine"
	"github.com/purecu/purecu/internal/simnvml"
)

// The drivers that share a machine have a file each, a ledger, in one folder. It has an entry for each device, which
// the driver writes when something changes. The name has the number of the process, and is never used again. The driver
// holds a lock of the file: so a ledger whose process has ended is recognized, and removed.

// Machine makes the devices those of a machine that other processes use, too: NVML in each process with the same folder
// shows the memory and the processes of all. The memory that the driver can allocate stays the process's own. A process
// that forks without exec must not use the driver in the child.
func Machine(folder string) Option { return func(d *Driver) { d.folder = folder } }

// ledgerSuffix is the end of a ledger's name.
const ledgerSuffix = ".cusim"

// ledger is the file of this driver.
type ledger struct {
	file  *os.File
	name  string
	clock *engine.Clock
}

// entry is what a driver says of a device.
type entry struct {
	Used     uint64 // of the memory, in bytes
	Contexts uint64
	Busy     uint64 // how long it has worked until At, in nanoseconds
	Share    uint64 // the bits of the share of the last second before At
	Working  uint64 // 1 if it works at At
	At       uint64 // in nanoseconds since 1970
	Now      uint64 // the same by the driver's clock, whose time may be virtual
	Begun    uint64 // see usage
	Ended    uint64
	Before   uint64
	Peak     uint64
	Sum      uint64 // of the other members: a reader may see one half of two writes
}

var entrySize = int64(binary.Size(entry{}))

func (e *entry) sum() uint64 {
	return e.Used + 3*e.Contexts + 5*e.Busy + 7*e.Share + 11*e.Working + 13*e.At + 17*e.Begun + 19*e.Ended +
		23*e.Before + 29*e.Peak + 31*e.Now + 1
}

// tellOthers makes a device visible to other processes, if they share the machine. If there can be no ledger, they do
// not see the device.
func (d *Driver) tellOthers(v *device) {
	if d.folder == "" || v.ledger != nil {
		return
	}
	if d.ledger == nil {
		f, name, err := createLedger(d.folder)
		if err != nil {
			return
		}
		d.ledger = &ledger{f, name, &d.engine.Clock}
	}
	v.ledger = d.ledger
	v.load.Changed = v.publish
}

// take adds memory to what the device has in use, and give takes it away, in bytes.
func (v *device) take(n uint64) {
	v.memory += n
	v.peak = max(v.peak, v.memory)
	v.publish()
}

func (v *device) give(n uint64) { v.memory -= n; v.publish() }

// free returns how much memory no program has, in bytes.
func (v *device) free() uint64 { return v.Memory.Size - v.memory }

// mostMemory is more memory than any device has, in bytes.
const mostMemory = 256 << 30

// publish writes the entry of the device.
func (v *device) publish() {
	if v.ledger == nil {
		return
	}
	now := v.ledger.clock.At()
	e := entry{Used: v.memory, Contexts: uint64(len(v.contexts)), Busy: uint64(v.load.Busy(now)),
		Share: math.Float64bits(v.load.Share(now)), At: uint64(time.Now().UnixNano()),
		Now: uint64(v.ledger.clock.Now().UnixNano()), Begun: uint64(v.begun), Ended: uint64(v.ended),
		Before: uint64(v.before), Peak: v.peak}
	if v.load.Working() {
		e.Working = 1
	}
	e.Sum = e.sum()
	b, err := binary.Append(nil, binary.LittleEndian, e)
	if err == nil {
		_, _ = v.ledger.file.WriteAt(b, int64(v.index)*entrySize) // nobody could do anything about an error
	}
}

// otherProcess is what another process does on a device.
type otherProcess struct {
	simnvml.Process
	busy    time.Duration
	uses    bool // it has a context
	account simnvml.Account
}

// others returns what other drivers do on each device, and have done. The caller does not hold the driver's lock.
func (d *Driver) others(settings []simnvml.Settings) [][]otherProcess {
	d.mu.Lock()
	folder, own, list := d.folder, "", make([][]otherProcess, len(d.installed))
	if d.ledger != nil {
		own = d.ledger.name
	}
	d.mu.Unlock()
	if folder == "" {
		return list
	}
	files, _ := os.ReadDir(folder) // as long as there is none, there are no processes
	for _, f := range files {
		number, _, _ := strings.Cut(f.Name(), "-")
		id, err := strconv.ParseUint(number, 10, 32)
		if err != nil || !strings.HasSuffix(f.Name(), ledgerSuffix) || f.Name() == own {
			continue
		}
		entries, ended := readEntries(filepath.Join(folder, f.Name()))
		if ended {
			bury(folder, f.Name(), uint32(id), entries)
			continue
		}
		for i, e := range entries[:min(len(list), len(entries))] {
			if e.Contexts > 0 || e.Begun != 0 {
				list[i] = append(list[i], e.process(uint32(id), time.Now()))
			}
		}
	}
	if slices.ContainsFunc(settings, func(s simnvml.Settings) bool { return s.Accounting() }) {
		for _, a := range savedAccounts(folder) {
			if a.Device < uint64(len(list)) {
				list[a.Device] = append(list[a.Device], otherProcess{account: a.Account})
			}
		}
	}
	return list
}

// process returns what an entry says now. How much a process has worked in the last second is known for the second
// before the entry was written: it is taken for work at its end.
func (e *entry) process(id uint32, now time.Time) otherProcess {
	since := max(now.Sub(time.Unix(0, int64(e.At))), 0)
	share, busy := math.Float64frombits(e.Share), time.Duration(e.Busy)
	part := min(float64(since)/float64(engine.LoadWindow), 1)
	if e.Working == 1 {
		share, busy = share*(1-part)+part, busy+since
	} else {
		share = min(share, 1-part)
	}
	return otherProcess{simnvml.Process{ID: id, Used: min(e.Used, mostMemory), Utilization: share}, busy, e.Contexts > 0,
		simnvml.Account{ID: id, Begun: int64(e.Begun), Ended: int64(e.Ended), Busy: busy - time.Duration(e.Before),
			Peak: e.Peak}}
}

// readEntries reads what a driver says of the devices, and reports whether its process has ended. There may be more
// devices than this process has.
func readEntries(name string) (entries []entry, ended bool) {
	f, ended, err := openLedger(name)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	entries = make([]entry, profile.MostDevices)
	b := make([]byte, int64(len(entries))*entrySize) // the file ends with the last device that the driver uses
	for range 3 {
		if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
			return nil, ended
		}
		if _, err := binary.Decode(b, binary.LittleEndian, entries); err != nil {
			return nil, ended
		}
		whole := true
		for i := range entries {
			if e := &entries[i]; *e != (entry{}) && e.Sum != e.sum() {
				whole, *e = false, entry{}
			}
		}
		if whole {
			break
		}
	}
	return entries, ended
}
