package races

import (
	"bytes"
	"runtime"
	"time"
)

// The host learns of a host function by Go's means: a channel, a mutex, a flag. The detector sees none of these. So a
// function is held until no goroutine of the program can go on without it. Whatever the program does meanwhile has not
// waited for the function, so nothing orders the two. What it does later counts as made after the function.

// A function is held for patience at most: the program may poll a flag. If it is only calls of this library that may
// go on, it is held for less time, because such a call may wait for the function in a way that the detector does not
// know. Each time that runs out halves the times, so that they are small in all.
const (
	patience = time.Second
	callPart = 8 // the time for calls of this library is patience / callPart
	// A goroutine may wait for a moment only, such as for a lock. So it has to be seen waiting several times in a row.
	looks = 4
	pause = 250 * time.Microsecond
)

// Hold implements [Observer].
func (d *Detector) Hold() { d.hold(nil) }

// hold waits until the program does not go on without what comes next. If the program waits for steps behind the gate,
// that is at once. The pauses are of the machine's clock: goroutines need real time to go on, whatever the GPU's clock
// does.
func (d *Detector) hold(behind *step) {
	quiet := 0
	for begin := time.Now(); quiet < looks; time.Sleep(pause) {
		d.mu.Lock()
		over, least := d.report == nil || behind != nil && behind.needed, patience>>d.impatience
		d.mu.Unlock()
		if over {
			return
		}
		limit := least
		switch goingOn(d.dump()) {
		case waiting:
			quiet++
			continue
		case calling:
			limit /= callPart
		}
		if quiet = 0; time.Since(begin) > limit {
			d.mu.Lock()
			d.impatience++
			d.mu.Unlock()
			return
		}
	}
}

// need notes that the program waits for steps: it does not go on without the host functions before them.
func (d *Detector) need(steps ...*step) {
	seen := map[*step]bool{}
	for len(steps) > 0 {
		s := steps[len(steps)-1]
		steps = steps[:len(steps)-1]
		if s == nil || s.pending == 0 || seen[s] {
			continue
		}
		seen[s], s.needed = true, true
		steps = append(steps, s.waits...)
	}
}

// EventNeeded implements [Observer].
func (d *Detector) EventNeeded(raw uintptr, kind EventKind) {
	defer d.enter()()
	d.need(d.before(raw, kind)...)
}

// StreamNeeded implements [Observer].
func (d *Detector) StreamNeeded(key Stream) {
	defer d.enter()()
	if s := d.stream(key); s == s.context.legacy {
		d.need(s.context.tails()...)
	} else {
		d.need(s.tail)
	}
}

// ContextNeeded implements [Observer].
func (d *Detector) ContextNeeded(ctx uintptr) {
	defer d.enter()()
	d.need(d.context(ctx).tails()...)
}

// dump returns the stacks of all goroutines, the caller's first, or nil if they are too many.
func (d *Detector) dump() []byte {
	for size := 1 << 16; size <= 1<<21; size *= 4 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return buf[:n]
		}
	}
	return nil
}

// progress says what goroutines do.
type progress int

const (
	waiting progress = iota // for each other, or for something outside
	calling                 // some wait in this library
	running                 // some run or sleep
)

// goingOn returns what the goroutines of the program do, from a dump that begins with the caller's.
func goingOn(dump []byte) progress {
	all := waiting
	blocks := bytes.Split(dump, []byte("\n\n"))
	for _, g := range blocks[min(1, len(blocks)):] {
		if all = max(all, doing(g)); all == running {
			break
		}
	}
	return all
}

// doing returns what one goroutine does. This library's own goroutines wait.
func doing(g []byte) progress {
	_, state, _ := bytes.Cut(g, []byte(" ["))
	state, frames, _ := bytes.Cut(state, []byte("]:\n"))
	if i := bytes.IndexAny(state, ",("); i >= 0 {
		state = bytes.TrimSpace(state[:i])
	}
	lines := bytes.Split(bytes.TrimSpace(frames), []byte("\n"))
	inside := false // the call of the program that waits is one of this library
	known := false
	for i := 0; i+1 < len(lines); i++ {
		name, file := lines[i], lines[i+1]
		if file[0] != '\t' {
			continue // name is a file, or says that frames are left out
		}
		if by, made := bytes.CutPrefix(name, []byte("created by ")); made {
			if ofLibrary(by, file) {
				return waiting
			}
			break
		}
		if !known && !ofGo(name) {
			inside, known = ofLibrary(name, file), true
		}
	}
	switch string(state) {
	case "running", "runnable", "sleep", "preempted", "copystack":
		return running
	}
	if inside {
		return calling
	}
	return waiting
}

// ofLibrary reports whether a function is of this library, and not of its tests, commands and examples.
func ofLibrary(name, file []byte) bool {
	name, of := bytes.CutPrefix(name, []byte(module))
	if !of || bytes.Contains(file, []byte("_test.go:")) {
		return false
	}
	for _, dir := range []string{"cu.", "cu/", "internal/", "cusim.", "cusim/", "cutest.", "cutrace.", "driver."} {
		if bytes.HasPrefix(name, []byte(dir)) {
			return true
		}
	}
	return false
}

// ofGo reports whether a function is of the parts of Go's library in which goroutines wait.
func ofGo(name []byte) bool {
	for _, p := range []string{"runtime.", "sync.", "internal/", "time.", "context.", "syscall."} {
		if bytes.HasPrefix(name, []byte(p)) {
			return true
		}
	}
	return false
}
