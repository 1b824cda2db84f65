package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/purecu/purecu/internal/release"
)

// buildReport is the version of cuprobe.
type buildReport struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"` // the tree differed from the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// programVersion returns the version of cuprobe, and the revision as far as the build recorded it.
func programVersion() *buildReport {
	r := &buildReport{Version: release.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		r.Module = info.Main.Path
		r.Revision = pseudoRevision(info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				r.Revision = s.Value
			case "vcs.modified":
				r.Modified = s.Value == "true"
			}
		}
	}
	return r
}

// pseudoRevision returns the revision at the end of a pseudo-version, or "". It is all that there is
// of a revision after go install …/cmd/cuprobe@main.
func pseudoRevision(version string) string {
	version, _, _ = strings.Cut(version, "+") // metadata about the build follows
	parts := strings.FieldsFunc(version, func(r rune) bool { return r == '-' || r == '.' })
	if n := len(parts); n > 3 && consistsOf(parts[n-2], 14, "0123456789") && consistsOf(parts[n-1], 12, "0123456789abcdef") {
		return parts[n-1]
	}
	return ""
}

// consistsOf reports whether s has a length, and no other characters.
func consistsOf(s string, length int, characters string) bool {
	return len(s) == length && strings.Trim(s, characters) == ""
}

func (r *buildReport) text(w io.Writer) {
	fmt.Fprintf(w, "cuprobe %s", r.Version)
	switch {
	case r.Revision != "" && r.Modified:
		fmt.Fprintf(w, " (%s, modified)", r.Revision)
	case r.Revision != "":
		fmt.Fprintf(w, " (%s)", r.Revision)
	}
	fmt.Fprintf(w, ", %s, %s\n", r.Go, r.Platform)
}
