//go:build !windows

package raw

// ULong is C's unsigned long.
type ULong uint64
