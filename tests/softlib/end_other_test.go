//go:build !linux

package softlib

import "errors"

func end(string) error { return errors.ErrUnsupported }
