//go:build darwin || freebsd || netbsd

package mem

import "syscall"

// mapAnonymous maps zeroed memory. The machine promises none of it.
func mapAnonymous(size int) ([]byte, error) {
	return syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
}

// processSize returns zeros, as the size of the process is not known.
func processSize() (all, data uint64) { return 0, 0 }
