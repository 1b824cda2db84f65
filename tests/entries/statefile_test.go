package entries

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
)

//go:embed testdata/h200-cuda13.0-states.tsv
var recordedStates string

// stateHead explains the file.
const stateHead = `# What each function returned in each state, as %s answered. Written by TestStates with -entries.record.
#
# A row has a function, what its cells are about, and cells. A cell is an answer, and the states in which it was given; * stands for
# all that no other cell of the row names.
#
# Rows are about the context that is current ("context"; "legacy" is the same with the legacy default stream), or about one argument
# that is not the usual one ("arguments"), with the primary context of the first device, without a current context, or while a stream
# is being captured. The places are:
#   usual        the primary context of the first device is current, which is the context of the arguments, too
#   none         no context is current
#   other        another context of the first device is current
#   device       the primary context of the second device is current
#   other's      like other, and the arguments are of that context
#   device's     like device, and the arguments are of that context and device
#   …+capture    the same while a stream of the first context is being captured in global mode, by the same thread
# Of the arguments, 2:null is that the third is NULL. zero is 0, for a handle, size or number; gone is a handle of an object that was
# destroyed, and wrong one of another kind; large is 1 TiB, and huge 4 EiB or, of 32 bits, the largest number; minus is -1.
#
# An answer is the result; then w if the function has failed and has written something, - if it has succeeded and has not written
# everything; ! if it has invalidated the capture; > and a result if the context is of no use any more. CRASH and HANG say what
# became of the process, VARIES that the answer was not the same each time. Calls that other calls have shown to crash were not made.
`

// section has the groups of a function that are written as one row, as their cells are the same.
type section struct {
	names []string
	cells string
}

// cellsOf returns the cells of a group as a part of a row, or "" if it has none.
func cellsOf(g group, cells map[string]string) string {
	var order []string
	asked := map[string][]string{}
	missing := false
	for i, in := range g.list {
		c := cells[in.String()]
		if c == "" {
			missing = true
			continue
		}
		if asked[c] == nil {
			order = append(order, c)
		}
		asked[c] = append(asked[c], g.says[i])
	}
	if !missing && len(order) > 0 { // the most frequent answer stands for all others
		most := slices.MaxFunc(order, func(a, b string) int { return len(asked[a]) - len(asked[b]) })
		asked[most] = []string{"*"}
	}
	var b strings.Builder
	for _, c := range order {
		fmt.Fprintf(&b, "\t%s %s", c, strings.Join(asked[c], ","))
	}
	return b.String()
}

// writeStates writes answers.
func writeStates(w io.Writer, who string, cells map[string]string) error {
	list, err := functions()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, stateHead, who)
	for _, f := range list {
		var rows []section
		for _, g := range f.groups() {
			text := cellsOf(g, cells)
			if text == "" {
				continue
			}
			if i := slices.IndexFunc(rows, func(s section) bool { return s.cells == text }); i >= 0 {
				rows[i].names = append(rows[i].names, g.name)
				continue
			}
			rows = append(rows, section{[]string{g.name}, text})
		}
		for _, s := range rows {
			fmt.Fprintf(&b, "%s\t%s%s\n", f.name, strings.Join(s.names, "; "), s.cells)
		}
	}
	_, err = w.Write(b.Bytes())
	return err
}

// readStates reads answers.
func readStates(text string) (map[string]string, error) {
	list, err := functions()
	if err != nil {
		return nil, err
	}
	groups := map[string]group{}
	for _, f := range list {
		for _, g := range f.groups() {
			groups[f.name+"\t"+g.name] = g
		}
	}
	cells := map[string]string{}
	for n, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) < 3 {
			return nil, fmt.Errorf("line %d has %d columns", n+1, len(fields))
		}
		for _, name := range strings.Split(fields[1], "; ") {
			g, found := groups[fields[0]+"\t"+name]
			if !found {
				return nil, fmt.Errorf("line %d: there is no row %s of %s", n+1, name, fields[0])
			}
			if err := g.read(fields[2:], cells); err != nil {
				return nil, fmt.Errorf("line %d: %w", n+1, err)
			}
		}
	}
	return cells, nil
}

// read reads the cells of a row.
func (g group) read(row []string, cells map[string]string) error {
	rest := ""
	answers := map[string]string{}
	for _, cell := range row {
		i := strings.LastIndex(cell, " ")
		if i < 0 {
			return fmt.Errorf("%q is no cell", cell)
		}
		for _, s := range strings.Split(cell[i+1:], ",") {
			if s == "*" {
				rest = cell[:i]
			} else if !slices.Contains(g.says, s) {
				return fmt.Errorf("there is no state %q", s)
			}
			answers[s] = cell[:i]
		}
	}
	for i, in := range g.list {
		if a, found := answers[g.says[i]]; found {
			cells[in.String()] = a
		} else if rest != "" {
			cells[in.String()] = rest
		}
	}
	return nil
}
