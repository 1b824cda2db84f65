//go:build !(darwin || freebsd || linux || netbsd)

package sim

import (
	"errors"
	"os"
)

func createLedger(string) (*os.File, string, error) { return nil, "", errors.ErrUnsupported }
func openLedger(string) (*os.File, error)           { return nil, errors.ErrUnsupported }
func openSettings(string, bool) (*os.File, error)   { return nil, errors.ErrUnsupported }
