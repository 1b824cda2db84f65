package main

import (
	"path"
	"strings"
)

// A rule gives the functions whose name matches glob a class.
type rule struct {
	class string
	dlsym bool
	glob  string
}

func isClass(s string) bool { return s == "hot" || s == "setup" || s == "blocking" }

// parseClasses reads the rules, one on each line: "class [dlsym] glob". The first rule that matches
// a function's name counts.
func parseClasses(file, text string, errs *errorList) []rule {
	var rules []rule
	line := 0
	for s := range strings.Lines(text) {
		line++
		s, _, _ = strings.Cut(s, "#")
		words := strings.Fields(s)
		if len(words) == 0 {
			continue
		}
		r := rule{class: words[0], glob: words[len(words)-1]}
		r.dlsym = len(words) == 3 && words[1] == "dlsym"
		switch _, err := path.Match(r.glob, ""); {
		case len(words) != 2 && !r.dlsym:
			errs.add(file, line, "want a class, perhaps dlsym, and a pattern")
		case !isClass(r.class):
			errs.add(file, line, "unknown class %q", r.class)
		case err != nil:
			errs.add(file, line, "malformed pattern %q", r.glob)
		default:
			rules = append(rules, r)
		}
	}
	return rules
}

// classify returns the first rule that name matches.
func classify(rules []rule, name string) (rule, bool) {
	for _, r := range rules {
		if ok, _ := path.Match(r.glob, name); ok {
			return r, true
		}
	}
	return rule{}, false
}
