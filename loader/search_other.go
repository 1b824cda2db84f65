//go:build !linux && !windows

package loader

import "runtime"

// looksFirst is set if a library's file can be examined before it is loaded. macOS has libraries
// that examineELF does not know, and some that are not files.
const looksFirst = runtime.GOOS != "darwin"

// systemChoices returns nothing, because NVIDIA ships nothing for these systems.
func (s *system) systemChoices(*product) []choice { return nil }

func besideDriver(*system, []string) []choice { return nil }

func toolkitFolders(*system, []string) []choice { return nil }
