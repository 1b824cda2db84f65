package ptxrandom

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ptx/isa"
)

const ok = driver.ResultSuccess

// machine is a driver with memory for one program.
type machine struct {
	*driver.Table
	at     driver.At
	memory driver.DevicePtr
	// change changes the texts, as a driver with a fault would read them.
	change func(text string) string
}

// open makes the machine ready. The goroutine is locked to its thread.
func open(t *driver.Table) (*machine, error) {
	m := &machine{Table: t}
	m.at = driver.At{Thread: t.Pin()}
	if r := t.Init(m.at, 0); r != ok {
		return nil, fmt.Errorf("cuInit: %v", r)
	}
	ctx, r := t.DevicePrimaryCtxRetain(m.at, 0)
	if r != ok {
		return nil, fmt.Errorf("cuDevicePrimaryCtxRetain: %v", r)
	}
	if r := t.CtxSetCurrent(m.at, ctx); r != ok {
		return nil, fmt.Errorf("cuCtxSetCurrent: %v", r)
	}
	if m.memory, r = t.MemAlloc(m.at, batchSize*imageSize); r != ok {
		return nil, fmt.Errorf("cuMemAlloc: %v", r)
	}
	return m, nil
}

// close ends what open began.
func (m *machine) close() error {
	var errs []error
	for _, r := range []driver.Result{m.MemFree(m.at, m.memory), m.CtxSetCurrent(m.at, 0),
		m.DevicePrimaryCtxRelease(m.at, 0)} {
		if r != ok {
			errs = append(errs, r)
		}
	}
	m.at.Thread.Abandon()
	return errors.Join(errs...)
}

// simulated returns a machine of a new software driver.
func simulated() (*machine, error) { return open(driver.NewSoftware(cusim.New().Software())) }

// load loads a text.
func (m *machine) load(text string) (driver.Module, string, driver.Result) {
	if m.change != nil {
		text = m.change(text)
	}
	mod, log, r := m.ModuleLoadJIT(m.at, []byte(text+"\x00"), nil)
	return mod, log.Error, r
}

// execute executes a program of a module, and returns what it has computed.
func (m *machine) execute(mod driver.Module, p *program, image []byte, more int) (outcome, driver.Result) {
	list, r := m.executeAll(mod, []*program{p}, [][]byte{image}, more)
	if r != ok {
		return nil, r
	}
	return list[0], r
}

// executeAll executes programs of a module one after the other, with few calls that wait: where many
// processes share a GPU, each of them takes long.
func (m *machine) executeAll(mod driver.Module, programs []*program, images [][]byte, more int) ([]outcome,
	driver.Result) {
	all := make([]byte, len(programs)*imageSize)
	for i := range all {
		all[i] = 0xee
	}
	for i, image := range images {
		copy(all[i*imageSize:], image)
	}
	if r := m.MemcpyHtoD(m.at, m.memory, all); r != ok {
		return nil, r
	}
	for i, p := range programs {
		f, r := m.ModuleGetFunction(m.at, mod, fmt.Sprint("k", p.seed))
		if r != ok {
			return nil, r
		}
		memory, given := m.memory+driver.DevicePtr(i*imageSize), p.given()
		r = m.LaunchKernel(m.at, f, 1, 1, 1, p.family.threads, 1, 1, 0, 0, driver.KernelParams{
			Ptrs: []unsafe.Pointer{unsafe.Pointer(&memory), unsafe.Pointer(&given[0])}, Sizes: []uint32{8, 64}})
		if r != ok {
			return nil, r
		}
	}
	if r := m.CtxSynchronize(m.at); r != ok {
		return nil, r
	}
	if r := m.MemcpyDtoH(m.at, all, m.memory); r != ok {
		return nil, r
	}
	var list []outcome
	for i, p := range programs {
		list = append(list, outcome(all[i*imageSize+scratch:][:p.sizeOfOutcome()+more*rowSize]))
	}
	return list, ok
}

// batch is programs of one module.
type batch struct {
	programs []*program
	skip     []map[int]bool
	lines    []place
	text     string
}

