package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// merge adds the rows of a table that was measured later. A row replaces the row of the same name.
// A new row comes after the row that precedes it in the later table. Rows that were not measured
// are ignored. The head of the result names the later rows and their machine.
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
	at := -1 // index of the preceding row
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

// machineOf returns the GPU, the driver and the day in the head of a table.
func machineOf(head string) string {
	_, machine, _ := strings.Cut(head, "meanwhile: ")
	machine, _, _ = strings.Cut(machine, ". ")
	return machine
}
