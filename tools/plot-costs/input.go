package main

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/tools/internal/plot"
)

// peers are the libraries that can be compared, in the order of the table. The first one is what
// the others are compared with.
var peers = []string{"C", "cu", "torch", "cuda.core"}

// runName names a run by its file and, if the file has several runs, by its number.
type runName struct{ file, number string }

// key identifies a measurement.
type key struct {
	operation, peer string
	run             runName
	round           string
}

// input collects the measurements and the errors of files.
type input struct {
	plot.Complaints
	m    measurements
	seen map[key]plot.Place
}

// Read reads the measurements of one file.
func (in *input) Read(name, text string) { in.Each(name, text, in.line) }

// line reads the measurement of one line.
func (in *input) line(at plot.Place, s string) bool {
	f := strings.Split(s, "\t")
	if len(f) != 4 {
		in.Fail(at, "%d fields with tabs between, not 4: peer, operation, round, nanoseconds", len(f))
		return false
	}
	k := key{operation: f[1], peer: f[0], run: runName{file: at.File}, round: f[2]}
	if i := strings.IndexByte(f[2], '.'); i >= 0 {
		k.run.number, k.round = f[2][:i], f[2][i+1:]
	}
	ns, err := strconv.ParseFloat(f[3], 64)
	switch {
	case !slices.Contains(peers, k.peer):
		in.Fail(at, "peer %q is none of %s", k.peer, strings.Join(peers, ", "))
	case strings.TrimSpace(k.operation) == "":
		in.Fail(at, "there is no operation")
	case !isNumber(k.round) || (k.round != f[2] && !isNumber(k.run.number)):
		in.Fail(at, "round %q is neither a number from 1 nor two with a dot between", f[2])
	case err != nil || math.IsNaN(ns) || math.IsInf(ns, 0) || ns <= 0:
		in.Fail(at, "%q is no number of nanoseconds", f[3])
	case in.seen[k] != plot.Place{}:
		in.Fail(at, "%s measured %q in round %s before, at %v", k.peer, k.operation, f[2], in.seen[k])
	default:
		if in.seen == nil {
			in.seen = make(map[key]plot.Place)
		}
		in.seen[k] = at
		in.m.add(k, ns)
		return true
	}
	return false
}

// isNumber reports whether s is a decimal number from 1 without leading zeros.
func isNumber(s string) bool {
	n, err := strconv.ParseUint(s, 10, 31)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == s
}

// Done returns the measurements of all files, or their errors.
func (in *input) Done() (plot.Report, error) {
	if err := in.Err(); err != nil {
		return nil, err
	}
	in.m.arrange()
	return &in.m, nil
}
