//go:build !(linux && cu_static)

package ccall

// serveFuncs does nothing: C calls Go directly.
func serveFuncs(int) {}
