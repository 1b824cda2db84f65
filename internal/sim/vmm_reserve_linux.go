package sim

import (
	"errors"
	"os"
	"syscall"
)

// Modes of fallocate.
const (
	keepSize  = 1 // FALLOC_FL_KEEP_SIZE
	punchHole = 2 // FALLOC_FL_PUNCH_HOLE
)

// reserveFile makes the file system allocate a part of a file that has no content yet.
func reserveFile(f *os.File, offset, n uint64) error {
	for n > 0 {
		// A signal makes the call fail, and begin again. With small parts it ends.
		part := min(n, 32<<20)
		err := syscall.Fallocate(int(f.Fd()), 0, int64(offset), int64(part))
		switch {
		case errors.Is(err, errors.ErrUnsupported): // by this file system
			return writeZeros(f, offset, n)
		case err == syscall.EINTR:
			continue
		case err != nil:
			return err
		}
		offset, n = offset+part, n-part
	}
	return nil
}

// punch gives a part of the file back to the file system, or reports false.
func (s *memoryFile) punch(offset, n uint64) bool {
	return syscall.Fallocate(int(s.file.Fd()), punchHole|keepSize, int64(offset), int64(n)) == nil
}
