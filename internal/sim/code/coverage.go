package code

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// Coverage collects which lines of texts are executed. Several drivers may use it at once.
type Coverage struct {
	mu    sync.Mutex
	texts map[string]*coveredText // by the texts
}

// coveredText is a text that was loaded.
type coveredText struct {
	name  string
	lines []string
	insts []coveredInst
	at    map[[2]int32]int // the index in insts by the place
}

// coveredInst is an instruction, and what threads did with it.
type coveredInst struct {
	vm.Inst
	vm.Count
	guarded bool
}

// reached returns how many threads have reached the instruction, also with a guard predicate that is false.
func (in *coveredInst) reached() uint64 { return in.Executed + in.Skipped }

// loaded notes a text, of which nothing may have been executed.
func (c *Coverage) loaded(t *Text) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.texts == nil {
		c.texts = make(map[string]*coveredText)
	}
	if c.texts[t.source] != nil {
		return
	}
	one := &coveredText{name: c.nameOf(t), lines: strings.Split(strings.TrimRight(t.source, "\x00\n"), "\n"),
		at: make(map[[2]int32]int)}
	for _, in := range t.Instructions() {
		one.at[[2]int32{in.Line, in.Col}] = len(one.insts)
		one.insts = append(one.insts, coveredInst{Inst: in, guarded: strings.HasPrefix(in.Text, "@")})
	}
	c.texts[t.source] = one
}

// nameOf returns a name for a text, which is that of its first kernel. Another text may have the same kernel.
func (c *Coverage) nameOf(t *Text) string {
	const mostName = 100
	name := "module"
	if len(t.Kernels) > 0 {
		name = t.Kernels[0].Name[:min(len(t.Kernels[0].Name), mostName)]
	}
	same := 1
	for _, other := range c.texts {
		if other.name == name+".ptx" || strings.HasPrefix(other.name, name+"-") {
			same++
		}
	}
	if same > 1 {
		return fmt.Sprintf("%s-%d.ptx", name, same)
	}
	return name + ".ptx"
}

// Add adds what a launch of a kernel has counted.
func (c *Coverage) Add(k *Kernel, notes *vm.Notes, counts []vm.Count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.texts[k.text.source]
	for i, n := range counts {
		in := &notes.Insts[i]
		if at, is := t.at[[2]int32{in.Line, in.Col}]; is {
			t.insts[at].Executed += n.Executed
			t.insts[at].Skipped += n.Skipped
		}
	}
}

// all returns the texts by their names. The caller holds the lock.
func (c *Coverage) all() (list []*coveredText) {
	for _, t := range c.texts {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *coveredText) int { return cmp.Compare(a.name, b.name) })
	return list
}

// lineCounts returns how many threads have executed the lines with instructions: one with several has the
// number of the instruction that the fewest have reached.
func (t *coveredText) lineCounts() map[int32]uint64 {
	counts := make(map[int32]uint64)
	for _, in := range t.insts {
		if n, is := counts[in.Line]; !is || in.reached() < n {
			counts[in.Line] = in.reached()
		}
	}
	return counts
}

// summary describes the text in one line.
func (t *coveredText) summary() string {
	lines, executed, branches, taken := 0, 0, 0, 0
	for _, n := range t.lineCounts() {
		if lines++; n > 0 {
			executed++
		}
	}
	for _, in := range t.insts {
		if !in.guarded {
			continue
		}
		branches += 2
		if in.Executed > 0 {
			taken++
		}
		if in.Skipped > 0 {
			taken++
		}
	}
	return fmt.Sprintf("%s: %s of lines, %s of branches", t.name, percent(executed, lines), percent(taken, branches))
}

// percent returns how much a part is of a whole, of which nothing is missing if it is 0.
func percent(part, whole int) string {
	p := 100.0
	if whole > 0 {
		p = 100 * float64(part) / float64(whole)
	}
	return fmt.Sprintf("%.1f%% (%d of %d)", p, part, whole)
}

// Summary is cusim.Coverage.Summary.
func (c *Coverage) Summary() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, t := range c.all() {
		list = append(list, t.summary())
	}
	return strings.Join(list, "\n")
}

// WriteProfile is cusim.Coverage.WriteProfile.
func (c *Coverage) WriteProfile(w io.Writer) error {
	return c.write(w, func(b *bytes.Buffer, list []*coveredText) {
		b.WriteString("mode: count\n")
		for _, t := range list {
			for _, in := range t.insts {
				line, col := in.Line, in.Col
				end := int32(len(t.lines[line-1])) + 1
				if n := strings.IndexByte(t.lines[line-1][col-1:], ';'); n >= 0 {
					end = col + int32(n) + 1
				}
				fmt.Fprintf(b, "%s:%d.%d,%d.%d 1 %d\n", t.name, line, col, line, end, in.reached())
			}
		}
	})
}

// WriteListing is cusim.Coverage.WriteListing.
func (c *Coverage) WriteListing(w io.Writer) error {
	return c.write(w, func(b *bytes.Buffer, list []*coveredText) {
		for i, t := range list {
			if i > 0 {
				b.WriteString("\n")
			}
			t.list(b)
		}
	})
}

// write writes what f makes of the texts. The lock is not held while w is called.
func (c *Coverage) write(w io.Writer, f func(b *bytes.Buffer, list []*coveredText)) error {
	var b bytes.Buffer
	c.mu.Lock()
	f(&b, c.all())
	c.mu.Unlock()
	_, err := w.Write(b.Bytes())
	return err
}

// list writes the lines of the text, each behind how many threads have executed it. A mark is before those that
// none has executed, or whose guard predicates were always the same.
func (t *coveredText) list(b *bytes.Buffer) {
	b.WriteString(t.summary() + "\n\n")
	counts, guards, marks := t.lineCounts(), make(map[int32][]string), make(map[int32]string)
	for _, in := range t.insts {
		if in.reached() == 0 {
			marks[in.Line] = "!"
		} else if in.guarded {
			guard, _, _ := strings.Cut(in.Text, " ")
			guards[in.Line] = append(guards[in.Line],
				fmt.Sprintf("%s: %d true, %d false", guard, in.Executed, in.Skipped))
			if in.Executed == 0 || in.Skipped == 0 {
				marks[in.Line] = "!"
			}
		}
	}
	for i, text := range t.lines {
		line, count := int32(i+1), ""
		if n, has := counts[line]; has {
			count = fmt.Sprint(n)
		}
		text = fmt.Sprintf("%12s %1s %5d  %s", count, marks[line], line, strings.TrimRight(text, " \t\r"))
		if list := guards[line]; list != nil {
			text += " // " + strings.Join(list, "; ")
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
}
