//go:build !(darwin || freebsd || linux || netbsd)

package sim

// lacksDescriptor returns false: the platform has no such limit.
func lacksDescriptor(error) bool { return false }

// lacksMachine returns false: errors say more there.
func lacksMachine(error) bool { return false }

// shortage returns the text of an error.
func shortage(err error, _ uint64) string { return err.Error() }
