//go:build darwin || freebsd || netbsd

package sim

import (
	"errors"
	"os"
)

// unnamedFile returns an error: the system cannot create a file without a name.
func unnamedFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }
