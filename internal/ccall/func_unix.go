//go:build unix && !(linux && cu_static)

package ccall

import "github.com/ebitengine/purego"

// newCallback returns a C function that calls f. It panics where there can be none, or
// none any more.
func newCallback(f func(uintptr) uintptr) (uintptr, error) { return purego.NewCallback(f), nil }
