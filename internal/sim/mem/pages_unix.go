//go:build darwin || freebsd || linux || netbsd

package mem

import (
	"math"
	"syscall"
)

// mapPages returns zeroed memory outside of Go's heap, of which the machine provides what is written, and
// the mapping that has it. It returns nil if the process may not have so many addresses. Large memory
// begins at a granule, so that a huge page is no part of two granules.
func mapPages(size uint64) (memory, mapping []byte) {
	all := size
	if size > Granule {
		all += Granule
	}
	if all < size || all > math.MaxInt || !canMap(all) {
		return nil, nil
	}
	m, err := mapAnonymous(int(all))
	if err != nil {
		return nil, nil
	}
	skip := uint64(0)
	if size > Granule {
		skip = -AddressOf(m) & (Granule - 1)
	}
	return m[skip : skip+size : skip+size], m
}

// unmapPages ends a mapping of mapPages.
func unmapPages(m []byte) { _ = syscall.Munmap(m) }

// canMap reports whether the limits of the process allow so many more addresses, and leave some for
// others.
func canMap(size uint64) bool { return size <= addressRoom() }

// addressRoom returns how many addresses the program can have, in bytes: what the limits allow, less what
// the Go runtime and the program's threads need. Go's runtime ends the process when it gets none.
func addressRoom() uint64 {
	const margin = 384 << 20
	room := uint64(math.MaxUint64)
	used, data := uint64(0), uint64(0)
	for i, resource := range [...]int{syscall.RLIMIT_AS, syscall.RLIMIT_DATA} {
		var l syscall.Rlimit
		if syscall.Getrlimit(resource, &l) != nil || uint64(l.Cur) >= math.MaxInt64 {
			continue
		}
		if used == 0 {
			if used, data = processSize(); used == 0 {
				continue
			}
		}
		have := [...]uint64{used, data}[i] + margin
		room = min(room, uint64(l.Cur)-min(uint64(l.Cur), have))
	}
	return room
}
