package main

import (
	"path"
	"slices"
	"strings"

	"github.com/purecu/purecu/tools/internal/cheader"
)

// A rule gives the functions whose name matches glob a class.
type rule struct {
	class    string
	dlsym    bool
	although bool // the measurement says something else
	glob     string
}

// measuredClass is the class that the measurement of waiting functions gives.
const measuredClass = "measured"

func isClass(s string) bool {
	return s == "hot" || s == "setup" || s == "blocking" || s == measuredClass
}

// parseClasses reads the rules, one on each line: "class [dlsym|although] glob". The first rule that
// matches a function's name counts.
func parseClasses(file, text string, errs *cheader.ErrorList) []rule {
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
		r.although = len(words) == 3 && words[1] == "although"
		switch _, err := path.Match(r.glob, ""); {
		case len(words) != 2 && !r.dlsym && !r.although:
			errs.Add(file, line, "want a class, perhaps dlsym or although, and a pattern")
		case !isClass(r.class):
			errs.Add(file, line, "unknown class %q", r.class)
		case err != nil:
			errs.Add(file, line, "malformed pattern %q", r.glob)
		default:
			rules = append(rules, r)
		}
	}
	return rules
}

// measuredWaits reads the table of measured functions: for each function, without version, whether it
// waited in any situation. Functions of which no row says whether they waited are not in it.
func measuredWaits(text string) map[string]bool {
	waits := map[string]bool{}
	for line := range strings.Lines(text) {
		call, rest, _ := strings.Cut(line, "\t")
		does, _, _ := strings.Cut(rest, "\t")
		waited := strings.HasPrefix(does, "waits")
		if strings.HasPrefix(line, "#") || !waited && (!strings.HasPrefix(does, "returns") ||
			strings.Contains(does, "unclear")) {
			continue
		}
		calls, _, _ := strings.Cut(call, ",")
		for part := range strings.SplitSeq(calls, " and ") {
			fn, _, _ := strings.Cut(strings.TrimPrefix(part, "the first "), " ")
			waits[unversioned(fn)] = waits[unversioned(fn)] || waited
		}
	}
	return waits
}

// classify gives every function of m the class that the rules in classes say. A rule must not
// contradict the table of measured functions, unless it says that it does.
func (m *manifest) classify(classes, measured source) error {
	var errs cheader.ErrorList
	rules := parseClasses(classes.name, classes.text, &errs)
	if err := errs.Err(); err != nil {
		return err
	}
	waits := measuredWaits(measured.text)
	line := strings.Count(classes.text, "\n") // the last, where a rule for everything else would be
	contradicts := make([]bool, len(rules))
	for i := range m.funcs {
		f := &m.funcs[i]
		n := slices.IndexFunc(rules, func(r rule) bool {
			ok, _ := path.Match(r.glob, f.ask) // parseClasses reports bad patterns
			return ok
		})
		if n < 0 {
			errs.Add(classes.name, line, "no rule gives %s a class", f.export)
			continue
		}
		r := rules[n]
		f.class, f.dlsym = r.class, r.dlsym
		waited, known := waits[f.ask]
		switch {
		case r.class == measuredClass && known && !waited:
			f.class = "hot"
		case r.class == measuredClass:
			f.class = "blocking"
		case known && waited != (r.class == "blocking"):
			contradicts[n] = true
			if !r.although {
				errs.Add(classes.name, line, "%s is of class %s, and %s does not say so", f.export, r.class,
					measured.name)
			}
		}
	}
	for n, r := range rules {
		if r.although && !contradicts[n] {
			errs.Add(classes.name, line, "no function of %s contradicts %s", r.glob, measured.name)
		}
	}
	return errs.Err()
}
