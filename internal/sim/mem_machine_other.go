//go:build !linux

package sim

import "math"

// machineRoom returns how many more bytes the machine can provide, which is known on Linux only.
func machineRoom(uint64) uint64 { return math.MaxUint64 }

// discardPages makes memory of mapPages zero.
func discardPages(m []byte) { clear(m) }

// mostMappings returns how many mappings the driver may have: there is no limit here.
func mostMappings() int64 { return math.MaxInt64 }
