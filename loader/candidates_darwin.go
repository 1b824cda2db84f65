package loader

// systemCandidates returns none: macOS has no CUDA driver.
func systemCandidates() []Candidate { return nil }
