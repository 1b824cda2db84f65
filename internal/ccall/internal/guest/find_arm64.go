//go:build cu_static && linux && !cgo && !go1.28

package guest

// What ELF files of this architecture say.
const (
	machine = 183  // EM_AARCH64
	globDat = 1025 // R_AARCH64_GLOB_DAT
)

// loaderNames is where distributions keep glibc's loader.
var loaderNames = []string{
	"/lib/ld-linux-aarch64.so.1",
	"/lib64/ld-linux-aarch64.so.1",
	"/usr/lib/ld-linux-aarch64.so.1",
	"/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1",
	"/usr/glibc-compat/lib/ld-linux-aarch64.so.1",
}

// muslLoader is where musl's is, under the only name that it has.
const muslLoader = "/lib/ld-musl-aarch64.so.1"
