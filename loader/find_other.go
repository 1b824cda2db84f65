//go:build !linux

package loader

// find returns no forecast of what the system's loader does.
func (s *system) find(string) []hit { return nil }

// searchesHere returns false: that is not known.
func (s *system) searchesHere() bool { return false }

// mappedFile returns "": that is not known.
func mappedFile(uintptr) string { return "" }
