package sim

import (
	"os"
	"syscall"
)

// unnamedFile creates a file without a name.
func unnamedFile(dir string) (*os.File, error) {
	const tmpfile = 0x400000 | syscall.O_DIRECTORY // O_TMPFILE
	return os.OpenFile(dir, os.O_RDWR|os.O_EXCL|tmpfile, 0o600)
}
