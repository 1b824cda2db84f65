//go:build darwin || freebsd || netbsd

package dynlib

func (l library) Folder() (string, error) { return "", errUnsupported }