// place is what a line of the text belongs to.
type place struct{ program, item int }

func newBatch(programs ...*program) *batch {
	b := &batch{programs: programs}
	for range programs {
		b.skip = append(b.skip, make(map[int]bool))
	}
	b.build()
	return b
}

// build writes the text.
func (b *batch) build() {
	var t strings.Builder
	head := header
	if len(b.programs) > 0 {
		head = b.programs[0].header
	}
	t.WriteString(head)
	b.lines = make([]place, strings.Count(head, "\n")+1)
	for i, p := range b.programs {
		if b.skip[i] == nil { // left out
			continue
		}
		lines, items := p.kernel(b.skip[i], -1, nil)
		for j, l := range lines {
			t.WriteString(l)
			t.WriteByte('\n')
			b.lines = append(b.lines, place{i, items[j]})
		}
	}
	b.text = t.String()
}

var lineNumber = regexp.MustCompile(`(?m)^.*line (\d+)(.*)$`)

// blame returns the items that a compiler's log names, with its words.
func (b *batch) blame(log string) map[place]string {
	found := make(map[place]string)
	for _, m := range lineNumber.FindAllStringSubmatch(log, -1) {
		n, _ := strconv.Atoi(m[1])
		if n >= len(b.lines) || n == 0 || strings.Contains(m[0], "; warning") || strings.Contains(m[0], "; info") {
			continue
		}
		if at := b.lines[n]; found[at] == "" {
			found[at] = strings.TrimSpace(strings.TrimLeft(m[2], ",; "))
		}
	}
	return found
}

// report is what came out for a batch.
type report struct {
	From, To    uint64 // the programs that were executed are From to To-1
	Hashes      [][2]uint32
	Uses        map[string]int
	Worst       map[string]float64
	Differences []difference
	Mutants     [2]int // rejected by both, accepted by both
	Died        bool   // the context cannot be used any longer
	Again       bool   // the programs have to be executed singly
}

// verdict is what a driver says about an instruction.
type verdict struct{ form, shape string }

// pairOf compares two drivers.
type pairOf struct {
	gpu, sim *machine
	known    map[verdict]string // the instructions that a driver has rejected
	begin    func(seed uint64)  // before a program is executed
}

// skipped returns the items of a program that are known to be rejected.
func (pr *pairOf) skipped(p *program) map[int]bool {
	skip := make(map[int]bool)
	for i, it := range p.items {
		if it.form != "" && pr.known[verdict{it.form, it.shape}] != "" {
			skip[i] = true
		}
	}
	return skip
}

// agree leaves out of a batch what one of the drivers rejects, and returns the modules of both.
func (pr *pairOf) agree(b *batch, rep *report) (mods [2]driver.Module, good bool) {
	for i, p := range b.programs {
		b.skip[i] = pr.skipped(p)
	}
	for range 300 {
		b.build()
		var logs [2]string
		var r [2]driver.Result
		for i, m := range []*machine{pr.sim, pr.gpu} {
			mods[i], logs[i], r[i] = m.load(b.text)
		}
		if r[0] == ok && r[1] == ok {
			return mods, true
		}
		for i, m := range []*machine{pr.sim, pr.gpu} {
			if r[i] == ok {
				m.ModuleUnload(m.at, mods[i])
			}
		}
		progress := false
		blamed := [2]map[place]string{b.blame(logs[0]), b.blame(logs[1])}
		for i, name := range []string{"the software driver", "the GPU's driver"} {
			if r[i] == ok {
				continue
			}
			for at, why := range blamed[i] {
				if at.item < 0 || b.skip[at.program] == nil || b.skip[at.program][at.item] {
					continue
				}
				p := b.programs[at.program]
				it := p.items[at.item]
				progress = true
				if it.form == "" {
					continue
				}
				b.skip[at.program][at.item] = true
				key := verdict{it.form, it.shape}
				if pr.known[key] == "" {
					pr.known[key] = why
				}
				// The software driver stops at its first error, so that it may reject the item, too.
				why = fmt.Sprintf("%s rejects it (%d): %s", name, int(r[i]), why)
				if i == 1 && r[0] != ok && blamed[0][at] == "" || i == 1 && pr.rejects(p, at.item) {
					why = "both reject it: " + why
				}
				rep.Differences = append(rep.Differences, difference{Seed: p.seed, Item: at.item, Form: it.form, Shape: it.shape,
					Text: it.lines[it.main], Why: why})
			}
		}
		if progress {
			continue
		}
		if !pr.divide(b, rep) {
			return mods, false
		}
	}
	return mods, false
}

