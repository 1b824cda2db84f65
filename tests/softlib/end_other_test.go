//go:build !linux

package softlib

import "errors"

func end(string) error { return errors.ErrUnsupported }

func lacks(string) error { return errors.ErrUnsupported }
