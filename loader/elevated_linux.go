package loader

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// elevated reports whether the program runs with rights that its user lacks. Then the user's
// environment must not choose the code that the program loads. The kernel reports such rights
// (AT_SECURE), including those of file capabilities.
func elevated() bool {
	auxv, err := os.ReadFile("/proc/self/auxv")
	return otherIDs() || secure(auxv, err, dumpable())
}

// secure reports whether auxv says that the program has rights that its user lacks. The kernel
// hides such a program from its user: unless it is root, even the program cannot read its own auxv.
// Without /proc, as in many chroots, only dumpable tells whether the program is hidden. In doubt,
// and also if the program hid itself, the result is true.
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

// dumpable reports whether the kernel allows the user to inspect this program.
func dumpable() bool {
	const getDumpable = 3 // PR_GET_DUMPABLE
	r, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, getDumpable, 0, 0)
	return errno == 0 && r == 1
}
