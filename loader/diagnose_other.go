//go:build !linux

package loader

import "errors"

// gather adds nothing to the report: there are no such files to look at.
func (m *machine) gather(*Report) {}

// elementOf returns "": there is no LD_LIBRARY_PATH that this package knows of.
func (m *machine) elementOf(Candidate) string { return "" }

// openDevice fails: gather does not call it.
func openDevice(string) error { return errors.ErrUnsupported }
