//go:build !linux

package dynlib

import "errors"

var errUnsupported = errors.New("this cannot be done with a library on this system")
