package simnvml

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed profiles/h200.tsv
var h200 string

// recording is what a GPU was recorded to answer.
type recording map[string]*function

// function has the answers of a function.
type function struct {
	usual  []string          // the arguments of the usual call, which tell the kinds of parameters
	rows   map[string]answer // by the arguments
	before answer            // before the library is initialized, and after it has been shut down
}

// answer is a result, with what the call sets.
type answer struct {
	result string
	outs   []string // of the arguments that lead to something; "-" is nothing, as is a missing one at the end
}

// h200Profile is parsed when it is first used.
var h200Profile = sync.OnceValue(func() recording { return parse(h200) })

// uninitialized is the result of nearly all functions before the library is initialized.
const uninitialized = "1"

func parse(table string) recording {
	p := recording{}
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		phase, name, args := cells[0], cells[1], cells[2]
		f := p[name]
		if f == nil {
			f = &function{rows: map[string]answer{}, before: answer{result: uninitialized}}
			p[name] = f
		}
		a := answer{strings.TrimPrefix(cells[3], "~"), cells[4:]}
		switch phase {
		case "before":
			f.before = a
		case "initialized":
			if f.usual == nil {
				f.usual = splitArguments(args)
			}
			f.rows[args] = a
		}
	}
	return p
}

// splitArguments splits the arguments of a row. Those in brackets contain spaces.
func splitArguments(args string) (list []string) {
	depth, begin := 0, 0
	for i, c := range args {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ' ':
			if depth == 0 {
				list = append(list, args[begin:i])
				begin = i + 1
			}
		}
	}
	if args != "" {
		list = append(list, args[begin:])
	}
	return list
}

// find returns the answer to a call with these arguments.
func (f *function) find(args []string) (answer, bool) {
	if a, ok := f.rows[strings.Join(args, " ")]; ok {
		return a, true
	}
	for general := range General(args) {
		if a, ok := f.rows[strings.Join(general, " ")]; ok {
			return a, true
		}
	}
	return answer{}, false
}
