// Package dl loads libraries as dlopen does.
package dl

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/NVIDIA/go-nvml/internal/dynlib"
)

// Flags of dlopen, with their numbers on Linux.
const (
	RTLD_LAZY     = 1
	RTLD_NOW      = 2
	RTLD_NOLOAD   = 4
	RTLD_GLOBAL   = 0x100
	RTLD_LOCAL    = 0
	RTLD_NODELETE = 0x1000
)

// DynamicLibrary is a library that can be loaded.
type DynamicLibrary struct {
	Name   string // a path, or a name that the system's loader searches for
	Flags  int
	handle dynlib.Library
	path   string
}

// New returns a library that is not yet loaded.
func New(name string, flags int) *DynamicLibrary {
	d := &DynamicLibrary{Name: name, Flags: flags}
	d.forget()
	return d
}

// forget sets what is known without a loaded library.
func (dl *DynamicLibrary) forget() {
	dl.handle, dl.path = nil, ""
	if strings.Contains(dl.Name, "/") {
		dl.path = dl.Name
	}
}

// Open loads the library.
func (dl *DynamicLibrary) Open() error {
	lib, err := dynlib.Open(dl.Name, dl.Flags)
	if err != nil {
		return err
	}
	dl.handle = lib
	return nil
}

// Close unloads the library. It does nothing if the library is not loaded.
func (dl *DynamicLibrary) Close() error {
	if dl.handle == nil {
		return nil
	}
	if err := dl.handle.Close(); err != nil {
		return err
	}
	dl.forget()
	return nil
}

// Lookup returns an error if the library does not export the symbol.
func (dl *DynamicLibrary) Lookup(symbol string) error {
	if dl.handle == nil {
		return fmt.Errorf("symbol %q not found: %w", symbol, errNotOpened)
	}
	if _, err := dl.handle.Symbol(symbol); err != nil {
		return fmt.Errorf("symbol %q not found: %w", symbol, err)
	}
	return nil
}

var errNotOpened = errors.New("the library is not opened")

// Path returns the path of the loaded library.
func (dl *DynamicLibrary) Path() (string, error) {
	if dl.handle == nil {
		return "", fmt.Errorf("%v not opened", dl.Name)
	}
	if dl.path == "" {
		folder, err := dl.handle.Folder()
		if err != nil {
			return "", err
		}
		dl.path = filepath.Join(folder, dl.Name)
	}
	return dl.path, nil
}
