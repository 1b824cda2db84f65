//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"syscall"
	"unsafe"
)

// credentials are who a thread is: users and groups, real, effective and saved, and a sum over the
// supplementary groups. Capabilities and namespaces are not looked at.
type credentials struct {
	uid, gid [3]uint32
	groups   uint64
}

// currentCredentials returns those of this thread, which are those of all of Go's.
func currentCredentials() (c credentials) {
	syscall.RawSyscall(syscall.SYS_GETRESUID, uintptr(unsafe.Pointer(&c.uid[0])), uintptr(unsafe.Pointer(&c.uid[1])), uintptr(unsafe.Pointer(&c.uid[2])))
	syscall.RawSyscall(syscall.SYS_GETRESGID, uintptr(unsafe.Pointer(&c.gid[0])), uintptr(unsafe.Pointer(&c.gid[1])), uintptr(unsafe.Pointer(&c.gid[2])))
	var groups [64]uint32
	n, _, e := syscall.RawSyscall(syscall.SYS_GETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups)), 0)
	if e != 0 { // there are more: how many has to do
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
