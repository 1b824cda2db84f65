//go:build cu_static && linux && !cgo && !go1.28

package guest

// Constants of the ELF format for this architecture.
const (
	machine = 183  // EM_AARCH64
	globDat = 1025 // R_AARCH64_GLOB_DAT
)

// loaderNames are the paths of glibc's loader in Linux distributions.
var loaderNames = []string{
	"/lib/ld-linux-aarch64.so.1",
	"/lib64/ld-linux-aarch64.so.1",
	"/usr/lib/ld-linux-aarch64.so.1",
	"/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1",
	"/usr/glibc-compat/lib/ld-linux-aarch64.so.1",
}

// muslLoader is the path of musl's loader, which is the same on all systems.
const muslLoader = "/lib/ld-musl-aarch64.so.1"
