//go:build unix

package loader

import "strings"

// isMissing reports whether the system's loader failed with err because there
// is no library of this name. If its message is about another name, something
// that the library needs is missing.
func isMissing(err error, name string) bool { return strings.Contains(err.Error(), name) }
