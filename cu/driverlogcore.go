package cu

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// driverLog reads the log in which the driver explains errors (CUDA 12.9). It is read after an error
// only. The log is one for the process, and its lines are in the order in which calls of all threads
// failed. So an error gets the lines that name its function, and the lines of other functions are
// kept for their errors, for a second.
//
// The driver is called without the lock. If two goroutines read the same lines, the second one drops
// them, and reads on.
type driverLog struct {
	mu lock.Mutex[lock.Log]
	// The fields below are not used until begin has found the log.
	exists bool
	at     uint32     // where the log was read up to
	buffer []byte     // for the next read, or nil
	kept   []logEntry // that no error has got yet, the oldest first
}

// logEntry is what the log says about one failed call.
type logEntry struct {
	op   string        // "" if the log does not name the function
	code driver.Result // 0 if the log does not have it
	text string
	// whole says that the text is the software driver's own, about what the machine lacks, and has the remedy.
	whole bool
	read  time.Time
}

// ownSource is the source of the software driver's lines about what the machine lacks.
const ownSource = "cusim"

const (
	logSize        = 25600 + 1 // NVIDIA's driver keeps this many bytes; a NUL follows
	keptLines      = 64
	keptFor        = time.Second // another goroutine needs less to ask for its lines
	maxReads       = 16          // each time another goroutine has read the same lines
	maxExplanation = 1000        // bytes of a text; without the name of a function it may be of many calls
)

// begin finds the end of the log. The driver has been initialized.
func (l *driverLog) begin(t *driver.Table) {
	at, res := t.LogsCurrent(driver.At{}, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exists, l.at = res == driver.ResultSuccess, at
}

// explanation returns what the driver's log says about an error.
func (l *driverLog) explanation(t *driver.Table, op string, res driver.Result) (none logEntry) {
	switch res {
	case driver.ResultOperatingSystem, driver.ResultDeinitialized:
		return none // the next call could wait for a thread, or find no driver
	}
	for range maxReads {
		from, buffer, ok := l.beginRead()
		if !ok || res < 0 {
			return none
		}
		at, n, r := t.LogsDumpToMemory(driver.At{}, from, buffer, 0)
		var entries []logEntry
		if r == driver.ResultSuccess {
			entries = parseLog(string(buffer[:min(n, logSize)]))
		} else {
			at = from
		}
		if k, done := l.endRead(from, at, buffer, entries, t.Clock().Now(), op, res); done {
			return k
		}
	}
	return none
}

// beginRead returns from where the log is to be read, and a buffer. It reports false if there is no log.
func (l *driverLog) beginRead() (from uint32, buffer []byte, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.exists {
		return 0, nil, false
	}
	buffer, l.buffer = l.buffer, nil
	if buffer == nil {
		buffer = make([]byte, logSize)
	}
	return l.at, buffer, true
}

// endRead keeps what was read between two places, and returns the text about an error. If another
// goroutine has read from the first place meanwhile, it drops the entries, which that goroutine has
// kept. Then done is false if the text may be in a later line.
func (l *driverLog) endRead(from, at uint32, buffer []byte, entries []logEntry, now time.Time,
	op string, res driver.Result) (k logEntry, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buffer = buffer
	l.kept = slices.DeleteFunc(l.kept, func(k logEntry) bool { return now.Sub(k.read) > keptFor })
	if done = l.at == from; done {
		for _, k := range entries {
			k.read = now
			l.kept = append(l.kept, k)
		}
		l.at, l.kept = at, l.kept[max(0, len(l.kept)-keptLines):]
	}
	k = l.take(op, res, done)
	return k, done || k.text != ""
}

// take returns the text about the newest error of a function, or else, if unnamed is set, the newest one
// that names no function, and forgets it.
func (l *driverLog) take(op string, res driver.Result, unnamed bool) (none logEntry) {
	for _, want := range []struct{ op, text string }{
		{op, "the driver's log says: "},
		{"", "the driver's log ends with this, perhaps about another call: "},
	} {
		if want.op == "" && !unnamed {
			continue
		}
		for i := len(l.kept) - 1; i >= 0; i-- {
			if k := l.kept[i]; k.op == want.op && (k.code == 0 || k.code == res) {
				l.kept = slices.Delete(l.kept, i, i+1)
				switch {
				case k.text == "": // only that the call returned res
				case k.whole:
					k.text = shorten(k.text)
				default:
					k.text = want.text + shorten(k.text)
				}
				return k
			}
		}
	}
	return none
}

// shorten leaves the middle of a long text out.
func shorten(text string) string {
	if len(text) <= maxExplanation {
		return text
	}
	head, tail := maxExplanation/2, len(text)-maxExplanation/2
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + " … " + text[tail:]
}

// parseLog returns the entries of a log. A line is "[time][thread][source][severity] message", with
// the function's name in a fifth pair of brackets, or in the last line of a thread about the call:
// "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemAlloc". Other lines are left out.
func parseLog(log string) (entries []logEntry) {
	open := make(map[string]string) // the messages of each thread's current call
	whole := make(map[string]bool)
	var threads []string
	for line := range strings.Lines(log) {
		var fields []string
		rest := strings.TrimSpace(line)
		for strings.HasPrefix(rest, "[") {
			field, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				break
			}
			fields, rest = append(fields, field), after
		}
		if len(fields) < 4 {
			continue
		}
		thread, message := fields[1], strings.TrimSpace(rest)
		if _, known := open[thread]; !known {
			threads = append(threads, thread)
		}
		code, op, returning := parseReturning(message)
		switch {
		case returning:
			entries = append(entries, logEntry{op: op, code: code, text: open[thread], whole: whole[thread]})
			open[thread], whole[thread] = "", false
		case len(fields) > 4:
			entries = append(entries, logEntry{op: baseName(fields[4]), text: message})
		default:
			open[thread], whole[thread] = join(open[thread], message), fields[2] == ownSource
		}
	}
	for _, thread := range threads {
		if open[thread] != "" {
			entries = append(entries, logEntry{text: open[thread]})
		}
	}
	return entries
}

// parseReturning parses "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemAlloc".
func parseReturning(message string) (code driver.Result, op string, ok bool) {
	rest, ok := strings.CutPrefix(message, "Returning ")
	if !ok {
		return 0, "", false
	}
	number, rest, ok := strings.Cut(rest, " ")
	_, op, from := strings.Cut(rest, " from ")
	for _, c := range number {
		if c < '0' || c > '9' || code > 1<<20 {
			return 0, "", false
		}
		code = code*10 + driver.Result(c-'0')
	}
	return code, baseName(op), ok && from
}

// baseName returns the name of a function in C programs: without the version of its interface.
func baseName(export string) string {
	name := strings.TrimSuffix(strings.TrimSuffix(export, "_ptsz"), "_ptds")
	if i := strings.LastIndex(name, "_v"); i > 0 && strings.Trim(name[i+2:], "0123456789") == "" {
		name = name[:i]
	}
	return name
}

// join joins two texts, each of which may be empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
