//go:build unix && !darwin

package loader

// systemCandidates returns the names to try when nobody named a library.
// libcuda.so.1 comes first: libcuda.so belongs to development packages, and
// under WSL only the former exists.
func systemCandidates() []Candidate {
	const source = "the system's library search path"
	return []Candidate{
		{Name: "libcuda.so.1", Source: source},
		{Name: "libcuda.so", Source: source},
	}
}
