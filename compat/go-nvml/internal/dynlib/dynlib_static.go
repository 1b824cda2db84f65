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

func (l library) Symbol(name string) (uintptr, error) {
	if l.lib == nil {
		return 0, errOther
	}
	return l.lib.Symbol(name)
}

func (l library) Folder() (string, error) {
	if l.lib == nil {
		return "", errOther
	}
	return filepath.Dir(l.lib.Path()), nil
}

func (l library) Close() error { return nil }

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
