package ccall

import (
	"fmt"
	"syscall"
	"unsafe"
)

// Library is a loaded DLL. It is never unloaded: drivers start threads and
// register handlers that outlive it.
type Library struct{ handle syscall.Handle }

// Open loads the DLL name, which should be an absolute path: LoadLibrary searches for other names,
// first in the program's folder.
func Open(name string) (Library, error) {
	h, err := syscall.LoadLibrary(name)
	if err != nil { // the error of Windows does not contain the name
		return Library{}, fmt.Errorf("%s: %w", name, err)
	}
	return Library{h}, nil
}

// Lookup returns the address of a function that the DLL exports.
func (l Library) Lookup(symbol string) (uintptr, error) {
	p, err := syscall.GetProcAddress(l.handle, symbol)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", symbol, err)
	}
	return p, nil
}

var getSystemDirectory = syscall.NewLazyDLL("kernel32.dll").NewProc("GetSystemDirectoryW")

// SystemFolder returns the folder of the system's libraries. It does not use the variable
// SystemRoot, because the environment is not trusted.
func SystemFolder() string {
	var b [syscall.MAX_PATH]uint16
	n, _, _ := getSystemDirectory.Call(uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if n == 0 || n >= uintptr(len(b)) {
		return `C:\Windows\System32`
	}
	return syscall.UTF16ToString(b[:n])
}
