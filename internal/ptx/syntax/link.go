package syntax

import (
	"fmt"
	"slices"
	"strings"
)

// linked is how a name of a text relates to those of other texts.
type linked struct {
	how string // .visible, .weak, .common, .extern, or "" for a name of this text only
	at  int    // the offset of the name where it is declared
}

// Linker makes one text of several. The zero value is ready to use. Its messages are those of
// NVIDIA's linker.
type Linker struct {
	texts  []*linkedText
	shared map[string]*sharedName
}

// linkedText is one of the texts.
type linkedText struct {
	name, text string
	begin      int // where the text begins behind its header
	m          *Module
}

// sharedName is a name that several texts may use.
type sharedName struct {
	in       *linkedText // the first text that has it
	declared declaration
	defined  *declaration // the definition that counts, or nil
}

// declaration is a variable or a function of a text.
type declaration struct {
	linked
	in       *linkedText
	name     string
	variable *Var
	function *Function
	alias    bool // the function is another one of the text
}

// declarations returns the variables and functions of a text.
func (t *linkedText) declarations() (list []*declaration) {
	for _, v := range t.m.Vars {
		list = append(list, &declaration{v.linked, t, v.Name, v, nil, false})
	}
	seen := make(map[string]bool) // it may be declared several times
	for _, f := range t.m.Functions {
		alias := !seen[f.Name] && slices.ContainsFunc(t.m.Aliases, func(a Alias) bool { return a.Name == f.Name })
		list = append(list, &declaration{f.linked, t, f.Name, nil, f, alias})
		seen[f.Name] = true
	}
	return list
}

// defines reports whether it is a definition.
func (d *declaration) defines() bool {
	return d.how != ".extern" && (d.variable != nil || d.function.HasBody || d.alias)
}

// yields reports whether another definition may replace this one.
func (d *declaration) yields() bool { return d.how == ".weak" || d.how == ".common" }

// Add adds a text. The error is an *[Error] if the text is not understood: the text is left out then.
// Otherwise the messages say what does not fit to earlier texts.
func (l *Linker) Add(name, text string) (messages []string, _ error) {
	text, _, _ = strings.Cut(text, "\x00")
	p, _, _, err := begin(text)
	if err != nil {
		return nil, err
	}
	m, err := Parse(text)
	if err != nil {
		return nil, err
	}
	t := &linkedText{name, text, p.tok.at, m}
	l.texts = append(l.texts, t)
	if l.shared == nil {
		l.shared = make(map[string]*sharedName)
	}
	for _, d := range t.declarations() {
		if d.how == "" {
			continue
		}
		s := l.shared[d.name]
		if s == nil {
			s = &sharedName{in: t, declared: *d}
			l.shared[d.name] = s
		}
		messages = append(messages, s.add(d)...)
	}
	return messages, nil
}

// add adds a declaration of the name.
func (s *sharedName) add(d *declaration) (messages []string) {
	say := func(what string, verb string) {
		messages = append(messages,
			fmt.Sprintf("%s '%s' in '%s', first %s in '%s'", what, d.name, d.in.name, verb, s.in.name))
	}
	a, b := s.declared.variable, d.variable
	switch {
	case (a == nil) != (b == nil):
		say("Memory space doesn't match for", "specified")
	case a == nil:
		if !slices.Equal(sizes(s.declared.function), sizes(d.function)) {
			say("Prototype doesn't match for", "defined")
		}
	case a.Space != b.Space:
		say("Memory space doesn't match for", "specified")
	case a.Size() != b.Size() && !a.Open && !b.Open && d.how != ".common":
		say("Size doesn't match for", "specified")
	}
	switch old := s.defined; {
	case messages != nil || !d.defines():
	case old == nil, old.yields() && !d.yields(),
		old.how == ".common" && d.how == ".common" && d.variable.Size() > old.variable.Size():
		s.defined = d
	case !d.yields():
		say("Multiple definition of", "defined")
	}
	return messages
}

// sizes returns the sizes of the parameters and the results of a function.
func sizes(f *Function) (list []uint64) {
	for _, v := range f.Params {
		list = append(list, v.Size())
	}
	for i, v := range f.Results {
		list = append(list, uint64(i)<<32|1<<63, v.Size())
	}
	return list
}

// Link returns the text that has all the texts, or messages about names that are not defined. known
// reports whether a function needs no definition.
func (l *Linker) Link(known func(function string) bool) (text string, messages []string) {
	var b strings.Builder
	version, target := int32(0), int32(0)
	features := ""
	for _, t := range l.texts {
		version = max(version, t.m.Version)
		if t.m.Target > target || t.m.Target == target && features == "" {
			target, features = t.m.Target, t.m.Features
		}
	}
	if len(l.texts) == 0 { // the result is a module without anything in it
		version, target = 60, 50
	}
	fmt.Fprintf(&b, ".version %d.%d\n.target sm_%d%s\n.address_size 64\n", version/10, version%10, target, features)
	for i, t := range l.texts {
		at := make(map[int]string)       // what replaces names at their places
		names := make(map[string]string) // what replaces all names of the text
		for _, d := range t.declarations() {
			s := l.shared[d.name]
			other := fmt.Sprintf("%s__%d", d.name, i+1)
			switch {
			case d.defines() && d.how == "" && l.taken(d.name, i):
				names[d.name] = other
			case d.defines() && d.how != "" && s.defined.at != d.at, d.defines() && d.how != "" && s.defined.in != t:
				at[d.at] = other // another definition counts
			case d.how != "" && s.defined == nil && t.needs(d, known):
				messages = append(messages, fmt.Sprintf("Undefined reference to '%s' in '%s'", d.name, t.name))
			}
		}
		fmt.Fprintf(&b, "// %q\n%s\n", t.name, t.replaced(at, names))
	}
	return b.String(), messages
}

// taken reports whether a name of one text only stands for something else in a text before it, or is
// shared by texts.
func (l *Linker) taken(name string, i int) bool {
	if l.shared[name] != nil {
		return true
	}
	for _, t := range l.texts[:i] {
		if slices.ContainsFunc(t.declarations(), func(d *declaration) bool { return d.name == name }) {
			return true
		}
	}
	return false
}

// needs reports whether the text needs a definition of what it declares.
func (t *linkedText) needs(d *declaration, known func(string) bool) bool {
	if d.variable != nil {
		return !(d.variable.Space == Shared && d.variable.Open)
	}
	uses := 0
	t.tokens(func(tok token) {
		if tok.text == d.name {
			uses++
		}
	})
	for _, f := range t.m.Functions {
		if f.Name == d.name {
			uses--
		}
	}
	return uses > 0 && !known(d.name)
}

// tokens calls a function for each token behind the header.
func (t *linkedText) tokens(f func(token)) {
	s := scanner{text: t.text, at: t.begin, line: 1}
	for {
		tok, err := s.next()
		if err != nil || tok.text == "" {
			return
		}
		f(tok)
	}
}

// replaced returns the text behind its header, in which names are replaced.
func (t *linkedText) replaced(at map[int]string, names map[string]string) string {
	if len(at) == 0 && len(names) == 0 {
		return t.text[t.begin:]
	}
	var b strings.Builder
	done := t.begin
	t.tokens(func(tok token) {
		other, is := at[tok.at]
		if !is {
			other, is = names[tok.text]
		}
		if is {
			b.WriteString(t.text[done:tok.at])
			b.WriteString(other)
			done = tok.at + len(tok.text)
		}
	})
	return b.String() + t.text[done:]
}
