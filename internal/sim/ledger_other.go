//go:build !(darwin || freebsd || linux || netbsd)

package sim

import (
	"errors"
	"os"
)

func createLedger(string) (*os.File, string, error) { return nil, "", errors.ErrUnsupported }
func openLedger(string) (*os.File, bool, error)     { return nil, false, errors.ErrUnsupported }

func openShared(string, string, bool) (*os.File, error) { return nil, errors.ErrUnsupported }
