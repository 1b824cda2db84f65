//go:build unix

package cu

import (
	"reflect"
	"syscall"
)

// mapMemory returns the address of zeroed memory that stays where it is, and mapped, until unmapMemory. It is
// shared, so that a child that C forks does not make the process write to a copy that the GPU knows nothing of.
func mapMemory(size int) (uintptr, error) {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_ANON)
	if err != nil {
		return 0, err
	}
	return reflect.ValueOf(b).Pointer(), nil
}

// unmapMemory gives memory of mapMemory's back.
func unmapMemory(mem []byte) { _ = syscall.Munmap(mem) }
