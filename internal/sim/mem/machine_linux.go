package mem

import (
	"bytes"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// mapAnonymous maps zeroed memory. The machine promises none of it. It provides large memory in huge pages if it has
// some, because the first writes of small ones take twice as long.
func mapAnonymous(size int) ([]byte, error) {
	m, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err == nil && size > Granule {
		_ = syscall.Madvise(m, syscall.MADV_HUGEPAGE)
	}
	return m, err
}

// discardPages makes memory of mapPages zero, and gives its pages back to the machine.
func discardPages(m []byte) {
	const huge = 64 << 10 // for less it is not worth a call of the system
	skip := min(-AddressOf(m)&(Page-1), uint64(len(m)))
	whole := (uint64(len(m)) - skip) &^ (Page - 1)
	if whole < huge || Page%os.Getpagesize() != 0 || syscall.Madvise(m[skip:skip+whole], syscall.MADV_DONTNEED) != nil {
		clear(m)
		return
	}
	clear(m[:skip])
	clear(m[skip+whole:])
}

// MostMappings returns how many mappings the driver may have. The process can have twice as many.
func MostMappings() int64 {
	n, is := number("/proc/sys/vm/max_map_count")
	if !is || n > math.MaxInt32 {
		n = 65530
	}
	return int64(n / 2)
}

// processSize returns the size of all mappings of the process, and of those that it can write and does
// not share, or zeros.
func processSize() (all, data uint64) {
	f := statm()
	return f[0], f[5]
}

// statm returns the numbers of /proc/self/statm in bytes: among them all mappings (0), those in memory
// (1), those in memory that are shared (2), and data and stack (5). They are zero if they are not known.
func statm() (values [7]uint64) {
	text, _ := os.ReadFile("/proc/self/statm")
	for i, s := range strings.Fields(string(text)) {
		if i < len(values) {
			n, _ := strconv.ParseUint(s, 10, 64)
			values[i] = n * uint64(os.Getpagesize())
		}
	}
	return values
}

// MachineRoom returns how many more bytes the machine and the control groups of the process can provide,
// less a margin for everything else. A program that needs little has half of what is left also when that is less
// than the margin. used is how much the driver uses, of which the machine may not have provided all yet.
func MachineRoom(used uint64) uint64 {
	return hostMachine("/").room(used)
}

// machine is the root of the file systems that tell about a machine: "/", except in tests.
type hostMachine string

// room is MachineRoom.
func (m hostMachine) room(used uint64) uint64 {
	pages := statm()
	pending := used - min(used, pages[1]-pages[2])
	room := uint64(math.MaxUint64)
	limit := func(total, free uint64) {
		free -= min(free, pending)
		margin := min(max(total/32, 32<<20), 512<<20)
		little := min(budgetStep-min(budgetStep, used), free/2)
		room = min(room, max(free-min(free, margin), little))
	}
	if n := numbers(string(m)+"/proc/meminfo", " kB"); n["MemTotal:"] != 0 {
		limit(n["MemTotal:"]<<10, n["MemAvailable:"]<<10)
	}
	for _, g := range m.memoryGroups() {
		total, is := number(g.dir + "/" + g.limit)
		if !is || total >= math.MaxInt64/2 {
			continue
		}
		have, _ := number(g.dir + "/" + g.usage)
		// The kernel takes the pages of files that are not in use before it refuses memory.
		have -= min(have, numbers(g.dir+"/memory.stat", "")[g.files])
		limit(total, total-min(total, have))
	}
	return room
}

// memoryGroup is a control group that limits memory, with the names of its files.
type memoryGroup struct{ dir, limit, usage, files string }

// memoryGroups returns the control groups of the process that may limit its memory, of both versions.
func (m hostMachine) memoryGroups() (list []memoryGroup) {
	text, _ := os.ReadFile(string(m) + "/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, g := "", memoryGroup{}
		switch {
		case parts[1] == "":
			root, g = string(m)+"/sys/fs/cgroup", memoryGroup{"", "memory.max", "memory.current", "inactive_file"}
			if _, err := os.Stat(root + "/unified"); err == nil {
				root += "/unified"
			}
		case strings.Contains(","+parts[1]+",", ",memory,"):
			root = string(m) + "/sys/fs/cgroup/memory"
			g = memoryGroup{"", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
		default:
			continue
		}
		// In a container the path may be the host's, which is not there. Then the root is the group.
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			g.dir = root + strings.TrimSuffix(dir, "/")
			list = append(list, g)
			if dir == "/" {
				break
			}
		}
	}
	return list
}

// number returns the number in a file, and reports whether there is one.
func number(name string) (uint64, bool) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}

// numbers returns the numbers in a file by their names, without a unit.
func numbers(name, unit string) map[string]uint64 {
	text, _ := os.ReadFile(name)
	list := make(map[string]uint64)
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), unit), 10, 64); err == nil {
			list[key] = n
		}
	}
	return list
}
