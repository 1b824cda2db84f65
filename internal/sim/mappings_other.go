//go:build !linux

package sim

// memoryParts does not know the program's memory.
func memoryParts(first, end uint64) (list []memoryPart, known bool) { return nil, false }
