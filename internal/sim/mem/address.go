package mem

import "unsafe"

// Page is the alignment of memory of the host, in bytes.
const Page = 4096

// NewBytes returns zeroed memory that is aligned for words.
func NewBytes(size uint64) []byte {
	words := make([]uint64, (size+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
}

// AddressOf returns the address of memory that does not move.
func AddressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
