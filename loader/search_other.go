//go:build !linux && !windows

package loader

import "runtime"

// looksFirst is set where a library's file can be examined before it is loaded:
// macOS has other libraries than examineELF knows, and some that are no files.
const looksFirst = runtime.GOOS != "darwin"

// systemChoices returns none: NVIDIA ships no driver for these systems.
func (s *system) systemChoices() []choice { return nil }
