//go:build cu_static && linux && !cgo && !go1.28

package guest

// Constants of the ELF format for this architecture.
const (
	machine = 62 // EM_X86_64
	globDat = 6  // R_X86_64_GLOB_DAT
)

// loaderNames are the paths of glibc's loader in Linux distributions.
var loaderNames = []string{
	"/lib64/ld-linux-x86-64.so.2",
	"/usr/lib64/ld-linux-x86-64.so.2",
	"/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
	"/lib/ld-linux-x86-64.so.2",
	"/usr/glibc-compat/lib/ld-linux-x86-64.so.2",
}

// muslLoader is the path of musl's loader, which is the same on all systems.
const muslLoader = "/lib/ld-musl-x86_64.so.1"
