package main

import (
	"strings"
	"testing"
)

// TestDocument checks the document of a small table.
func TestDocument(t *testing.T) {
	const table = "# x meanwhile: GPU, driver 1. More.\n" +
		"# call\tdoes\theld\n" +
		"cuFree of memory\twaits\tcuA, cuB; in another context: nothing\n" +
		"cuMake, the Nth\twaits: the 3rd, 6th, up to the 9th\tcuA; in another context: cuC\n" +
		"cuQuery\treturns\t-\n"
	doc, err := document(table, "Mem.Close\tcuFree of memory\talways\nCtx.Make\tcuMake, the Nth\tat the {N}\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Measured on: GPU, driver 1.", "| `Mem.Close` | always | group A |", "| `Ctx.Make` | at the 3rd, 6th | group B |",
		"- Group A: `cuA`, `cuB`.", "- `cuMake` may block `cuC`.", "| cuMake, the 3rd, 6th | group B | `cuC` |", "in all situations: `cuQuery`.",
	} {
		if !strings.Contains(string(doc), want) {
			t.Errorf("%q is missing in:\n%s", want, doc)
		}
	}
	for what, methods := range map[string]string{"no row": "M\tcuNone\tx\n", "a row that returns": "M\tcuQuery\tx\n", "too few columns": "M\n"} {
		if _, err := document(table, methods); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestMerge puts later rows into a table.
func TestMerge(t *testing.T) {
	const table = "# x meanwhile: GPU, driver 1, 2026-01-01. More.\n# call\tdoes\theld\ncuA\treturns\t-\ncuB, full\tnot measured\t-\ncuC\twaits\tcuA\n"
	const head = "# x meanwhile: GPU, driver 1, 2026-01-02. More.\n# call\tdoes\theld\n"
	got, err := merge(table, head+"cuB, full\twaits\tcuA\ncuB, new\treturns\t-\ncuC\tnot measured: there is one device\t-\n")
	if err != nil {
		t.Fatal(err)
	}
	const want = "# x meanwhile: GPU, driver 1, 2026-01-01. More.\n# Of GPU, driver 1, 2026-01-02: cuB, full; cuB, new.\n" +
		"# call\tdoes\theld\ncuA\treturns\t-\ncuB, full\twaits\tcuA\ncuB, new\treturns\t-\ncuC\twaits\tcuA\n"
	if got != want {
		t.Errorf("got\n%s\nnot\n%s", got, want)
	}
	for what, later := range map[string]string{
		"no head": "cuA\twaits\tcuA\n", "nothing measured": head + "cuA\tnot measured\t-\n", "no table": head + "cuA\n", "nothing": "",
	} {
		if _, err := merge(table, later); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
