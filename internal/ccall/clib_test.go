//go:build linux || windows

package ccall

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"
)

// skip is an error that says why tests cannot run on this machine.
type skip string

func (s skip) Error() string { return string(s) }

// clibName is the file name of the library that is compiled from testdata/abi.c.
const clibName = "libabi" + librarySuffix

// clib returns the library that is compiled from testdata/abi.c with $CC, cc or gcc. On machines
// without a compiler, and with emulators, PURECU_TEST_CLIB is a folder that contains the compiled
// library.
var clib = sync.OnceValues(func() (Library, error) {
	dir := os.Getenv("PURECU_TEST_CLIB")
	if dir == "" {
		cc, err := compiler()
		if err != nil {
			return Library{}, err
		}
		if dir, err = scratch(); err != nil {
			return Library{}, err
		}
		out, err := exec.Command(cc, "-O2", "-shared", "-fPIC", "-pthread",
			"-o", filepath.Join(dir, clibName), filepath.Join("testdata", "abi.c")).CombinedOutput()
		if err != nil {
			return Library{}, fmt.Errorf("%s: %w\n%s", cc, err, out)
		}
	}
	return Open(filepath.Join(dir, clibName))
})

// compiler returns the path of the C compiler.
func compiler() (string, error) {
	for _, name := range []string{os.Getenv("CC"), "cc", "gcc"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", skip("no C compiler for the test library, and PURECU_TEST_CLIB is not set")
}

// cfunc returns the address of a function of testdata/abi.c. It skips the test if there is no C
// compiler.
func cfunc(tb testing.TB, name string) uintptr {
	tb.Helper()
	lib, err := clib()
	if why := skip(""); errors.As(err, &why) {
		tb.Skip(why)
	}
	if err != nil {
		tb.Fatal(err)
	}
	fn, err := lib.Lookup(name)
	if err != nil {
		tb.Fatal(err)
	}
	return fn
}

// call6 calls fn with up to six words through Call6, and returns its result
// register.
func call6(fn uintptr, words ...uintptr) uintptr {
	f := Frame6{Head: Head{Fn: fn}}
	copy(f.A[:], words)
	Call6(unsafe.Pointer(&f), Hot, nil)
	return f.R
}

// call14 calls fn with up to fourteen words through Call14, and returns its
// result register.
func call14(fn uintptr, words ...uintptr) uintptr {
	f := Frame14{Head: Head{Fn: fn}}
	copy(f.A[:], words)
	Call14(unsafe.Pointer(&f), Hot, nil)
	return f.R
}

// callOut calls a function with an out-value and a word, as in the example of the package comment.
func callOut(fn, v uintptr) (out uintptr, result int32) {
	f := struct {
		fn, r uintptr
		out   unsafe.Pointer
		v     uintptr
		_     [4]uintptr
		slot  uintptr
	}{fn: fn, v: v}
	f.out = unsafe.Pointer(&f.slot)
	Call6(unsafe.Pointer(&f), Hot, nil)
	return f.slot, int32(f.r)
}

// threadID returns the id of the thread that the call was made on.
func threadID(fn uintptr) uintptr {
	id, _ := callOut(fn, 0)
	return id
}
