//go:build unix && !linux && !darwin

package loader

// looksFirst is set where a library's file can be examined before it is loaded.
const looksFirst = true

// systemChoices returns what to try when nobody named a library.
func (s *system) systemChoices() []choice {
	const source = "the system's library search path"
	return []choice{
		{Candidate: Candidate{Name: "libcuda.so.1", Source: source}, bare: true},
		{Candidate: Candidate{Name: "libcuda.so", Source: source}, bare: true},
	}
}
