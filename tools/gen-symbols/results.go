package main

import (
	"strings"

	"github.com/purecu/purecu/tools/internal/cheader"
)

// A resultText is a line of the results file: the driver's own text for a code, and whether the
// result is sticky although the header does not say so.
type resultText struct {
	name   string
	text   string
	sticky bool
	line   int
}

// parseResults reads lines of code, name, text and, optionally, the word sticky.
func parseResults(file, text string, errs *cheader.ErrorList) map[int64]resultText {
	texts := map[int64]resultText{}
	eachRow(file, text, errs, func(r row) {
		if n := len(r.fields); n != 3 && n != 4 {
			r.bad("want code, name, text and perhaps sticky, found %d columns", n)
			return
		}
		t := resultText{name: r.field(1), text: r.field(2), line: r.line}
		if len(r.fields) == 4 {
			t.sticky = r.choice(3, "", "sticky")
		}
		code := r.number(0)
		if _, ok := texts[code]; ok {
			r.bad("code %d is here twice", code)
		}
		texts[code] = t
	})
	return texts
}

// stickyWords are in the header's comment on each result after which a process can no longer use
// CUDA.
const stickyWords = "leaves the process in an inconsistent state"

// isSticky reports whether the comment on a result has stickyWords.
func isSticky(doc string) bool {
	words := strings.Fields(strings.ReplaceAll(doc, "*", " "))
	return strings.Contains(strings.Join(words, " "), stickyWords)
}

// joinResults makes facts from the constants of CUresult and the results file. Both must have the
// same codes.
func joinResults(u *cheader.Unit, file string, texts map[int64]resultText, errs *cheader.ErrorList) []resultFact {
	typ := u.Typedefs["CUresult"]
	var facts []resultFact
	seen := map[int64]bool{}
	for _, e := range u.Enums {
		if typ == nil || e.Type != typ {
			continue
		}
		for _, c := range e.Constants {
			t, ok := texts[c.Value]
			seen[c.Value] = true
			switch {
			case !ok:
				errs.Add(c.File, c.Line, "%s = %d has no line in %s", c.Name, c.Value, file)
			case t.name != c.Name:
				errs.Add(file, t.line, "code %d is %s here and %s in the header", c.Value, t.name, c.Name)
			}
			facts = append(facts, resultFact{code: c.Value, name: c.Name, sticky: t.sticky || isSticky(c.Doc),
				text: t.text})
		}
	}
	for code, t := range texts {
		if !seen[code] {
			errs.Add(file, t.line, "code %d, %s, is not in the header", code, t.name)
		}
	}
	return facts
}
