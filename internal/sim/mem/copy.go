package mem

// Bytes are bytes in pieces, such as a Content.
type Bytes interface {
	// Part returns the first of n bytes at an offset: how many are in one piece, and these, or nil if nothing was
	// written there, so that they are zero.
	Part(off, n uint64) (data []byte, length uint64)
	// Provide makes the machine provide memory for n bytes at an offset, or reports false.
	Provide(off, n uint64) bool
	// Clear makes n bytes zero. It needs no memory of the machine.
	Clear(off, n uint64)
}

// Put writes bytes at an offset. It reports false if the machine has too little memory.
func Put[B Bytes](to B, off uint64, from []byte) bool {
	if !to.Provide(off, uint64(len(from))) {
		return false
	}
	for len(from) > 0 {
		data, length := to.Part(off, uint64(len(from)))
		CopyBytes(data, from)
		off, from = off+length, from[length:]
	}
	return true
}

// Copy copies n bytes. It reports false if the machine has too little memory.
func Copy[B Bytes](to B, off uint64, from B, at, n uint64) bool {
	for n > 0 {
		data, length := from.Part(at, n)
		if data == nil {
			to.Clear(off, length)
		} else if !Put(to, off, data) {
			return false
		}
		off, at, n = off+length, at+length, n-length
	}
	return true
}
