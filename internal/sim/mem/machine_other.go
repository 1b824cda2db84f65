//go:build !linux

package mem

import "math"

// MachineRoom returns how many more bytes the machine can provide, which is known on Linux only.
func MachineRoom(uint64) uint64 { return math.MaxUint64 }

// discardPages makes memory of mapPages zero.
func discardPages(m []byte) { clear(m) }

// MostMappings returns how many mappings the driver may have: no limit is known here.
func MostMappings() int64 { return math.MaxInt64 / 2 }
