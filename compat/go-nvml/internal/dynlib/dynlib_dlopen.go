//go:build (darwin || freebsd || linux || netbsd) && !cu_static

package dynlib

import "github.com/ebitengine/purego"

type library uintptr

// Open loads a library with dlopen and its flags.
func Open(name string, flags int) (Library, error) {
	handle, err := purego.Dlopen(name, flags)
	if err != nil {
		return nil, err
	}
	return library(handle), nil
}

// Symbol returns the address of an exported symbol.
func (l library) Symbol(name string) (uintptr, error) { return purego.Dlsym(uintptr(l), name) }

// Close unloads the library.
func (l library) Close() error { return purego.Dlclose(uintptr(l)) }

// CallPointer calls a function with a handle and an address.
func (l library) CallPointer(name string, handle uintptr, p *byte) (int32, error) {
	addr, err := l.Symbol(name)
	if err != nil {
		return 0, err
	}
	var call func(uintptr, *byte) int32
	purego.RegisterFunc(&call, addr)
	return call(handle, p), nil
}

// CallWord calls a function with a handle and a number.
func (l library) CallWord(name string, handle, word uintptr) (int32, error) {
	addr, err := l.Symbol(name)
	if err != nil {
		return 0, err
	}
	r, _, _ := purego.SyscallN(addr, handle, word)
	return int32(r), nil
}
