//go:build !(darwin || freebsd || linux || netbsd)

package sim

// withoutDescriptors is for a test that needs limits.
func withoutDescriptors() int { return 0 }
