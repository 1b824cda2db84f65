//go:build linux && cu_static && !cgo && !go1.28

package ccall

// longElsewhere is the class, if any beside Setup, whose functions C makes on a thread of its own. Signals are blocked
// during a direct call, for which others may wait.
const longElsewhere = Blocking
