package loader

import (
	"os"
	"path/filepath"
)

// systemCandidates returns the driver's absolute path: a bare name would be
// looked for in the program's own folder first.
func systemCandidates() []Candidate {
	root := os.Getenv("SystemRoot")
	if root == "" {
		root = `C:\Windows`
	}
	return []Candidate{{
		Name:   filepath.Join(root, "System32", "nvcuda.dll"),
		Source: "the system folder",
	}}
}
