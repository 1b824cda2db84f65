//go:build !amd64 || cu_portable

package simd

var (
	functions   = map[string]Func{}
	comparisons = map[string]Comparison{}
)

// Available reports whether the processor has what this package needs: here it has not.
func Available() bool { return false }

// Choose does nothing here.
func Choose(_, _, _ *Column, _, _ uint32) bool { return false }

// Load32 does nothing here.
func Load32(_, _ *Column, _ *Memory, _ uint32) bool { return false }

// Load64 does nothing here.
func Load64(_, _ *Column, _ *Memory, _ uint32) bool { return false }

// Store32 does nothing here.
func Store32(_, _ *Column, _ *Memory, _ uint32) bool { return false }

// Store64 does nothing here.
func Store64(_, _ *Column, _ *Memory, _ uint32) bool { return false }
