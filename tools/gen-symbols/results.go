package main

import "strings"

// A resultText is a line of the results file: the driver's own text for a code, and whether the
// result is sticky although the header does not say so.
type resultText struct {
	name   string
	text   string
	sticky bool
	line   int
}

// parseResults reads lines of code, name, text and, optionally, the word sticky.
func parseResults(file, text string, errs *errorList) map[int64]resultText {
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
func joinResults(u *unit, file string, texts map[int64]resultText, errs *errorList) []resultFact {
	typ := u.typedefs["CUresult"]
	var facts []resultFact
	seen := map[int64]bool{}
	for _, e := range u.enums {
		if typ == nil || e.typ != typ {
			continue
		}
		for _, c := range e.constants {
			t, ok := texts[c.value]
			seen[c.value] = true
			switch {
			case !ok:
				errs.add(c.file, c.line, "%s = %d has no line in %s", c.name, c.value, file)
			case t.name != c.name:
				errs.add(file, t.line, "code %d is %s here and %s in the header", c.value, t.name, c.name)
			}
			facts = append(facts, resultFact{code: c.value, name: c.name, sticky: t.sticky || isSticky(c.doc),
				text: t.text})
		}
	}
	for code, t := range texts {
		if !seen[code] {
			errs.add(file, t.line, "code %d, %s, is not in the header", code, t.name)
		}
	}
	return facts
}
