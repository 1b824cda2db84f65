//go:build !cu_static

package dynlib

import (
	"bytes"
	"fmt"

	"github.com/ebitengine/purego"
)

// What dlinfo is asked for, and the length of the longest answer.
const (
	origin  = 6
	pathMax = 4096
)

// Folder returns the folder that the library was loaded from.
func (l library) Folder() (string, error) {
	addr, err := purego.Dlsym(purego.RTLD_DEFAULT, "dlinfo")
	if err != nil {
		return "", err
	}
	var dlinfo func(handle uintptr, request int32, info *byte) int32
	purego.RegisterFunc(&dlinfo, addr)
	path := make([]byte, pathMax)
	if r := dlinfo(uintptr(l), origin, &path[0]); r != 0 {
		return "", fmt.Errorf("dlinfo returned %d", r)
	}
	path, _, _ = bytes.Cut(path, []byte{0})
	return string(path), nil
}
