package loader

// looksFirst is not set: macOS has other libraries than examineELF knows, and
// some that are no files.
const looksFirst = false

// systemChoices returns none: macOS has no CUDA driver.
func (s *system) systemChoices() []choice { return nil }