// rejects reports whether the software driver rejects a kernel for an item.
func (pr *pairOf) rejects(p *program, item int) bool {
	one := newBatch(p)
	for i, it := range p.items {
		one.skip[0][i] = i != item && it.form != ""
	}
	one.build()
	mod, _, r := pr.sim.load(one.text)
	if r == ok {
		pr.sim.ModuleUnload(pr.sim.at, mod)
	}
	return r != ok
}

// divide leaves out the programs that a driver rejects without saying why.
func (pr *pairOf) divide(b *batch, rep *report) (progress bool) {
	for i, p := range b.programs {
		if b.skip[i] == nil {
			continue
		}
		one := newBatch(p)
		one.skip[0] = b.skip[i]
		one.build()
		for _, m := range []*machine{pr.sim, pr.gpu} {
			mod, log, r := m.load(one.text)
			if r == ok {
				m.ModuleUnload(m.at, mod)
				continue
			}
			if b.skip[i] != nil {
				rep.Differences = append(rep.Differences, difference{Seed: p.seed, Item: -2, Form: "a whole program",
					Why: fmt.Sprintf("it is rejected by %s (%d): %.200s", map[bool]string{true: "the GPU's driver",
						false: "the software driver"}[m == pr.gpu], int(r), log)})
			}
			b.skip[i], progress = nil, true
		}
	}
	return progress
}

// run executes the programs from a seed on, all of them or, if one has failed, one after the other.
func (pr *pairOf) run(from, to uint64, singly bool) (rep report) {
	rep = report{From: from, To: to, Uses: make(map[string]int), Worst: make(map[string]float64)}
	b := &batch{}
	for seed := from; seed < to; seed++ {
		b.programs, b.skip = append(b.programs, generate(seed)), append(b.skip, make(map[int]bool))
	}
	mods, good := pr.agree(b, &rep)
	if !good {
		rep.Differences = append(rep.Differences, difference{Seed: from, Item: -2, Form: "a whole module",
			Why: "no module is accepted"})
		rep.Hashes = make([][2]uint32, to-from)
		return rep
	}
	var programs []*program
	var images [][]byte
	for i, p := range b.programs {
		if b.skip[i] != nil {
			programs, images = append(programs, p), append(images, p.image())
		}
	}
	var outcomes [2][]outcome
	if !singly {
		pr.begin(from)
		for i, m := range []*machine{pr.gpu, pr.sim} {
			var r driver.Result
			if outcomes[i], r = m.executeAll(mods[1-i], programs, images, 0); r != ok {
				return report{From: from, To: to, Again: true, Died: true}
			}
		}
	}
	for i, p := range b.programs {
		if b.skip[i] == nil {
			rep.Hashes = append(rep.Hashes, [2]uint32{})
			continue
		}
		image := images[0]
		images = images[1:]
		var gpu, sim outcome
		if singly {
			pr.begin(p.seed)
			var r, q driver.Result
			gpu, r = pr.gpu.execute(mods[1], p, image, 0)
			sim, q = pr.sim.execute(mods[0], p, image, 0)
			if r != ok || q != ok {
				if r != q {
					rep.Differences = append(rep.Differences, difference{Seed: p.seed, Item: -2, Form: "a whole program",
						Text: p.forms(b.skip[i]),
						Why:  fmt.Sprintf("the GPU's driver says %d, and the software driver %d", int(r), int(q))})
				}
				rep.Hashes = append(rep.Hashes, [2]uint32{})
				rep.To, rep.Died = p.seed+1, true
				return rep
			}
		} else {
			gpu, sim = outcomes[0][0], outcomes[1][0]
			outcomes[0], outcomes[1] = outcomes[0][1:], outcomes[1][1:]
		}
		lines, _ := p.kernel(b.skip[i], -1, nil)
		rep.Hashes = append(rep.Hashes, [2]uint32{textHash(lines), p.hash(gpu)})
		for j, it := range p.items {
			if p.dropped(j, b.skip[i]) {
				continue
			}
			for _, row := range it.rows {
				rep.Uses[row]++
			}
		}
		if d := p.compare(gpu, sim, rep.Worst); d != nil {
			pr.explain(p, b.skip[i], image, d)
			rep.Differences = append(rep.Differences, *d)
		}
	}
	for i, m := range []*machine{pr.sim, pr.gpu} {
		m.ModuleUnload(m.at, mods[i])
	}
	return rep
}

