//go:build unix

package slab

import (
	"reflect"
	"syscall"
)

// mapMemory returns the address of zeroed memory, which is mapped at this address until
// unmapMemory. The mapping is shared: after a fork by C code, the process still writes to the pages
// that the GPU uses, and not to copies.
func mapMemory(size int) (uintptr, error) {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_ANON)
	if err != nil {
		return 0, err
	}
	return reflect.ValueOf(b).Pointer(), nil
}

// unmapMemory unmaps memory of mapMemory.
func unmapMemory(mem []byte) { _ = syscall.Munmap(mem) }
