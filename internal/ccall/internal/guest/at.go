//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"syscall"
	"unsafe"
)

// at returns a pointer to memory that Go does not manage: it was mapped by this package, or C has
// returned its address.
func at(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// mmap maps memory. If addr is 0, the kernel chooses the address.
func mmap(addr, n uintptr, prot, flags int, fd int, offset uint64) (uintptr, error) {
	p, _, e := syscall.Syscall6(syscall.SYS_MMAP, addr, n, uintptr(prot), uintptr(flags), uintptr(fd), uintptr(offset))
	if e != 0 {
		return 0, e
	}
	return p, nil
}

func munmap(addr, n uintptr) { syscall.Syscall(syscall.SYS_MUNMAP, addr, n, 0) }

// cstring returns a copy of the C string at p.
func cstring(p uintptr) string {
	if p == 0 {
		return ""
	}
	n := 0
	for *(*byte)(at(p + uintptr(n))) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(at(p)), n))
}
