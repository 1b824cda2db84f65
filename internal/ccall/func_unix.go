//go:build unix && !(linux && cu_static)

package ccall

import "github.com/ebitengine/purego"

// newCallback returns a C function that calls f. It panics on platforms without callbacks, and
// after too many calls.
func newCallback(f func(uintptr) uintptr) (uintptr, error) { return purego.NewCallback(f), nil }
