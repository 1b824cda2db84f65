//go:build !linux

package loader

import "errors"

// gather adds nothing, because this system has no such files.
func (m *machine) gather(*Report) {}

// elementOf returns "", because this system has no LD_LIBRARY_PATH.
func (m *machine) elementOf(Candidate) string { return "" }

// openDevice fails. gather does not call it here.
func openDevice(string) error { return errors.ErrUnsupported }
