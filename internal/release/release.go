// Package release has the version of the library.
package release

// Version is the version of this tree, without the v of its tag. The first section of CHANGELOG.md
// has the same version.
const Version = "0.1.0"
