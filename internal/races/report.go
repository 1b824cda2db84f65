package races

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// RaceKind is a kind of race.
type RaceKind uint8

const (
	// Unordered means that nothing orders two uses of the same memory, of which at least one writes.
	Unordered RaceKind = iota
	// UsedAfterFree means that a kernel gets the address of memory that was freed.
	UsedAfterFree
	// Reused means that an allocation gets memory that earlier work may still use.
	Reused
)

// Race is a race that the detector has found.
type Race struct {
	Kind RaceKind
	// First and Second are the uses. First is zero for UsedAfterFree.
	First, Second Party
	// Addr and Size are the memory that both use, in bytes. OnHost says that it is host memory.
	Addr, Size uint64
	OnHost     bool
	memory     *allocation // or nil
	within     bool        // both are nodes of one graph, and of one launch
	launch     *work       // of the second use, if it is a node of a graph
}

// Party is one of the two uses of a race.
type Party struct {
	Call   string // the function in C, or the method for a use by the host
	Detail string // such as the name of the kernel
	As     string // such as "argument 0"
	Stream string // such as "stream 2", or "the host"
	Write  bool
	// Stack is where the program has made the call, and Launch where it has launched the graph of
	// which the call is a node.
	Stack, Launch []uintptr
}

func (a *access) party() Party {
	p := Party{
		Call: a.by.call, Detail: a.by.detail, As: a.use.As, Stream: cmp.Or(a.by.on, hostName), Write: a.use.Write,
		Stack: a.by.stack,
	}
	if l := a.by.launch; l != nil {
		p.Launch, p.Stream = l.stack, l.on
	}
	return p
}

// found are the races that were not reported yet, and those that have been found.
type found struct {
	list     []Race
	reported map[pair]bool
}

// pair identifies a race: each is reported once, however often it occurs.
type pair struct {
	kind          RaceKind
	first, second string
}

// race notes that nothing orders b after a.
func (d *Detector) race(a, b *access, seg *segment) {
	from, to := max(seg.from, b.use.Addr), seg.to
	d.find(Race{
		Kind: Unordered, First: a.party(), Second: b.party(), Addr: from, Size: to - from, OnHost: b.use.OnHost,
		memory: d.memory.holding(from, b.use.OnHost), launch: b.by.launch,
		within: a.by.launch != nil && a.by.launch == b.by.launch,
	})
}

func (d *Detector) find(r Race) {
	if key := r.key(); !d.reported[key] {
		d.reported[key] = true
		d.list = append(d.list, r)
	}
}

// forgetRaces forgets the races of a launch that were not reported yet.
func (d *Detector) forgetRaces(launch *work) {
	d.list = slices.DeleteFunc(d.list, func(r Race) bool {
		if r.launch == launch {
			delete(d.reported, r.key())
		}
		return r.launch == launch
	})
}

func (r Race) key() pair { return pair{r.Kind, r.First.place(), r.Second.place()} }

// place identifies the call.
func (p Party) place() string { return fmt.Sprint(p.Call, p.As, p.Stream, p.Stack, p.Launch) }

// name names the call: "cuLaunchKernel of kernel add".
func (p Party) name() string {
	if p.Launch != nil {
		return "the graph with " + p.call()
	}
	return p.call()
}

func (p Party) call() string {
	if p.Detail != "" {
		return p.Call + " of " + p.Detail
	}
	return p.Call
}

// subject names the call and its stream: "cuMemcpyDtoHAsync on stream 2".
func (p Party) subject() string {
	s := p.call()
	if p.Launch != nil {
		s += ", a node of a graph,"
	}
	if p.Stream != hostName {
		s += " on " + p.Stream
	}
	return s
}

const hostName = "the host"

