package loader

import (
	"encoding/binary"
	"os"
)

// elevated reports whether the program runs with rights that its user lacks, in
// which case the user's environment must not choose what code it loads. The
// kernel says so (AT_SECURE) for file capabilities too.
func elevated() bool {
	if otherIDs() {
		return true
	}
	const atSecure = 23
	auxv, _ := os.ReadFile("/proc/self/auxv") // pairs of 64-bit words
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		if binary.NativeEndian.Uint64(auxv) == atSecure {
			return binary.NativeEndian.Uint64(auxv[8:]) != 0
		}
	}
	return false
}
