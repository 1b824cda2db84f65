package fuzz

import (
	"errors"
	"flag"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// numbers are a flag's value: 3,7.
type numbers []int

func (n numbers) String() string {
	var b strings.Builder
	for i, v := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(v))
	}
	return b.String()
}

func (n *numbers) Set(text string) error {
	*n = nil
	for _, v := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		i, err := strconv.Atoi(v)
		if err != nil {
			return err
		}
		*n = append(*n, i)
	}
	return nil
}

// words are a flag's value: one,two.
type words []string

func (w words) String() string { return strings.Join(w, ",") }

func (w *words) Set(text string) error {
	*w = strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
	return nil
}

var (
	fuzzWithout numbers
	fuzzAvoid   words
)

func init() {
	flag.Var(&fuzzAvoid, "fuzz.avoid", "the `functions` that TestCalls does not call: cuCtxSetLimit,cuLinkCreate")
	flag.Var(&fuzzWithout, "fuzz.without", "the `numbers` of the calls that TestCalls leaves out of each sequence")
}

// shorten leaves out as many calls of a failed sequence as it can while two drivers still differ in
// the same way, and logs the others. Later calls choose among what earlier ones have created, so a
// call that is left out may change them.
func shorten(t *testing.T, pair [2]*caller, failure callFailure) {
	kind, _, _ := strings.Cut(failure.Kind, " after ") // any call may follow what changes memory
	made, text := pair[1].made(), failure.Text
	fails := func(without numbers) bool {
		fuzzWithout = without
		err := sequence(pair, failure.Seed, make(tally))
		if err == nil {
			return false
		}
		d, is := errors.AsType[*difference](err)
		is = is && strings.HasPrefix(d.kind, kind)
		if is {
			made, text = pair[1].made(), d.text
		}
		reopen(t, pair)
		return is
	}
	without := slices.Clone(fuzzWithout)
	reopen(t, pair)
	for part := 16; part > 0; part /= 2 {
		for first := 0; first < callCount; first += part {
			more := slices.Clone(without)
			for n := first; n < min(first+part, callCount); n++ {
				if !slices.Contains(more, n) {
					more = append(more, n)
				}
			}
			if len(more) > len(without) && fails(more) {
				without = more
			}
		}
	}
	slices.Sort(without)
	t.Logf("-fuzz.seed=%d -fuzz.without=%v:\n%s\n%s", failure.Seed, without, made, text)
}

// reopen gives the callers new contexts, because what a failed sequence leaves is not known.
func reopen(t *testing.T, pair [2]*caller) {
	for _, c := range pair {
		c.end() // some of it fails
		c.close()
		topics, loud := c.topics, c.loud
		if c.soft != nil {
			*c = *softCaller(c.name, c.virtual)
		} else {
			*c = caller{Table: c.Table, name: c.name}
		}
		c.topics, c.loud = topics, loud
		if err := c.open(); err != nil {
			t.Fatal(err)
		}
	}
}
