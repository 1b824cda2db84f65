package behaviour

import (
	"syscall"
	"unsafe"
)

// executable returns the address of a copy of the code in executable memory.
func executable(code []byte) (uintptr, error) {
	mem, err := syscall.Mmap(-1, 0, len(code), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return 0, err
	}
	copy(mem, code)
	if err := syscall.Mprotect(mem, syscall.PROT_READ|syscall.PROT_EXEC); err != nil {
		syscall.Munmap(mem)
		return 0, err
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem))), nil
}
