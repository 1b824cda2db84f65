package main

import (
	"path"
	"slices"
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

// classify gives every function of m the class that the rules in classes say.
func (m *manifest) classify(classes source) error {
	var errs errorList
	rules := parseClasses(classes.name, classes.text, &errs)
	if err := errs.err(); err != nil {
		return err
	}
	line := strings.Count(classes.text, "\n") // the last, where a rule for everything else would be
	for i := range m.funcs {
		f := &m.funcs[i]
		n := slices.IndexFunc(rules, func(r rule) bool {
			ok, _ := path.Match(r.glob, f.ask) // parseClasses reports bad patterns
			return ok
		})
		if n < 0 {
			errs.add(classes.name, line, "no rule gives %s a class", f.export)
			continue
		}
		f.class, f.dlsym = rules[n].class, rules[n].dlsym
	}
	return errs.err()
}
