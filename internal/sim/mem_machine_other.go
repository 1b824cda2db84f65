//go:build !linux

package sim

import "math"

// machineRoom returns how many more bytes the machine can provide, which is known on Linux only.
func machineRoom(uint64) uint64 { return math.MaxUint64 }

// discardPages makes memory of mapPages zero.
func discardPages(m []byte) { clear(m) }
