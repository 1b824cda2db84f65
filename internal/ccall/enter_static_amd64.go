//go:build linux && cu_static && !cgo && !go1.28

package ccall

// longElsewhere is the class, if any beside Setup, whose functions C makes on a thread of its own. Here signals reach
// a thread of Go's that is in C.
const longElsewhere = Setup
