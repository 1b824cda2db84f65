package simnvml

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// step is something that will happen.
type step struct {
	at time.Time
	do func(n *NVML)
}

// After calls f when a time has passed, by the CUDA driver's clock: at the next call of the NVML, or while a call waits
// for an event. f may change the NVML, but must make no call of it.
func (n *model) After(d time.Duration, f func(n *NVML)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.script = append(n.script, step{n.machine.Clock().Now().Add(d), f})
	n.broadcast()
}

// catchUp makes the steps that are due happen, in their order. Of several calls one does this, and the others wait
// until it has. A step must not make a call itself: the call would wait for the step. catchUp returns when the next
// step is due, or the zero time if there is none.
func (n *model) catchUp() (next time.Time) {
	for {
		do, next := n.takeStep()
		if do == nil {
			return next
		}
		n.step(do)
	}
}

// takeStep waits until no step happens, and takes the first step that is due. If there is none, it returns when
// the next one is due, or the zero time.
func (n *model) takeStep() (do func(n *NVML), next time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.stepping {
		changed := n.changed
		n.mu.Unlock()
		<-changed
		n.mu.Lock()
	}
	if len(n.script) == 0 {
		return nil, time.Time{}
	}
	first := 0
	for i, s := range n.script {
		if s.at.Before(n.script[first].at) {
			first = i
		}
	}
	s := n.script[first]
	if s.at.After(n.machine.Clock().Now()) {
		return nil, s.at
	}
	n.script = slices.Delete(n.script, first, first+1)
	n.stepping = true
	return s.do, time.Time{}
}

// step makes a step happen that takeStep has returned. The step may wait for other processes, so no lock is held.
func (n *model) step(do func(n *NVML)) {
	defer func() { // also if the step panics
		n.mu.Lock()
		defer n.mu.Unlock()
		n.stepping = false
		n.broadcast()
	}()
	do(n.nvml)
}

// Script parses a list of what happens to GPUs, such as "0:xid=79@5s,1:lost": the number of a GPU, what happens, and
// after what time. The result applies it.
//
//	xid=N        the error N is reported
//	ecc=C/U      C errors of the memory are corrected, and U are not
//	rows=C/U     C and U rows have been replaced because of such errors
//	reasons=N    why clocks are not higher: a sum of bits
//	lost         the GPU falls off the bus
//	hang         calls about the GPU do not return
//	nvlink=L/down  the NVLink L is not active any more; up makes it active again
//	reset        the GPU is reset, if no program uses it
func Script(text string) (apply func(n *NVML), err error) {
	var steps []func(n *NVML)
	for entry := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
		s, err := parseStep(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		steps = append(steps, s)
	}
	return func(n *NVML) {
		for _, s := range steps {
			s(n)
		}
	}, nil
}

func parseStep(entry string) (func(n *NVML), error) {
	number, rest, ok := strings.Cut(entry, ":")
	gpu, err := strconv.Atoi(number)
	if !ok || err != nil || gpu < 0 {
		return nil, errors.New("this does not begin with the number of a GPU and a colon")
	}
	what, when, timed := strings.Cut(rest, "@")
	f, err := parseTrouble(gpu, what)
	if err != nil || !timed {
		return f, err
	}
	after, err := time.ParseDuration(when)
	if err != nil || after < 0 {
		return nil, fmt.Errorf("%q is no time, such as 5s", when)
	}
	return func(n *NVML) { n.After(after, f) }, nil
}

func parseTrouble(gpu int, what string) (func(n *NVML), error) {
	name, value, given := strings.Cut(what, "=")
	if given && (name == "lost" || name == "hang" || name == "reset") {
		return nil, fmt.Errorf("%s has no value", name)
	}
	switch name {
	case "lost":
		return func(n *NVML) { n.LoseGPU(gpu) }, nil
	case "nvlink":
		return parseLink(gpu, value)
	case "reset":
		return func(n *NVML) { n.Reset(gpu) }, nil
	case "hang":
		return func(n *NVML) { n.Inject(Fault{GPUs: []int{gpu}, Hangs: true}) }, nil
	case "xid", "reasons":
		v, err := strconv.ParseUint(value, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no number", value)
		}
		if name == "xid" {
			return func(n *NVML) { n.XID(gpu, v) }, nil
		}
		return func(n *NVML) { n.ClocksEventReasons(gpu, v) }, nil
	case "ecc", "rows":
		first, second, _ := strings.Cut(value, "/")
		corrected, err1 := strconv.ParseUint(first, 10, 32)
		uncorrected, err2 := strconv.ParseUint(second, 10, 32)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("%q is not two numbers with / between them, such as 3/0", value)
		}
		if name == "ecc" {
			return func(n *NVML) { n.ECCErrors(gpu, corrected, uncorrected) }, nil
		}
		return func(n *NVML) { n.RemappedRows(gpu, uint32(corrected), uint32(uncorrected), false, false) }, nil
	}
	return nil, fmt.Errorf(
		"%q is none of xid=N, ecc=C/U, rows=C/U, reasons=N, nvlink=LINK/down, lost, hang and reset", name)
}

func parseLink(gpu int, value string) (func(n *NVML), error) {
	first, state, _ := strings.Cut(value, "/")
	number, err := strconv.Atoi(first)
	if err != nil || number < 0 || state != "down" && state != "up" {
		return nil, fmt.Errorf("%q is not the number of an NVLink with /down or /up, such as 3/down", value)
	}
	return func(n *NVML) { n.SetLink(gpu, number, state == "up") }, nil
}
