package races

import (
	"bytes"
	"runtime"
	"slices"
	"time"
)

// The host learns of a host function by Go's means: a channel, a mutex, a flag. The detector sees none of these. So a
// function is held until no goroutine of the program can go on without it. Whatever the program does meanwhile has not
// waited for the function, so nothing orders the two. What it does later counts as made after the function.

// A function is held for patience at most: the program may poll a flag. If it is only calls of this library that may
// go on, it is held for less time, because such a call may wait for the function in a way that the detector does not
// know. Each time that runs out halves the times, down to leastPatience.
//
// If all goroutines wait, one of them may wait for something else than the function: a timer, a file, a child process.
// It goes on without the function if it gets the time for that, which is stillness. Each time that runs out halves it,
// so all functions of a detector take twice that time at most.
const (
	patience      = time.Second
	leastPatience = 100 * time.Millisecond
	callPart      = 8 // the time for calls of this library is patience / callPart
	stillness     = 100 * time.Millisecond
	// A goroutine may wait for a moment only, such as for a lock. So it has to be seen waiting several times in a row.
	looks = 4
	pause = 250 * time.Microsecond
)

// holds are what is held now. While all goroutines wait, one of them is let go at a time, so that the others are not
// taken for what the program waits for. It is the one that was enqueued last, because a program often waits for that.
type holds struct {
	held  []*held
	freed int // how many were let go
	// impatience and stills are how often patience and stillness have run out.
	impatience, stills int
}

// held is a host function, or something else, that is held.
type held struct {
	behind *step  // what comes after it, or nil
	made   uint64 // later ones have higher numbers
}

// Hold implements [Observer].
func (d *Detector) Hold() {
	d.mu.Lock()
	h := &held{made: d.made}
	d.mu.Unlock()
	d.hold(h)
}

// hold waits until the program does not go on without what is held. If the program waits for steps behind the gate,
// that is at once. The pauses are of the machine's clock: goroutines need real time to go on, whatever the GPU's clock
// does.
func (d *Detector) hold(h *held) {
	d.mu.Lock()
	d.held = append(d.held, h)
	d.mu.Unlock()
	ended := d.keep(h)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = slices.DeleteFunc(d.held, func(other *held) bool { return other == h })
	d.freed++
	switch ended {
	case outOfPatience:
		d.impatience++
	case still:
		d.stills++
	}
}

// ending says why a hold has ended.
type ending int

const (
	needed ending = iota
	outOfPatience
	still
)

// keep returns when what is held may go on.
func (d *Detector) keep(h *held) ending {
	begin := time.Now()
	since, freed, quiet := begin, 0, 0
	for ; ; time.Sleep(pause) {
		now := d.turn(h)
		if now.over {
			return needed
		}
		if now.freed != freed { // that may let goroutines go on
			since, freed, quiet = time.Now(), now.freed, 0
		}
		limit := now.patience
		if now.last {
			switch others() {
			case waiting:
				if quiet++; quiet >= looks && time.Since(since) >= now.stillness {
					return still
				}
				continue
			case calling:
				limit /= callPart
			}
			quiet = 0
		}
		if time.Since(begin) > limit {
			return outOfPatience
		}
	}
}

// turn is the present state of a hold.
type turn struct {
	over, last          bool // last: nothing that is held was enqueued later
	freed               int
	patience, stillness time.Duration
}

func (d *Detector) turn(h *held) turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return turn{
		over:      d.report == nil || h.behind != nil && h.behind.needed,
		last:      !slices.ContainsFunc(d.held, func(other *held) bool { return other.made > h.made }),
		freed:     d.freed,
		patience:  max(patience>>d.impatience, leastPatience),
		stillness: stillness >> d.stills,
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
	d.need(d.contexts[ctx].tails()...)
}

// maxDump is the size of the longest dump. Longer ones take too long.
const maxDump = 1 << 20

// dump returns the stacks of all goroutines, the caller's first. whole is false if they are too many.
func dump() (stacks []byte, whole bool) {
	for size := 1 << 16; size <= maxDump; size *= 4 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return buf[:n], true
		}
	}
	return nil, false
}

// others returns what the other goroutines do. If they are too many to see, some go on.
func others() progress {
	if stacks, whole := dump(); whole {
		return goingOn(stacks)
	}
	return running
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

// doing returns what one goroutine does. This library's own goroutines wait, except while they call functions of the
// program.
func doing(g []byte) progress {
	_, state, _ := bytes.Cut(g, []byte(" ["))
	state, frames, _ := bytes.Cut(state, []byte("]:\n"))
	if i := bytes.IndexAny(state, ",("); i >= 0 {
		state = bytes.TrimSpace(state[:i])
	}
	lines := bytes.Split(bytes.TrimSpace(frames), []byte("\n"))
	inside := false // the call of the program that waits is one of this library
	known := false
	ours := true // so far all functions are this library's
	for i := 0; i+1 < len(lines); i++ {
		name, file := lines[i], lines[i+1]
		if file[0] != '\t' {
			continue // name is a file, or says that frames are left out
		}
		if by, made := bytes.CutPrefix(name, []byte("created by ")); made {
			if ours && ofLibrary(by, file) {
				return waiting
			}
			break
		}
		if ofGo(name) {
			continue
		}
		if is := ofLibrary(name, file); !known {
			inside, known, ours = is, true, is
		} else {
			ours = ours && is
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

// ofGo reports whether a function is of the parts of Go's library in which goroutines wait, or which this library's own
// goroutines use.
func ofGo(name []byte) bool {
	for _, p := range []string{"runtime.", "sync.", "internal/", "time.", "context.", "syscall.", "os.", "slices.",
		"maps.", "golang.org/x/sys/"} {
		if bytes.HasPrefix(name, []byte(p)) {
			return true
		}
	}
	return false
}
