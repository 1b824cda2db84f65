package ptxrandom

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
)

// mutantEvery is the distance between seeds that have a program with an error.
const mutantEvery = 4

// mutantSeed makes the programs for errors differ from the others.
const mutantSeed = 1 << 40

var (
	registerWord = regexp.MustCompile(`%[hrdp]\d+`)
	typeWord     = regexp.MustCompile(`\.(?:[bus](?:8|16|32|64)|f(?:16|32|64)|b?f16x2|bf16|pred)\b`)
	modifierWord = regexp.MustCompile(`\.[a-z][a-zA-Z0-9:_]*`)
	modifiers    = strings.Fields(".sat .ftz .rn .rz .rni .hi .lo .wide .approx .full .cc .relu .NaN .sync .uni .v2 .v4 " +
		".global .shared .local .const .param .volatile .relaxed .acquire .release .gpu .cta .noftz .and .or .eq .lt " +
		".lo .b32 .u32 .f32 .to .pack")
	types = strings.Fields(".b8 .b16 .b32 .b64 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f16 .f32 .f64 .f16x2 .bf16 " +
		".bf16x2 .pred")
)

// mutated returns the text of a short program in which one line is wrong, or only other than it was,
// and that line.
func (pr *pairOf) mutated(seed uint64) (text, line string) {
	p := generateSized(seed+mutantSeed, 3, 3)
	one := newBatch(p)
	var rep report
	if mods, good := pr.agree(one, &rep); good {
		pr.sim.ModuleUnload(pr.sim.at, mods[0])
		pr.gpu.ModuleUnload(pr.gpu.at, mods[1])
	}
	lines, items := p.kernel(one.skip[0], -1, nil)
	r := rand.New(rand.NewPCG(seed, 8))
	var candidates []int
	for i, item := range items {
		if item >= 0 && !strings.HasPrefix(lines[i], "st.global.b") {
			candidates = append(candidates, i)
		}
	}
	for range 50 {
		at := candidates[r.IntN(len(candidates))]
		if changed := change(r, lines[at]); changed != lines[at] {
			line = fmt.Sprintf("%s   was   %s", changed, lines[at])
			lines[at] = changed
			break
		}
	}
	return p.header + strings.Join(lines, "\n") + "\n", line
}

// replaced replaces one of the places in which a pattern matches.
func replaced(r *rand.Rand, s string, pattern *regexp.Regexp, with func(old string) string) string {
	all := pattern.FindAllStringIndex(s, -1)
	if len(all) == 0 {
		return s
	}
	m := all[r.IntN(len(all))]
	return s[:m[0]] + with(s[m[0]:m[1]]) + s[m[1]:]
}

// change returns a line with an error.
func change(r *rand.Rand, s string) string {
	one := func(list []string) func(string) string {
		return func(string) string { return list[r.IntN(len(list))] }
	}
	switch r.IntN(13) {
	case 0:
		return strings.Replace(s, ";", "", 1)
	case 1:
		return replaced(r, s, registerWord, one([]string{"%zz", "%r99", "%q", "r1"}))
	case 2, 3:
		return replaced(r, s, registerWord, one([]string{"%h1", "%r3", "%d4", "%p2", "%tid.x", "%laneid"}))
	case 4, 5, 6:
		return replaced(r, s, typeWord, one(types))
	case 7:
		return replaced(r, s, modifierWord, one(modifiers))
	case 8:
		return replaced(r, s, modifierWord, func(string) string { return "" })
	case 9:
		m := modifiers[r.IntN(len(modifiers))]
		return replaced(r, s, modifierWord, func(old string) string { return old + m })
	case 10: // without an operand, or with one more
		parts := strings.Split(s, ", ")
		if len(parts) < 2 {
			return s
		}
		i := 1 + r.IntN(len(parts)-1)
		if i == len(parts)-1 && r.IntN(2) == 0 {
			return strings.Join(parts[:i], ", ") + ";"
		}
		more := one([]string{"1", "%r3", "%d2", "%p1", "%h2"})("")
		return strings.Join(parts[:i], ", ") + ", " + more + ", " + strings.Join(parts[i:], ", ")
	case 11:
		return replaced(r, s, registerWord, one([]string{"1", "-1", "0f3F800000", "0d3FF0000000000000", "3.5", "70000",
			"0x123456789a"}))
	}
	return replaced(r, s, regexp.MustCompile(`[\[\]{},!|]`), one([]string{"", ",", "[", "}"}))
}
