package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// peers are the libraries that can be compared, in the order of the table. The
// others are compared with the first.
var peers = []string{"C", "cu", "torch", "cuda.core"}

// maxErrors is how many complaints one run prints: past a point a file of another
// format only repeats itself.
const maxErrors = 20

// place is a line of a file.
type place struct {
	file string
	line int
}

// String returns the place as file:line.
func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// runName names a run: its file and, if the file has several, which of them.
type runName struct{ file, number string }

// key is what is measured once.
type key struct {
	operation, peer string
	run             runName
	round           string
}

// input collects the measurements of files, and what is wrong with them.
type input struct {
	m    measurements
	seen map[key]place
	errs []error
	more int // errors that are not kept
}

func (in *input) fail(at place, format string, args ...any) {
	if len(in.errs) == maxErrors {
		in.more++
		return
	}
	in.errs = append(in.errs, fmt.Errorf("%v: %s", at, fmt.Sprintf(format, args...)))
}

// read takes the measurements of one file.
func (in *input) read(name, text string) {
	before := in.m.count
	line := 0
	for s := range strings.Lines(text) {
		line++
		s = strings.TrimSuffix(s, "\n")
		if !strings.HasPrefix(s, "#") {
			in.line(place{name, line}, s)
		}
	}
	if in.m.count == before && len(in.errs) == 0 {
		in.errs = append(in.errs, fmt.Errorf("%s: there is no measurement in it", name))
	}
}

// line takes the measurement of one line.
func (in *input) line(at place, s string) {
	f := strings.Split(s, "\t")
	if len(f) != 4 {
		in.fail(at, "%d fields with tabs between, not 4: peer, operation, round, nanoseconds", len(f))
		return
	}
	k := key{operation: f[1], peer: f[0], run: runName{file: at.file}, round: f[2]}
	if i := strings.IndexByte(f[2], '.'); i >= 0 {
		k.run.number, k.round = f[2][:i], f[2][i+1:]
	}
	ns, err := strconv.ParseFloat(f[3], 64)
	switch {
	case !slices.Contains(peers, k.peer):
		in.fail(at, "peer %q is none of %s", k.peer, strings.Join(peers, ", "))
	case strings.TrimSpace(k.operation) == "":
		in.fail(at, "there is no operation")
	case !isNumber(k.round) || (k.round != f[2] && !isNumber(k.run.number)):
		in.fail(at, "round %q is neither a number from 1 nor two with a dot between", f[2])
	case err != nil || math.IsNaN(ns) || math.IsInf(ns, 0) || ns <= 0:
		in.fail(at, "%q is no number of nanoseconds", f[3])
	case in.seen[k] != place{}:
		in.fail(at, "%s measured %q in round %s before, at %v", k.peer, k.operation, f[2], in.seen[k])
	default:
		if in.seen == nil {
			in.seen = make(map[key]place)
		}
		in.seen[k] = at
		in.m.add(k, ns)
	}
}

// isNumber reports whether s is a decimal number from 1 in its shortest form.
func isNumber(s string) bool {
	n, err := strconv.ParseUint(s, 10, 31)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == s
}

// done returns what all files have, or what is wrong with them.
func (in *input) done() (*measurements, error) {
	if in.more > 0 {
		in.errs = append(in.errs, fmt.Errorf("and %d more", in.more))
	}
	if err := errors.Join(in.errs...); err != nil {
		return nil, err
	}
	in.m.arrange()
	return &in.m, nil
}
