//go:build linux && cu_static && !cgo && !go1.28

package ccall

// longElsewhere is a class whose functions run on a thread that C has created, in addition to
// Setup. There is none on amd64: signals reach a Go thread also while it runs C.
const longElsewhere = Setup
