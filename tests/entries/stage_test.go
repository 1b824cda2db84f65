package entries

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/loader"
)

// stateEnv is set in processes that make the calls of TestStates. driverEnv names the library.
const stateEnv = "PURECU_ENTRIES_STATES"

// stateChild reads situations, one in each line, makes the calls, and writes what came of them.
func stateChild() int {
	name := os.Getenv(driverEnv)
	if name == "1" {
		name = ""
	}
	lib, err := loader.Open(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := &stage{Table: driver.New(lib), symbol: lib.Symbol}
	s.at.Thread = s.Pin()
	if err := s.begin(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	list, err := functions()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	byName := map[string]function{}
	for _, f := range list {
		byName[f.name] = f
	}
	lines := bufio.NewScanner(os.Stdin)
	fmt.Println("ready", s.two)
	for lines.Scan() {
		in, err := parseSituation(lines.Text())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		cell, end := s.ask(byName[in.function], in, func(cell string) { fmt.Printf("=%s\n", cell) })
		if end {
			fmt.Printf("end %s\n", cell)
			return 0
		}
		fmt.Printf("done %s\n", cell)
	}
	return 0
}

// begin creates what all calls need.
func (s *stage) begin() error {
	if r := s.Init(s.at, 0); r != ok {
		return fmt.Errorf("cuInit: %v", r)
	}
	n, r := s.DeviceGetCount(s.at)
	if r != ok {
		return fmt.Errorf("cuDeviceGetCount: %v", r)
	}
	s.two = n > 1
	idle, err := s.symbol("sched_yield") // of the C library, which the driver has loaded
	if err != nil {
		return err
	}
	s.idle = uint64(idle)
	s.all = os.Getenv(stateEnv) == "all"
	return s.furnish()
}

// furnish creates the contexts that the process is for: all, or one.
func (s *stage) furnish() error {
	for name := range homes {
		if name > primary && !s.all || name == abroad && !s.two {
			continue
		}
		if _, err := s.home(name); err != nil {
			return err
		}
	}
	return nil
}

// outSize is the size of the memory for what a function writes, and untouched is what is there before.
const (
	outSize   = 4096
	untouched = 0xa5
)

// ask makes a call. It tells the cell as soon as the call has returned, and returns the whole cell: the
// result; w if the function has failed, but has written something, - if it has succeeded and not written;
// ! if it has invalidated the capture; > and a result if the context is of no use any more.
func (s *stage) ask(f function, in situation, tell func(string)) (cell string, end bool) {
	p := places[in.place]
	failed := func(err error) (string, bool) {
		return "not built: " + strings.ReplaceAll(err.Error(), "\n", "; "), true
	}
	first, err := s.home(primary)
	if err != nil {
		return failed(err)
	}
	current, err := s.home(p.current)
	if err != nil {
		return failed(err)
	}
	h, err := s.home(p.objects)
	if err != nil {
		return failed(err)
	}
	x := &setting{stage: s, home: h, reusable: map[string]uint64{}}
	x.must("cuCtxSetCurrent", s.CtxSetCurrent(s.at, h.ctx))
	if f.green {
		_, destroy := makers["green"](x)
		x.after = append(x.after, destroy)
	}
	words, outs := x.words(f, in)
	symbol, known := driver.FindExport(f.name)
	if !known {
		return failed(errors.New("there is no such function"))
	}
	if _, err := s.Resolve(symbol); err != nil {
		return failed(err)
	}
	if len(x.errs) > 0 {
		return failed(errors.Join(x.errs...))
	}
	var capture driver.Stream
	if in.capturing {
		var r R
		x.must("cuCtxSetCurrent", s.CtxSetCurrent(s.at, first.ctx))
		capture, r = s.StreamCreate(s.at, driver.CU_STREAM_NON_BLOCKING)
		x.must("cuStreamCreate", r)
		x.must("cuStreamBeginCapture", s.StreamBeginCapture(s.at, capture, global))
	}
	s.clear()
	if !p.none {
		x.must("cuCtxSetCurrent", s.CtxSetCurrent(s.at, current.ctx))
	}
	if len(x.errs) > 0 {
		cell, _ = failed(errors.Join(x.errs...))
		return cell, true
	}
	word, res := s.CallSymbol(s.at, symbol, words...)
	if res != ok {
		return failed(fmt.Errorf("%v", res))
	}
	r := driver.Result(int32(word))
	cell = fmt.Sprint(int32(r))
	wrote, left := false, false
	for _, o := range outs {
		if changed(o) {
			wrote = true
		} else {
			left = true
		}
	}
	switch {
	case r != ok && wrote:
		cell += "w"
	case r == ok && left:
		cell += "-"
	}
	tell(cell)
	if r == ok && (f.ends || in.change.handle() && f.destroys()) {
		return cell, true
	}
	s.clear()
	s.CtxSetCurrent(s.at, first.ctx)
	if in.capturing {
		g, r := s.StreamEndCapture(s.at, capture)
		switch r {
		case ok:
			s.GraphDestroy(s.at, g)
		case driver.ResultStreamCaptureInvalidated:
			cell += "!"
		default:
			cell += fmt.Sprintf("!%d", r)
		}
		s.StreamDestroy(s.at, capture)
	}
	s.CtxSetCurrent(s.at, h.ctx)
	for _, f := range x.after {
		f()
	}
	s.CtxSetCurrent(s.at, first.ctx)
	if r := s.CtxSynchronize(s.at); r != ok {
		return cell + fmt.Sprintf(">%d", r), true
	}
	return cell, false
}

// clear makes no context current. A call may have left several on the thread's stack.
func (s *stage) clear() {
	for range 20 {
		if c, r := s.CtxGetCurrent(s.at); r != ok || c == 0 {
			return
		}
		s.CtxPopCurrent(s.at)
	}
}

func changed(b *[outSize]byte) bool {
	for _, c := range b {
		if c != untouched {
			return true
		}
	}
	return false
}

// words returns the words of the arguments, and the memory that the function writes to.
func (s *setting) words(f function, in situation) (words []uintptr, outs []*[outSize]byte) {
	values := make([]uintptr, len(f.args))
	var tail []uintptr
	keep := func(p unsafe.Pointer) uintptr {
		s.keep = append(s.keep, p)
		return uintptr(p)
	}
	changeOf := func(i int) string {
		if in.changed && in.change.arg == i {
			return in.change.what
		}
		return ""
	}
	// Executable graphs and clones have the nodes that other arguments are.
	late := func(a string) bool { return a == "%exec" || a == "%clone" }
	for _, pass := range []bool{false, true} {
		for i, a := range f.args {
			if late(a) == pass {
				values[i] = uintptr(s.value(a, in, keep))
			}
		}
	}
	for i, a := range f.args {
		switch a {
		case "out", "out.ctx", "out.green", "out.retained", "out.attached":
			b := new([outSize]byte)
			for k := range b {
				b[k] = untouched
			}
			values[i] = keep(unsafe.Pointer(b))
			if changeOf(i) == "" {
				outs = append(outs, b)
				s.after = append(s.after, func() { s.undo(a, b) })
			}
		case "ipcmem", "ipcevent":
			var whole [8]uint64
			if a == "ipcmem" {
				v, r := s.IpcGetMemHandle(s.at, s.mem())
				s.must("cuIpcGetMemHandle", r)
				whole = *(*[8]uint64)(unsafe.Pointer(&v))
			} else {
				v, r := s.IpcGetEventHandle(s.at, driver.Event(s.common("sharedevent")))
				s.must("cuIpcGetEventHandle", r)
				whole = *(*[8]uint64)(unsafe.Pointer(&v))
			}
			handle := &whole
			keep(unsafe.Pointer(handle))
			register, stack := passedWhole(handle)
			tail = stack
			if register != nil {
				values[i] = register[0]
			}
		}
	}
	if w := changeOf(in.change.arg); w != "" {
		values[in.change.arg] = s.replaced(f.args[in.change.arg], w, values[in.change.arg], keep)
	}
	for i, a := range f.args {
		if tail != nil && strings.HasPrefix(a, "ipc") {
			continue
		}
		words = append(words, values[i])
	}
	if tail != nil {
		for len(words) < 6 {
			words = append(words, 0)
		}
		words = append(words, tail...)
	}
	return words, outs
}

// undo destroys what a function has created.
func (s *setting) undo(a string, b *[outSize]byte) {
	if !changed(b) {
		return
	}
	handle := *(*uint64)(unsafe.Pointer(b))
	switch a {
	case "out.attached":
		s.CtxSetCurrent(s.at, driver.Context(handle))
		s.CtxDetach(s.at, driver.Context(handle))
	case "out.retained":
		s.DevicePrimaryCtxRelease(s.at, s.dev)
	case "out.ctx":
		s.CtxDestroy(s.at, driver.Context(handle))
	case "out.green":
		s.GreenCtxDestroy(s.at, driver.GreenCtx(handle))
	}
}

// value returns the usual value of an argument.
func (s *setting) value(a string, in situation, keep func(unsafe.Pointer) uintptr) uint64 {
	switch {
	case strings.HasPrefix(a, "out"), a == "ipcmem", a == "ipcevent":
		return 0 // see words
	case a == "@":
		return uint64(s.dev)
	case a == "idle":
		return s.idle
	case a == "ondevice":
		l := s.location()
		return *(*uint64)(unsafe.Pointer(&l))
	case a[0] == '&':
		input, known := inputs[a[1:]]
		if !known {
			s.errs = append(s.errs, fmt.Errorf("there is no input %s", a))
			return 0
		}
		return uint64(keep(input(s)))
	case a[0] == '"':
		return uint64(keep(cText(a[1:])))
	case a == "%stream" && in.legacy:
		return 0
	case a[0] == '%':
		name, fresh := strings.CutSuffix(a[1:], "!")
		make, known := makers[name]
		switch {
		case !known:
			s.errs = append(s.errs, fmt.Errorf("there is no kind %s", a))
			return 0
		case fresh || ofGraph(name):
			v, _ := make(s)
			return v
		}
		return s.common(name)
	}
	n, err := number(a)
	if err != nil {
		s.errs = append(s.errs, err)
	}
	if a[0] == '*' {
		p := ptr([2]uint64{n})
		return uint64(keep(p))
	}
	return n
}

// ofGraph reports whether each call has its own objects of a kind.
func ofGraph(kind string) bool {
	switch kind {
	case "graph", "child", "graphofnodes", "clone", "exec", "allocated", "owned", "file", "green":
		return true
	}
	return strings.HasPrefix(kind, "node.")
}

// These are sizes that are too large: of memory, and of everything.
const (
	large = 1 << 40
	huge  = 1 << 62
)

// replaced returns another value of an argument.
func (s *setting) replaced(a, what string, usual uintptr, keep func(unsafe.Pointer) uintptr) uintptr {
	switch what {
	case "null":
		return 0
	case "minus":
		return 0xffffffff
	case "99":
		return 99
	case "large":
		return large
	case "huge":
		if strings.HasPrefix(a, "#u") {
			return 0xffffffff
		}
		return huge
	case "zero":
		if a[0] == '*' {
			return keep(ptr([2]uint64{}))
		}
		return 0
	case "wrong":
		switch strings.TrimSuffix(a[1:], "!") {
		case "event", "sharedevent":
			return uintptr(s.stream())
		case "host", "own", "registered":
			return uintptr(s.mem())
		case "mem", "mem2", "managed", "reserved", "mapped", "sharedblock", "allocated":
			return uintptr(s.page())
		}
		return uintptr(s.event())
	case "gone":
		kind := strings.TrimSuffix(a[1:], "!")
		if kind == "ctx" || kind == "other" {
			return uintptr(s.staleContext())
		}
		v, destroy := makers[kind](s)
		if destroy == nil {
			s.errs = append(s.errs, errNotDestroyed)
			return usual
		}
		destroy()
		return uintptr(v)
	}
	s.errs = append(s.errs, fmt.Errorf("there is no change %s", what))
	return usual
}

// errNotDestroyed is the error of a situation that there is not.
var errNotDestroyed = errors.New("nothing destroys it")

// staleContext returns a context that was destroyed.
func (s *setting) staleContext() uint64 {
	if s.stale == 0 {
		if _, err := s.stage.home(second); err != nil { // it must not get the same address
			s.errs = append(s.errs, err)
		}
		c := made[driver.Context](s, "cuCtxCreate")(s.CtxCreateV2(s.at, 0, 0))
		s.must("cuCtxDestroy", s.CtxDestroy(s.at, c))
		s.must("cuCtxSetCurrent", s.CtxSetCurrent(s.at, s.ctx))
		s.stale = uint64(c)
	}
	return s.stale
}
