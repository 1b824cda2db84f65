package sim

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/purecu/purecu/internal/ptx/syntax"
	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/sim/code"
)

// watching is what somebody wants who looks for a mistake in kernels in PTX.
type watching struct {
	seed     *uint64
	launches map[string]uint64 // of kernels by their names, with a seed or a trace
	cover    *code.Coverage    // or nil
	thread   *tracedThread     // or nil
}

// Coverage is what [Cover] collects.
type Coverage = code.Coverage

// Seed is cusim.Seed.
func Seed(n uint64) Option { return func(d *Driver) { d.watching.seed = &n } }

// Cover is cusim.Cover.
func Cover(c *Coverage) Option { return func(d *Driver) { d.watching.cover = c } }

// Thread is a thread of a kernel.
type Thread struct {
	Kernel        string
	Block, Thread Dim3
}

// tracedThread is a thread whose instructions are written.
type tracedThread struct {
	Thread
	mu      sync.Mutex // of what follows
	w       io.Writer
	written uint64 // the launch of which something was written last, or 0
}

// TraceThread is cusim.TraceThread.
func TraceThread(t Thread, w io.Writer) Option {
	return func(d *Driver) { d.watching.thread = &tracedThread{Thread: t, w: w} }
}

// ParseThread returns the thread in a text such as kernel:1,0,0:31,0,0. There may be a rest, behind another colon.
func ParseThread(s string) (t Thread, rest string, err error) {
	parts := strings.SplitN(s, ":", 4)
	if len(parts) < 3 || parts[0] == "" {
		return t, "", errors.New("write the name of a kernel, a block, and a thread of it, as in reduce:1,0,0:31,0,0")
	}
	t.Kernel = parts[0]
	for i, to := range []*Dim3{&t.Block, &t.Thread} {
		numbers := strings.Split(parts[i+1], ",")
		if len(numbers) > len(to) {
			return t, "", fmt.Errorf("%q are more than three numbers", parts[i+1])
		}
		for j, n := range numbers {
			v, err := strconv.ParseUint(strings.TrimSpace(n), 10, 32)
			if err != nil {
				return t, "", fmt.Errorf("%q is no index, which counts from 0", n)
			}
			to[j] = uint32(v)
		}
	}
	if len(parts) == 4 {
		rest = parts[3]
	}
	return t, rest, nil
}

// nextLaunch returns the number of a launch of a kernel, from 1. It does not depend on launches of other kernels, which
// other goroutines may make, nor on when the launch begins. The driver is locked.
func (d *Driver) nextLaunch(kernel string) uint64 {
	v := &d.watching
	if v.seed == nil && (v.thread == nil || v.thread.Kernel != kernel) {
		return 0
	}
	if v.launches == nil {
		v.launches = make(map[string]uint64)
	}
	v.launches[kernel]++
	return v.launches[kernel]
}

// watchOf returns what a launch with a number does for somebody who looks for a mistake, or nil. The driver is locked.
func (d *Driver) watchOf(l *Launch, k *vm.Kernel, number uint64) *vm.Watch {
	if v := &d.watching; v.seed == nil && v.cover == nil && v.thread == nil {
		return nil
	}
	var w vm.Watch
	if d.watching.seed != nil {
		w.Seed, w.Seeded = seedOf(*d.watching.seed, l.Name, number), true
	}
	if d.watching.cover != nil && k.Notes != nil {
		w.Counts = make([]vm.Count, len(k.Notes.Insts))
	}
	if t := d.watching.thread; t != nil && t.Kernel == l.Name {
		w.Trace = &vm.Trace{Block: t.Block, Thread: t.Thread.Thread,
			Step: func(s vm.Step) { t.step(number, &s) }}
	}
	if !w.Seeded && w.Counts == nil && w.Trace == nil {
		return nil
	}
	return &w
}

