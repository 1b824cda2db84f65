package sim

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/purecu/purecu/internal/sim/engine"
)

// The processes that share a machine have a file each, in one folder, whose name is the process's number. It has an entry
// for each device, which the process writes when something changes. The process holds a lock of the file: so the file
// of a process that has ended is recognized, and removed.

// Machine makes the devices those of a machine that other processes use, too: each process with the same folder sees
// the memory and the processes of all. It is for NVML; the memory that the driver can allocate stays the process's own.
func Machine(folder string) Option { return func(d *Driver) { d.folder = folder } }

// ledger is the file of this process.
type ledger struct {
	file  *os.File
	clock *engine.Clock
}

// entry is what a process says of a device.
type entry struct {
	Used     uint64 // of the memory, in bytes
	Contexts uint64
	Busy     uint64 // how long it has worked for the process until At, in nanoseconds
	Share    uint64 // the bits of the share of the last second before At
	Working  uint64 // 1 if it works at At
	At       int64  // in nanoseconds since 1970
}

var entrySize = int64(binary.Size(entry{}))

// tellOthers makes a device visible to other processes, if they share the machine.
func (d *Driver) tellOthers(v *device) {
	if d.folder == "" || v.ledger != nil {
		return
	}
	if d.ledger == nil {
		f, err := createLedger(filepath.Join(d.folder, strconv.Itoa(os.Getpid())))
		if err != nil {
			d.folder = ""
			d.misuse("CUSIM_MACHINE", 0, fmt.Sprintf("other processes do not see the devices of this one: %v", err), nil)
			return
		}
		d.ledger = &ledger{f, &d.engine.Clock}
	}
	v.ledger = d.ledger
	v.load.Changed = v.publish
}

// take adds memory to what the device has in use, and give takes it away, in bytes.
func (v *device) take(n uint64) { v.memory += n; v.publish() }
func (v *device) give(n uint64) { v.memory -= n; v.publish() }

// publish writes the entry of the device.
func (v *device) publish() {
	if v.ledger == nil {
		return
	}
	now := v.ledger.clock.At()
	e := entry{Used: v.memory, Contexts: uint64(len(v.contexts)), Busy: uint64(v.load.Busy(now)),
		Share: math.Float64bits(v.load.Share(now)), At: time.Now().UnixNano()}
	if v.load.Working() {
		e.Working = 1
	}
	b, err := binary.Append(nil, binary.LittleEndian, e)
	if err == nil {
		_, _ = v.ledger.file.WriteAt(b, int64(v.index)*entrySize) // nobody could do anything about an error
	}
}

// others returns what other processes do on each device. The caller does not hold the driver's lock.
func (d *Driver) others() [][]DeviceProcess {
	d.mu.Lock()
	folder, list := d.folder, make([][]DeviceProcess, len(d.installed))
	d.mu.Unlock()
	if folder == "" {
		return list
	}
	files, _ := os.ReadDir(folder) // as long as there is none, there are no processes
	for _, f := range files {
		id, err := strconv.ParseUint(f.Name(), 10, 32)
		if err != nil || int(id) == os.Getpid() {
			continue
		}
		for i, e := range readEntries(filepath.Join(folder, f.Name()), len(list)) {
			if e.Contexts > 0 {
				list[i] = append(list[i], e.process(uint32(id), time.Now()))
			}
		}
	}
	return list
}

// process returns what an entry says now. How much a process has worked in the last second is known for the second
// before the entry was written: it is taken for work at its end.
func (e *entry) process(id uint32, now time.Time) DeviceProcess {
	since := max(now.Sub(time.Unix(0, e.At)), 0)
	share, busy := math.Float64frombits(e.Share), time.Duration(e.Busy)
	part := float64(since) / float64(engine.LoadWindow)
	if e.Working == 1 {
		share, busy = min(share*max(1-part, 0)+part, 1), busy+since
	} else {
		share = max(min(share, 1-part), 0)
	}
	return DeviceProcess{ID: id, Used: e.Used, Busy: busy, Utilization: share}
}

// readEntries reads what a living process says of the first n devices.
func readEntries(name string, n int) []entry {
	f, err := openLedger(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries := make([]entry, n)
	b := make([]byte, int64(n)*entrySize) // the file ends with the last device that the process uses
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil
	}
	if _, err := binary.Decode(b, binary.LittleEndian, entries); err != nil {
		return nil
	}
	return entries
}
