package loader

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// elevated reports whether the program runs with rights that its user lacks, in
// which case the user's environment must not choose what code it loads. The
// kernel says so (AT_SECURE) for file capabilities too.
func elevated() bool {
	auxv, err := os.ReadFile("/proc/self/auxv")
	return otherIDs() || secure(auxv, err, dumpable())
}

// secure reports whether the kernel's words to a program say that it has rights
// that its user lacks. A program that has them, and is not root, may not read
// them: the kernel hides what such a program is from its user, and with that the
// program from itself. Without /proc, as in many chroots, all there is to go by is
// whether it is hidden. In doubt it is elevated, also if it hides itself.
func secure(auxv []byte, err error, dumpable bool) bool {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return !dumpable
	case err != nil:
		return true
	}
	const atSecure = 23
	for ; len(auxv) >= 16; auxv = auxv[16:] { // pairs of 64-bit words
		if binary.NativeEndian.Uint64(auxv) == atSecure {
			return binary.NativeEndian.Uint64(auxv[8:]) != 0
		}
	}
	return !dumpable
}

// dumpable reports whether the kernel lets a user look into this program.
func dumpable() bool {
	const getDumpable = 3 // PR_GET_DUMPABLE
	r, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, getDumpable, 0, 0)
	return errno == 0 && r == 1
}
