//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"syscall"
	"unsafe"
)

// credentials are the real, effective and saved users and groups of a thread, and a hash of its
// supplementary groups. They do not include capabilities and namespaces.
type credentials struct {
	uid, gid [3]uint32
	groups   uint64
}

// currentCredentials returns the credentials of this thread, which all Go threads have.
func currentCredentials() (c credentials) {
	syscall.RawSyscall(syscall.SYS_GETRESUID, uintptr(unsafe.Pointer(&c.uid[0])), uintptr(unsafe.Pointer(&c.uid[1])), uintptr(unsafe.Pointer(&c.uid[2])))
	syscall.RawSyscall(syscall.SYS_GETRESGID, uintptr(unsafe.Pointer(&c.gid[0])), uintptr(unsafe.Pointer(&c.gid[1])), uintptr(unsafe.Pointer(&c.gid[2])))
	var groups [64]uint32
	n, _, e := syscall.RawSyscall(syscall.SYS_GETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups)), 0)
	if e != 0 { // there are more groups: use their number
		n, _, _ = syscall.RawSyscall(syscall.SYS_GETGROUPS, 0, 0, 0)
		c.groups = uint64(n)
		return c
	}
	c.groups = 14695981039346656037
	for _, g := range groups[:n] {
		c.groups = (c.groups ^ uint64(g)) * 1099511628211
	}
	return c
}
