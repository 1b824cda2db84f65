package nvml

import (
	"bytes"
	"unsafe"
)

// The structs of this package and those of package raw have the same layout, that of C: a test compares them. Only the
// functions of this file convert their addresses.

// as converts the address of a struct.
func as[To, From any](p *From) *To { return (*To)(unsafe.Pointer(p)) }

// asSlice converts a slice of structs or handles of the same size.
func asSlice[To, From any](s []From) []To {
	return unsafe.Slice((*To)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// one returns a slice of a variable.
func one[T any](p *T) []T { return unsafe.Slice(p, 1) }

// asBytes returns the memory of a struct.
func asBytes[T any](p *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)) }

// structVersion returns the number for the member Version of a struct.
func structVersion[T any](p *T, version uint32) uint32 {
	return uint32(unsafe.Sizeof(*p)) | version<<24
}

// text returns the string in a buffer, which NUL or the end of the buffer ends.
func text(buffer []byte) string {
	buffer, _, _ = bytes.Cut(buffer, []byte{0})
	return string(buffer)
}

// chars returns the string in an array of C's char.
func chars(s []int8) string { return text(asSlice[byte](s)) }

// ints returns the numbers as ints, or nil for nil.
func ints(numbers []uint32) []int {
	if numbers == nil {
		return nil
	}
	s := make([]int, len(numbers))
	for i, n := range numbers {
		s[i] = int(n)
	}
	return s
}

// handles returns handles as the interface that they implement, or nil for nil.
func handles[I, T any](list []T) []I {
	if list == nil {
		return nil
	}
	s := make([]I, len(list))
	for i, h := range list {
		s[i] = any(h).(I)
	}
	return s
}
