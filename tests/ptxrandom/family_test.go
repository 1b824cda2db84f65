package ptxrandom

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// family is programs for one target. ordinaryFamily has the rows that need no other target.
type family struct {
	first, last uint64 // seeds
	header      string
	directives  string // of the kernels
	threads     uint32 // of a kernel: those from 64 on do the same as 64 others
	// weight says how often the programs have a row: 0 for never.
	weight func(r *tableRow) float64
	// has reports whether the programs may have a form of a row.
	has func(v form) bool
	// own are the rows that only this family has.
	own []string

	once    sync.Once
	weights []float64 // by the index in the table
}

const header = ".version 8.7\n.target sm_90\n.address_size 64\n"

// laterFamilies have the seeds behind those of ordinaryFamily, each a multiple of batchSize.
var laterFamilies = []*family{{
	first: mostOrdinary + 1, last: mostOrdinary + 2048, threads: threads,
	header: ".version 6.3\n.target sm_60\n.address_size 64\n",
	own:    []string{"vote op=ballot t=b32", "vote op=all|any|uni pred", "shfl mode=up|down|bfly|idx t=b32"},
	weight: func(r *tableRow) float64 {
		if slices.Contains(earlyNames, r.name) && (r.plain || r.name == "add" || r.name == "sub" || r.name == "selp") {
			return 1
		}
		return 0
	},
	has: form.early,
}, {
	first: mostOrdinary + 2049, last: mostOrdinary + 4096, threads: 2 * threads, // setmaxnreg is for four warps
	header:     ".version 8.7\n.target sm_90a\n.address_size 64\n",
	directives: ".maxnreg 168 ",
	own:        []string{"setmaxnreg how=inc|dec sync aligned t=u32"},
	weight: func(r *tableRow) float64 {
		if r.plain {
			return 1
		}
		return 0
	},
	has: func(form) bool { return true },
}, {
	first: mostSeed + 1, last: mostSeed + 8192, threads: threads,
	header: ".version 8.7\n.target sm_90a\n.address_size 64\n",
	own:    newRows(),
	weight: func(r *tableRow) float64 {
		if r.plain {
			return 1
		}
		return 0
	},
	has: func(form) bool { return true },
}}

// newRows returns the rows that no recorded program has, without those that tests/softlib compares with a GPU, and
// those of wmma, which has no forms of its own.
func newRows() (list []string) {
	for id := range strings.Lines(unrecordedText) {
		switch name, _, _ := strings.Cut(id, " "); {
		case slices.Contains([]string{"#", "wmma", "tex", "tld4", "txq", "suq", "suld", "sust", "sured", "wgmma"},
			name),
			strings.Contains(id, " tensor"):
		default:
			list = append(list, strings.TrimSuffix(id, "\n"))
		}
	}
	return list
}

// mostOrdinary is the last seed of ordinaryFamily whose program is not short.
const mostOrdinary = 100_000

// mostSeed is the last seed of a program that is recorded. The programs of the newest family follow.
const mostSeed = mostOrdinary + 4096

// ownWeight is how often a family has its own rows.
const ownWeight = 12

var ordinaryFamily = &family{last: mostOrdinary, threads: threads, header: header,
	weight: func(r *tableRow) float64 { return r.weight }, has: func(form) bool { return true }}

// familyOf returns the family of a program.
func familyOf(seed uint64) *family {
	for _, f := range laterFamilies {
		if seed >= f.first && seed <= f.last {
			return f
		}
	}
	return ordinaryFamily
}

// weightsOf returns how often the programs have the rows of the table.
func (f *family) weightsOf() []float64 {
	f.once.Do(func() {
		for _, r := range table() {
			weight := 0.0
			switch owner := ownerOf(r.id); {
			case r.weight == 0:
			case owner == f:
				weight = ownWeight
			case unrecorded(r.id):
			case owner == nil:
				weight = f.weight(r)
			}
			f.weights = append(f.weights, weight)
		}
	})
	return f.weights
}

// ownerOf returns the only family that has a row, or nil.
func ownerOf(id string) *family {
	for _, f := range laterFamilies {
		if slices.Contains(f.own, id) {
			return f
		}
	}
	return nil
}

// earlyNames are instructions that targets before sm_70 have.
var earlyNames = strings.Fields("abs add and bfe bfi bfind brev clz cnot copysign cos cvt div ex2 fma " +
	"lg2 lop3 mad mad24 max min mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin " +
	"slct sqrt sub testp xor")

// early reports whether a target before sm_70 has a form of these instructions.
func (v form) early() bool {
	for _, later := range []string{"relu", "NaN", "xorsign", "satfinite", "pack", "u16x2", "s16x2"} {
		if v.has(later) {
			return false
		}
	}
	for _, name := range []string{"t", "u", "to"} {
		if typ := v.get(name); strings.Contains(typ, "f16") || strings.HasSuffix(typ, "x2") || typ == "tf32" {
			return false
		}
	}
	return v.row.name != "lop3" || !v.has("bool")
}

// resize is a setmaxnreg: its place, and how many registers the threads have then.
type resize struct {
	item, line int
	how        string
	n          int
}

// settle writes the instructions that registers has left open: NVIDIA's compiler rejects numbers
// that are larger than those of all that request registers, if there are such.
func (p *program) settle() {
	most := 0
	for _, c := range p.changes {
		if c.how == "inc" {
			most = max(most, c.n)
		}
	}
	for _, c := range p.changes {
		if most > 0 {
			c.n = min(c.n, most)
		}
		p.items[c.item].lines[c.line] = fmt.Sprintf("setmaxnreg.%s.sync.aligned.u32 %d;", c.how, c.n)
	}
}

// registers writes setmaxnreg. The warps have to wait for each other before each, and may only
// request registers that they have released before.
func (g *generator) registers(v form) {
	const most = 168 // as the kernel says
	if g.held == 0 {
		g.held = most
	}
	g.begin(v.String(), v.row.id)
	set := func(how string, n int) {
		g.line("bar.sync 0;")
		g.changes = append(g.changes, resize{len(g.items) - 1, len(g.cur.lines), how, n})
		g.mainLine("")
		g.held = n
	}
	if v.get("how") == "dec" {
		set("dec", 24+8*g.IntN((g.held-24)/8+1))
	} else {
		if g.held == most {
			set("dec", 24+8*g.IntN((most-24)/8))
		}
		set("inc", g.held+8*g.IntN((most-g.held)/8+1))
	}
	g.end()
}