// mutants compares what the drivers say about programs with errors.
func (pr *pairOf) mutants(from, to uint64) report {
	rep := report{From: from, To: to}
	for seed := from; seed < to; seed++ {
		if seed%mutantEvery == 0 {
			pr.begin(seed)
			pr.mutant(seed, &rep)
		}
	}
	return rep
}

// mutant compares whether the drivers accept a program with an error.
func (pr *pairOf) mutant(seed uint64, rep *report) {
	text, line := pr.mutated(seed)
	var r [2]driver.Result
	var logs [2]string
	for i, m := range []*machine{pr.gpu, pr.sim} {
		var mod driver.Module
		if mod, logs[i], r[i] = m.load(text); r[i] == ok {
			m.ModuleUnload(m.at, mod)
		}
	}
	switch {
	case r[0] == r[1] && r[0] == ok:
		rep.Mutants[1]++
	case r[0] != ok && r[1] != ok: // perhaps with 801, as the software driver does not know all of PTX
		rep.Mutants[0]++
	default:
		rep.Differences = append(rep.Differences, difference{Seed: seed, Item: -3, Form: "a mutant", Text: line,
			Why: fmt.Sprintf("the GPU's driver says %d, and the software driver %d; %.300s; %.300s", int(r[0]), int(r[1]),
				logs[0], logs[1])})
	}
}

var poolRegister = regexp.MustCompile(`%(?:[hrdp]\d+|[mo][fbtd]\d|oe\d)\b`)

// explain sets what is known about a difference: the instruction, and the values of its operands.
func (pr *pairOf) explain(p *program, skip map[int]bool, image []byte, d *difference) {
	if d.Item < 0 {
		d.Form = "the memory at the end"
		return
	}
	it := p.items[d.Item]
	d.Form, d.Shape, d.Text = it.form, it.shape, it.lines[it.main]
	if len(it.lines) > 2 {
		d.Text = strings.Join(it.lines, " ")
	}
	var regs []string
	for _, l := range it.lines {
		for _, reg := range poolRegister.FindAllString(l, -1) {
			if !slices.Contains(regs, reg) && len(regs) < 20 {
				regs = append(regs, reg)
			}
		}
	}
	lines, _ := p.kernel(skip, d.Item, regs)
	mod, log, r := pr.sim.load(p.header + strings.Join(lines, "\n"))
	if r != ok {
		d.Operands = "unknown: " + log
		return
	}
	defer pr.sim.ModuleUnload(pr.sim.at, mod)
	o, r := pr.sim.execute(mod, p, image, len(regs))
	if r != ok {
		d.Operands = fmt.Sprint("unknown: ", int(r))
		return
	}
	for i, reg := range regs {
		w := o.word(len(p.slots)+9+i, d.Thread)
		size := widthOfRegister(reg)
		d.Operands += fmt.Sprintf("%s=%0*x ", reg, size/4, w<<(64-size)>>(64-size))
	}
}

// rowsUsed returns the rows that programs have to use.
func rowsUsed() (list []string) {
	for _, row := range isa.All() {
		if id := rowID(row); !unrecorded(id) || ownerOf(id) != nil {
			list = append(list, rowID(row))
		}
	}
	return list
}
