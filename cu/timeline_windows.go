package cu

import (
	"syscall"
	"unsafe"
)

// mapMemory returns zeroed memory that stays where it is, and mapped, until unmapMemory.
func mapMemory(size int) ([]byte, error) {
	h, err := syscall.CreateFileMapping(syscall.InvalidHandle, nil, syscall.PAGE_READWRITE, 0, uint32(size), nil)
	if err != nil {
		return nil, err
	}
	defer syscall.CloseHandle(h) // the view keeps it
	addr, err := syscall.MapViewOfFile(h, syscall.FILE_MAP_READ|syscall.FILE_MAP_WRITE, 0, 0, uintptr(size))
	if err != nil {
		return nil, err
	}
	// It is no memory of Go's. Written this way because it comes as a number.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size), nil
}

// unmapMemory gives memory of mapMemory's back.
func unmapMemory(mem []byte) {
	_ = syscall.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
}