// String returns a description of several lines, with what is missing and both stacks.
func (r Race) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Summary())
	fmt.Fprintf(&b, "%s\n", r.Remedy())
	switch r.Kind {
	case UsedAfterFree:
		writeStack(&b, "freed", r.memory.freed)
	default:
		r.First.writeStacks(&b, "first")
	}
	r.Second.writeStacks(&b, "second")
	if r.memory != nil && r.Kind != Reused {
		writeStack(&b, "allocated", r.memory.stack)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Summary returns what is wrong, in one sentence.
func (r Race) Summary() string {
	what := "device memory"
	if r.OnHost {
		what = "pinned host memory"
	}
	if r.memory != nil {
		what = r.memory.what
	}
	switch r.Kind {
	case UsedAfterFree:
		return fmt.Sprintf("use after free: %s gets %#x as %s, an address in %s that was freed before",
			r.Second.subject(), r.Addr, r.Second.As, what)
	case Reused:
		return fmt.Sprintf("race: new memory is at the address %#x that %s has as %s, and this work may still run",
			r.Addr, r.First.subject(), r.First.As)
	}
	where := fmt.Sprintf("%d bytes at %#x", r.Size, r.Addr)
	if r.Size == 1 {
		where = fmt.Sprintf("the byte at %#x", r.Addr)
	}
	if m := r.memory; m != nil {
		first := r.Addr - m.addr
		if where = fmt.Sprintf("bytes %d to %d", first, first+r.Size-1); r.Size == 1 {
			where = fmt.Sprintf("byte %d", first)
		}
	}
	return fmt.Sprintf("race: %s %s what %s %s, and nothing orders the two (%s, %s)",
		r.Second.subject(), verb(r.Second.Write), r.First.subject(), verb(r.First.Write), what, where)
}

func verb(write bool) string {
	if write {
		return "writes"
	}
	return "reads"
}

// Remedy returns what the program has to do.
func (r Race) Remedy() string {
	first, second := r.First, r.Second
	switch {
	case r.Kind == UsedAfterFree:
		return "close the memory after its last use, and pass memory by cu.Ptr instead of its address: " +
			"then its use is checked"
	case r.Kind == Reused:
		return "wait for the work before the memory is freed, and pass memory by cu.Ptr instead of its address: " +
			"then the memory is kept until the work is done"
	case r.within:
		return "add a dependency between the two nodes: in a capture let the second one's stream wait for the first one's, " +
			"by WaitStream or an event; otherwise pass the first node to the function that adds the second one"
	case strings.HasPrefix(second.Call, "DeviceMem."):
		return fmt.Sprintf("wait for %s after %s and before %s, which does not wait for it: "+
			"Stream.Synchronize or Stream.Wait", first.Stream, first.name(), second.name())
	case second.Stream == hostName:
		return fmt.Sprintf("record an event on %s after %s, and wait for it before %s: "+
			"Event.Wait, Stream.Wait or Stream.Synchronize", first.Stream, first.name(), second.name())
	case first.Stream == hostName:
		return fmt.Sprintf("let %s wait for %s: enqueue %s afterwards, "+
			"or raise a timeline afterwards that the stream waits for", second.Stream, first.name(), second.name())
	}
	return fmt.Sprintf("record an event on %s after %s, and make %s wait for it before %s: "+
		"Stream.WaitStream, or Event.Record and Stream.WaitEvent", first.Stream, first.name(), second.Stream, second.name())
}

func (p Party) writeStacks(b *strings.Builder, which string) {
	if p.Launch == nil {
		writeStack(b, which+" use", p.Stack)
		return
	}
	writeStack(b, which+" use, added to the graph", p.Stack)
	writeStack(b, which+" use, launched", p.Launch)
}

// writeStack writes a stack without the calls of this library's packages.
func writeStack(b *strings.Builder, title string, pcs []uintptr) {
	if len(pcs) == 0 {
		return
	}
	fmt.Fprintf(b, "  %s:\n", title)
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if !isOwn(f) && f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") &&
			!strings.HasPrefix(f.Function, "testing.") {
			fmt.Fprintf(b, "    %s\n        %s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return
		}
	}
}

// isOwn reports whether a function is one of this library's, and not of its tests.
func isOwn(f runtime.Frame) bool {
	name, of := strings.CutPrefix(f.Function, module)
	return of && !strings.HasSuffix(f.File, "_test.go") &&
		(strings.HasPrefix(name, "cu.") || strings.HasPrefix(name, "cu/") || strings.HasPrefix(name, "internal/"))
}

const module = "github.com/purecu/purecu/"
