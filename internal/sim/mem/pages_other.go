//go:build !(darwin || freebsd || linux || netbsd)

package mem

// mostPages is the largest memory in one piece, in bytes.
const mostPages = 1 << 30

// mapPages returns zeroed memory that begins at a page, on Go's heap, and the mapping that has it. It
// returns nil if it would be too large.
func mapPages(size uint64) (memory, mapping []byte) {
	if size > mostPages {
		return nil, nil
	}
	memory = make([]byte, size+Page-1)
	skip := -AddressOf(memory) & (Page - 1)
	memory = memory[skip : skip+size : skip+size]
	return memory, memory
}

// unmapPages leaves memory to the garbage collector.
func unmapPages([]byte) {}

// canMap reports whether the limits of the process allow so many more addresses: none are known here.
func canMap(uint64) bool { return true }
