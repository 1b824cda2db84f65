//go:build linux && cu_static && (cgo || go1.28 || !(amd64 || arm64))

package ccall

// A build with -tags cu_static that cannot be static does not compile.
const _ = cu_static_needs_CGO_ENABLED_0_and_amd64_or_arm64_and_Go_before_1_28
