//go:build darwin || freebsd || netbsd

package sim

import "os"

// reserveFile makes the file system allocate a part of a file that has no content yet.
func reserveFile(f *os.File, offset, n uint64) error { return writeZeros(f, offset, n) }

// punch returns false: on this platform the file has all parts until it is closed.
func (s *memoryFile) punch(uint64, uint64) bool { return false }
