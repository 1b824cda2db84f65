package races

import (
	"bytes"
	"runtime"
	"strconv"
)

// caller is what a call of the program comes after, and the lane of what the caller itself does.
type caller struct {
	host clock
	own  *lane
}

// apart are the host functions that know less than the host, by the numbers of their goroutines: while such a function
// was held, the host has learned something. The function has not waited for that. What the function does, the host
// knows at once: it has waited for the function, or may have.
type apart map[uint64]*caller

// enter locks the detector for a call, and returns the end of the call.
func (d *Detector) enter() (leave func()) {
	var is *caller
	id := uint64(0)
	if d.mu.Lock(); len(d.apart) > 0 {
		id = goroutine()
		is = d.apart[id]
	}
	if is == nil {
		return d.mu.Unlock
	}
	host := d.caller
	d.caller = *is
	return func() {
		*is = d.caller
		d.caller = caller{join(host.host, is.host), host.own}
		d.mu.Unlock()
	}
}

// beginApart makes the calling goroutine one that knows what the host knew before, and that a step is done, if the host
// knows more now.
func (d *Detector) beginApart(before clock, s *step) {
	if before.includes(d.host) {
		return
	}
	if d.apart == nil {
		d.apart = apart{}
	}
	d.apart[goroutine()] = &caller{join(before, s.clock), d.lanes.take(d.host)}
}

// endApart ends what beginApart began, within a call of the goroutine.
func (d *Detector) endApart() {
	id := goroutine()
	if is := d.apart[id]; is != nil {
		delete(d.apart, id)
		d.lanes.end(is.own)
	}
}

// goroutine returns the number of the calling goroutine.
func goroutine() uint64 {
	var buf [64]byte
	text := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(text, []byte(" "))
	n, _ := strconv.ParseUint(string(number), 10, 64)
	return n
}
