//go:build linux && cu_static && !cgo && !go1.28

package ccall

// longElsewhere is a class whose functions run on a thread that C has created, in addition to
// Setup. Signals are blocked during a direct call, so long calls on a Go thread would delay them.
const longElsewhere = Blocking
