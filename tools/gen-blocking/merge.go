package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// merge puts the rows of a table that was measured later in the place of those with the same names, or, if there are
// none, after the one that precedes them there. Rows that were not measured change nothing. The table's head says which
// rows are later ones, and of which machine.
func merge(table, later string) (string, error) {
	head, rows, err := parse(table)
	if err != nil {
		return "", err
	}
	laterHead, laterRows, err := parse(later)
	if err != nil {
		return "", err
	}
	machine := machineOf(laterHead)
	if machine == "" {
		return "", errors.New("the rows to merge have no head that says where they were measured")
	}
	var merged []string
	at := -1 // the place of the preceding row
	for _, r := range laterRows {
		i := slices.IndexFunc(rows, func(old row) bool { return old.call == r.call })
		measured := !strings.HasPrefix(r.does, "not measured")
		switch {
		case i >= 0 && measured:
			rows[i] = r
		case i < 0 && measured:
			i = at + 1
			rows = slices.Insert(rows, i, r)
		}
		if i >= 0 {
			at = i
		}
		if measured {
			merged = append(merged, r.call)
		}
	}
	if len(merged) == 0 {
		return "", errors.New("there is nothing to merge: no row was measured")
	}
	var b strings.Builder
	titles := ""
	for line := range strings.Lines(table) {
		switch {
		case strings.HasPrefix(line, "# call\t"):
			titles = line
		case strings.HasPrefix(line, "#"):
			b.WriteString(line)
		}
	}
	if machine != machineOf(head) {
		fmt.Fprintf(&b, "# Of %s: %s.\n", machine, strings.Join(merged, "; "))
	}
	b.WriteString(titles)
	for _, r := range rows {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", r.call, r.does, r.held)
	}
	return b.String(), nil
}

// machineOf returns what the head of a table says of the machine: the GPU, the driver and the day.
func machineOf(head string) string {
	_, machine, _ := strings.Cut(head, "meanwhile: ")
	machine, _, _ = strings.Cut(machine, ". ")
	return machine
}
