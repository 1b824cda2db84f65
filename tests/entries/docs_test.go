package entries

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/captures.md")

// docsHead is the beginning of docs/captures.md.
const docsHead = `# What may be called while a stream is being captured

The tests generate this page from what an H200 answered (driver 580, CUDA 13.0). The software driver answers the same. The whole table, with every kind of stream and event, is in
[tests/entries](../tests/entries/testdata).

- **yes**: the call is made, or becomes part of the graph.
- **a number**: the call is refused with that result (see [errors](errors.md)), and the capture continues.
- **! and a number**: the call is refused, and **the capture is invalidated**. The end of the capture returns 901. Events that were recorded in it are invalid.

The columns say with what, and by whom, the function is called:

- *on it*: with the stream that is being captured, by the thread that began the capture.
- *legacy*: with the legacy default stream, by the same thread, while a blocking stream is being captured.
- *same thread*, *other thread*: with something that is not part of the capture, by the thread that began it, or by another thread, while the capture is in global, thread-local or relaxed
  mode. A thread that has exchanged its own mode for the relaxed mode may do what a relaxed capture allows.

Calls that take an event are made with a complete event that is not part of the capture. If the event was recorded in the capture, cuEventQuery and cuEventSynchronize return 907 and
invalidate the capture, from every thread and in every mode.

| function | on it | legacy | same thread: global | thread-local | relaxed | other thread: global | thread-local | relaxed |
|---|---|---|---|---|---|---|---|---|
`

// TestDocs compares docs/captures.md with the file.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := read(string(text))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := docs(rows)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "captures.md")
	if *update {
		if err := os.WriteFile(path, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(doc, string(have)); diff != "" {
		t.Errorf("docs/captures.md is not up to date; -update writes it (-want +got):\n%s", diff)
	}
}

// docs writes the page from the rows of the file.
func docs(rows map[string][]string) (string, error) {
	sc := scene{kind: fromBlocking}
	var err error
	cell := func(c call, s streamOperand, v view) string {
		sub := subject{call: c}
		if c.stream {
			sub.stream = s
		} else if s != nonBlocking {
			return ""
		}
		if c.event {
			sub.event = complete
		}
		cells, found := rows[sc.key(sub)]
		if !found {
			err = fmt.Errorf("there is no row for %v, %v", c.name, sub.stream)
			return ""
		}
		for i, other := range sc.views() {
			if other == v {
				return verdict(cells[min(i, len(cells)-1)])
			}
		}
		return ""
	}
	var b strings.Builder
	var always []string
	b.WriteString(docsHead)
	for _, c := range calls() {
		if c.refused || strings.HasSuffix(c.name, " 3") || c.name == "cuIpcGetEventHandle" {
			continue // fails for other reasons
		}
		if slices.Contains(unrecorded, c.name) {
			continue
		}
		on, old := "", ""
		if c.stream {
			on = cell(c, origin, view{})
			if !c.own {
				old = cell(c, legacy, view{})
			}
		}
		line := []string{c.name, on, old}
		for _, other := range []bool{false, true} {
			for mode := range int32(3) {
				line = append(line, cell(c, nonBlocking, view{capture: mode, other: other}))
			}
		}
		if !slices.ContainsFunc(line[1:], func(cell string) bool { return cell != "" && cell != "yes" }) {
			always = append(always, c.name)
			continue
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
	}
	fmt.Fprintf(&b, "\nAlways done: %s.\n", strings.Join(always, "; "))
	return b.String(), err
}

// verdict returns one word about the result of a call.
func verdict(cell string) string {
	res, rest, _ := strings.Cut(cell, " ")
	switch {
	case strings.Contains(rest, "origin:."):
		return "yes: it is over"
	case res == "0":
		return "yes"
	case strings.Contains(rest, "origin:i"):
		return "**!** " + res
	}
	return res
}
