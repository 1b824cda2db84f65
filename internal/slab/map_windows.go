package slab

import (
	"reflect"
	"syscall"
)

// mapMemory returns the address of zeroed memory, which stays mapped there until unmapMemory.
func mapMemory(size int) (uintptr, error) {
	h, err := syscall.CreateFileMapping(syscall.InvalidHandle, nil, syscall.PAGE_READWRITE, 0, uint32(size), nil)
	if err != nil {
		return 0, err
	}
	defer syscall.CloseHandle(h) // the view keeps the mapping
	return syscall.MapViewOfFile(h, syscall.FILE_MAP_READ|syscall.FILE_MAP_WRITE, 0, 0, uintptr(size))
}

// unmapMemory unmaps memory of mapMemory.
func unmapMemory(mem []byte) {
	_ = syscall.UnmapViewOfFile(reflect.ValueOf(mem).Pointer())
}
