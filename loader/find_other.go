//go:build !linux

package loader

// find returns no files, because it does not know what this system's loader finds.
func (s *system) find(string) []hit { return nil }

// searchesHere returns false, because it does not know where this system's loader searches.
func (s *system) searchesHere() bool { return false }

// mappedFile returns "", because it does not know the files that are mapped.
func mappedFile(uintptr) string { return "" }
