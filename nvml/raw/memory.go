package raw

import "unsafe"

// At returns the struct at the begin of memory of the library, which may be longer than the struct, or nil if it is
// shorter. Some structs have data of any length behind them: VgpuInstanceGetMetadata fills such memory, and
// GetVgpuCompatibility reads it.
func At[T any](memory []byte) *T {
	var size T
	if uintptr(len(memory)) < unsafe.Sizeof(size) {
		return nil
	}
	return (*T)(unsafe.Pointer(unsafe.SliceData(memory)))
}

// Elements returns the n values at an address that a caller has set in a struct, or nil for NULL. It is for a
// [Software]: the caller promises that there are as many.
func Elements[T any](p *T, n uint32) []T {
	if p == nil {
		return nil
	}
	return unsafe.Slice(p, n)
}

// Text returns the string of C at an address that the library has set, or "" for NULL.
func Text(s *byte) string {
	if s == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(s), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(s, n))
}
