//go:build cu_static

package dynlib

import (
	"errors"
	"path/filepath"

	"github.com/purecu/purecu/loader"
)

// library is one that the static program's own loader of libraries has loaded. lib is nil for another one than NVML.
type library struct{ lib *loader.Library }

// Open loads a library. The symbols of another one than NVML cannot be looked up.
func Open(name string, _ int) (Library, error) {
	lib, err := loader.OpenLibrary(loader.NVML, name)
	if e := (*loader.LoadError)(nil); errors.As(err, &e) {
		if n := len(e.Candidates); n > 0 && e.Candidates[n-1].Problem == loader.OtherLibrary {
			return library{}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return library{lib}, nil
}

var errOther = errors.New("a static program knows only the symbols of NVML")

// Symbol returns the address of an exported symbol.
func (l library) Symbol(name string) (uintptr, error) {
	if l.lib == nil {
		return 0, errOther
	}
	return l.lib.Symbol(name)
}

// Folder returns the folder that the library was loaded from.
func (l library) Folder() (string, error) {
	if l.lib == nil {
		return "", errOther
	}
	return filepath.Dir(l.lib.Path()), nil
}

// Close does nothing: a static program unloads no library.
func (l library) Close() error { return nil }

// CallPointer calls a function with a handle and an address.
func (l library) CallPointer(name string, handle uintptr, p *byte) (int32, error) {
	if l.lib == nil {
		return 0, errOther
	}
	var call func(uintptr, *byte) (int32, error)
	if err := l.lib.Bind(&call, name); err != nil {
		return 0, err
	}
	return call(handle, p)
}

// CallWord calls a function with a handle and a number.
func (l library) CallWord(name string, handle, word uintptr) (int32, error) {
	if l.lib == nil {
		return 0, errOther
	}
	var call func(handle, word uintptr) (int32, error)
	if err := l.lib.Bind(&call, name); err != nil {
		return 0, err
	}
	return call(handle, word)
}
