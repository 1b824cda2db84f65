//go:build darwin || freebsd || netbsd

package sim

import "os"

// reserveFile makes the file system allocate a part of a file that has no content yet.
func reserveFile(f *os.File, offset, n uint64) error { return writeZeros(f, offset, n) }

// discard does nothing: on this platform the file has all parts until it is closed.
func (s *memoryFile) discard(uint64, uint64) {}