// watchBegins is called before a launch is executed. The driver is not locked.
func (d *Driver) watchBegins(l *vm.Launch, number uint64) {
	if l.Watch == nil || l.Watch.Trace == nil {
		return
	}
	t, text := d.watching.thread, ""
	if !inside(t.Block, l.Grid) || !inside(t.Thread.Thread, l.Block) {
		text = fmt.Sprintf(" does not exist: there are %s blocks of %s threads", indexText(l.Grid), indexText(l.Block))
		l.Watch.Trace = nil
	}
	t.begins(number, text)
}

// watchEnded collects what a launch has counted. The driver is not locked.
func (d *Driver) watchEnded(f *function, l *vm.Launch) {
	if l.Watch != nil && l.Watch.Counts != nil {
		d.watching.cover.Add(f.Kernel, l.Kernel.Notes, l.Watch.Counts)
	}
}

// seedOf returns the seed of a launch of a kernel.
func seedOf(seed uint64, kernel string, number uint64) uint64 {
	h := fnv.New64a()
	h.Write([]byte(kernel))
	return seed ^ h.Sum64() + number<<32
}

// begins writes that a launch begins, and the rest of the line. The driver is not locked.
func (t *tracedThread) begins(number uint64, rest string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written = number
	io.WriteString(t.w, t.head(number)+rest+"\n")
}

// step writes an instruction that the thread has executed. If another launch has written meanwhile, it says before of
// which launch the instruction is.
func (t *tracedThread) step(number uint64, s *vm.Step) {
	text := stepText(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.written != number {
		t.written, text = number, t.head(number)+" continues\n"+text
	}
	io.WriteString(t.w, text)
}

// head describes the thread of a launch.
func (t *tracedThread) head(number uint64) string {
	return fmt.Sprintf("kernel %q, launch %d: thread %s of block %s", t.Kernel, number, indexText(t.Thread.Thread),
		indexText(t.Block))
}

// indexText describes an index or a size.
func indexText(d Dim3) string { return fmt.Sprintf("(%d, %d, %d)", d[0], d[1], d[2]) }

// inside reports whether an index is one of those of a size.
func inside(index, size Dim3) bool {
	return index[0] < size[0] && index[1] < size[1] && index[2] < size[2]
}

// stepText describes an instruction that a thread has executed: the line, the text, what it has read, and what
// it has written.
func stepText(s *vm.Step) string {
	text := fmt.Sprintf("%6d  %s;", s.Line, s.Text)
	comment := valuesText(s.Inst.Reads, s.Reads)
	switch {
	case s.Skipped:
		comment = valuesText(s.Inst.Reads[:1], s.Reads) + " skipped"
	case !s.Ended:
		comment += " not executed to its end"
	case len(s.Writes) > 0:
		comment += " -> " + valuesText(s.Inst.Writes, s.Writes)
	}
	if comment = strings.TrimSpace(comment); comment == "" {
		return text + "\n"
	}
	return fmt.Sprintf("%-48s // %s\n", text, comment)
}

// valuesText describes registers with their values.
func valuesText(list []vm.Register, values []uint64) string {
	var parts []string
	for i, r := range list {
		parts = append(parts, r.Name+"="+valueText(r.Type, values[i]))
	}
	return strings.Join(parts, " ")
}

// mostDecimal is the largest number that is written in decimal: larger ones may be addresses or bits.
const mostDecimal = 1 << 20

// valueText returns a value of a type. The bits above the type count for nothing.
func valueText(typ string, v uint64) string {
	if size := syntax.TypeSize(typ); size > 0 && size < 8 {
		v &= 1<<(8*size) - 1
	}
	switch typ {
	case "pred":
		return strconv.FormatBool(v != 0)
	case "f32":
		return strconv.FormatFloat(float64(math.Float32frombits(uint32(v))), 'g', -1, 32)
	case "f64":
		return strconv.FormatFloat(math.Float64frombits(v), 'g', -1, 64)
	case "s16":
		return strconv.Itoa(int(int16(v)))
	case "s32":
		return strconv.Itoa(int(int32(v)))
	case "s64":
		return strconv.FormatInt(int64(v), 10)
	}
	if v <= mostDecimal {
		return strconv.FormatUint(v, 10)
	}
	return fmt.Sprintf("%#x", v)
}
