package ccall

import "syscall"

// Library is a loaded DLL. It is never unloaded: drivers start threads and
// register handlers that outlive it.
type Library struct{ handle syscall.Handle }

// Open loads the DLL name, which should be an absolute path: a bare name is
// searched for the way LoadLibrary does it, the program's folder first.
func Open(name string) (Library, error) {
	h, err := syscall.LoadLibrary(name)
	return Library{h}, err
}

// Lookup returns the address of a function that the DLL exports.
func (l Library) Lookup(symbol string) (uintptr, error) {
	return syscall.GetProcAddress(l.handle, symbol)
}
