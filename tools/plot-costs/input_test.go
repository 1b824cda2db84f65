package main

import (
	"strings"
	"testing"

	"github.com/purecu/purecu/tools/internal/plot"
)

func TestInputErrors(t *testing.T) {
	const good = "C\tpoke\t1\t10\n"
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "in.tsv: there is no measurement in it"},
		{"only a comment", "# C\tpoke\t1\t10\n", "in.tsv: there is no measurement in it"},
		{"an empty line", good + "\n", "in.tsv:2: 1 fields with tabs between, not 4: peer, operation, round, nanoseconds"},
		{"a missing field", "C\tpoke\t1\n", "in.tsv:1: 3 fields with tabs between, not 4: peer, operation, round, nanoseconds"},
		{"a field too many", good + "C\tpoke\t2\t1\t1\n", "in.tsv:2: 5 fields with tabs between, not 4: peer, operation, round, nanoseconds"},
		{"an unknown peer", "c\tpoke\t1\t10\n", `in.tsv:1: peer "c" is none of C, cu, torch, cuda.core`},
		{"no operation", "C\t \t1\t10\n", "in.tsv:1: there is no operation"},
		{"round 0", "C\tpoke\t0\t10\n", `in.tsv:1: round "0" is neither a number from 1 nor two with a dot between`},
		{"a round with a zero before it", "C\tpoke\t01\t10\n", `in.tsv:1: round "01" is neither a number from 1 nor two with a dot between`},
		{"a run without a round", "C\tpoke\t1.\t10\n", `in.tsv:1: round "1." is neither a number from 1 nor two with a dot between`},
		{"a round without a run", "C\tpoke\t.1\t10\n", `in.tsv:1: round ".1" is neither a number from 1 nor two with a dot between`},
		{"three numbers", "C\tpoke\t1.2.3\t10\n", `in.tsv:1: round "1.2.3" is neither a number from 1 nor two with a dot between`},
		{"no number", "C\tpoke\t1\tten\n", `in.tsv:1: "ten" is no number of nanoseconds`},
		{"no time", "C\tpoke\t1\t0\n", `in.tsv:1: "0" is no number of nanoseconds`},
		{"a time before", "C\tpoke\t1\t-1\n", `in.tsv:1: "-1" is no number of nanoseconds`},
		{"no end", "C\tpoke\t1\t+Inf\n", `in.tsv:1: "+Inf" is no number of nanoseconds`},
		{"not a number", "C\tpoke\t1\tNaN\n", `in.tsv:1: "NaN" is no number of nanoseconds`},
		{"lines of another system", "C\tpoke\t1\t10\r\n", `in.tsv:1: "10\r" is no number of nanoseconds`},
		{"the same twice", good + "# \n" + good, `in.tsv:3: C measured "poke" in round 1 before, at in.tsv:1`},
		{"several", "C\t\t1\t10\nC\tpoke\t1\t0\n", "in.tsv:1: there is no operation\nin.tsv:2: \"0\" is no number of nanoseconds"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var in input
			in.Read("in.tsv", tt.text)
			if _, err := in.Done(); err == nil || err.Error() != tt.want {
				t.Errorf("got\n\t%v\nwant\n\t%s", err, tt.want)
			}
		})
	}
}

func TestInputStopsComplaining(t *testing.T) {
	var in input
	in.Read("in.tsv", strings.Repeat("nonsense\n", 25))
	_, err := in.Done()
	if err == nil {
		t.Fatal("nonsense is accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != plot.MaxErrors+1 || lines[plot.MaxErrors] != "and 5 more" {
		t.Errorf("%d lines, the last of which is %q", len(lines), lines[len(lines)-1])
	}
}

// TestInputFiles reads runs from several files. The same round in another file or another run is
// another measurement.
func TestInputFiles(t *testing.T) {
	var in input
	in.Read("a.tsv", "torch\tpush\t1.1\t5\nC\tpoke\t1.1\t10\nC\tpoke\t2.1\t11\n")
	in.Read("b.tsv", "cu\tpoke\t1\t30\nC\tpoke\t1\t12\nC\tpull\t1\t12\n")
	if _, err := in.Done(); err != nil {
		t.Fatal(err)
	}
	m := &in.m
	if got, want := strings.Join(m.peers, " "), "C cu torch"; got != want {
		t.Errorf("libraries %s, want %s", got, want)
	}
	if got, want := strings.Join(m.operations, " "), "poke pull push"; got != want {
		t.Errorf("operations %s, want those of C before others: %s", got, want)
	}
	if got := m.all(cell{"poke", "C"}); len(got) != 3 || got[0] != 10 || got[2] != 12 {
		t.Errorf("C's poke took %v, want 10, 11, 12", got)
	}
	if len(m.runs) != 3 || m.count != 6 {
		t.Errorf("%d runs, %d measurements, want 3 and 6", len(m.runs), m.count)
	}
}
