//go:build darwin || freebsd || netbsd

package dynlib

// Folder returns an error: this system does not tell the folder.
func (l library) Folder() (string, error) { return "", errUnsupported }
