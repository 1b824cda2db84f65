package mutate

import "regexp"

// unseen are the faults that change nothing that a program can see, and why. The tests fail if one of them is
// seen.
var unseen = []struct{ entry, what, why string }{
	// The function does the same for both modifiers.
	{`^(add|sub|addc|subc) |^m(ul|ad) lo `, `^t=.* the other sign$`,
		"a sum, and the lower half of a product, do not depend on the sign"},
	{`^(atom|red|cp reduce|sured b) .*op=add`, `^t=.* the other sign$`, "a sum does not depend on the sign"},
	{`^(mov|selp|slct) `, `^t=`, "the value is copied, whatever its type is"},
	{`^(and|or|xor|not|neg) `, `^t=.* half the width$`, "the bits above the type are computed, too"},
	{`^ldu? `, `^t=.64 has the other sign$`, "the value fills the register"},
	{`^st `, `^t=.* the other sign$`, "the bits that are stored do not depend on the sign"},
	{`^set `, `^to=.* the other sign$`, "true is -1, which has the same bits"},
	{`^cvt sat\? t=`, `^t=.64 has the other sign$`,
		"without .sat the bits are the same, and with it not both types exist"},
	{`^cvt rnd=rni.* u=f16`, `^sat=`, "the result is limited without .sat, too"},
	{`^wmma load`, `^t=.* the other sign$`, "the bits that are loaded do not depend on the sign"},
	{`^wmma (load|store) .*m8n8k32\|m8n8k128`, `^shape=`, "the sums of both shapes are the same"},
	{`^wmma mma`, `^[ab]l=`, "the layout is about memory, and the registers do not depend on it"},
	{`^(st|red) async `, `^space=`, "the address is one of shared memory in any case"},
	{`^cp reduce .*op=and`, `^t=b64 has half the width$`, "both halves are changed in the same way"},
	{`^(alloca|stacksave|stackrestore) `, `^t=`, "addresses of local memory have no more than 32 bits"},
	{`^wmma load .*tf32$`, `^tf32: lowest bit`, "the lowest bits of these numbers do not count"},
	{`^vmad `, `^dt=`, "the signs of the factors say whether the sum has one"},
	{`^(mapa|getctarank) `, `^(t|space)=`, "the place of the address says what it is"},
	{`^(ldmatrix|stmatrix|cp async mbarrier|mbarrier) `, `^space= is shared$`,
		"shared memory takes addresses of generic memory, too"},

	{`^(tex|tld4) `, `^t=.* the other sign$`, "the texture says how its values are read"},
	{`^mov vec=`, `bit of the result$`, "each element is moved twice, so that the bit changes back"},

	{`^cp .*async bulk tensor `, `^tile=`, "boxes are tiles if nothing else is said"},

	// What it changes is not visible.
	{`^createpolicy `, `.`, "the value of a policy is not defined, and caches have no policies"},
	{`^%`, `bit of the result$`, "the time is another one each time"},
	{`^%clock_hi$`, `lane`, "the counter does not become so large"},
	{`^(membar|fence) `, `nothing|lane`, "the executor orders all accesses of a thread"},
	{`^(w?mma) .*mma|^mma |^wmma (load|store)`, `^a lane is left out$`, "the function computes for the whole warp"},
	{`^sin `, `^ftz= is ftz$`, "the error is bounded absolutely, so that the sine of a subnormal number may be 0"},
	{`^cos `, `^ftz=`, "the cosine of a subnormal number is 1"},
	{`^(ex2|tanh) approx t=f16$`, `^f16: lowest bit`, "the error may be larger"},
	{`^mbarrier init `, `^b64: highest bit`, "a barrier counts up to 20 bits"},
	{`^mbarrier inval `, `lane`, "what the memory has afterwards is not defined"},
	{`^setp .*f16`, `^b?f16: the second result$`, "it has no second result for this type"},
}

// Unseen returns why no program can see a fault, or "".
func (f *Fault) Unseen() string { return f.unseen }

// explain sets why faults cannot be seen, and returns the reasons that no fault has.
func explain(faults []*Fault) (unused []string) {
	for _, u := range unseen {
		entry, what, used := regexp.MustCompile(u.entry), regexp.MustCompile(u.what), false
		for _, f := range faults {
			if entry.MatchString(f.entry()) && what.MatchString(f.What) {
				f.unseen, used = u.why, true
			}
		}
		if !used {
			unused = append(unused, u.entry+": "+u.what)
		}
	}
	return unused
}
