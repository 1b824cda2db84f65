//go:build linux && cu_static

package ccall

// newCallback panics: Go's runtime cannot be entered on a thread that it does not know,
// and with this engine those of C are such.
func newCallback(func(uintptr) uintptr) uintptr {
	panic("a static program has no way back from C into Go")
}
