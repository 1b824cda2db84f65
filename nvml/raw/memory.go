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
