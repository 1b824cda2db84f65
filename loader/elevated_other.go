//go:build !linux

package loader

// elevated reports whether the program runs with rights that its user lacks, in which case the
// user's environment must not choose what code it loads.
func elevated() bool { return otherIDs() }
