//go:build race

package mem

// CopyBytes copies the bytes of memory of the program. Go's race detector does not see it, as it does not see
// kernels: streams that use one place without an order are a mistake of the program, and not a data race of Go code.
// The copy function would be seen even here.
//
//go:norace
func CopyBytes(to, from []byte) {
	for i, b := range from[:min(len(from), len(to))] {
		to[i] = b
	}
}
