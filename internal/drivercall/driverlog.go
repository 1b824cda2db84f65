package drivercall

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/lock"
)

// DriverLog reads the log in which the driver explains errors (CUDA 12.9). It is read after an error
// only. The log is one for the process, and its lines are in the order in which calls of all threads
// failed. So an error gets the lines that name its function, and the lines of other functions are
// kept for their errors, for a second.
//
// The driver is called without the lock. If two goroutines read the same lines, the second one drops
// them, and reads on.
type DriverLog struct {
	mu lock.Mutex[lock.Log]
	// The fields below are not used until Begin has found the log.
	Exists bool
	at     uint32     // where the log was read up to
	buffer []byte     // for the next read, or nil
	Kept   []LogEntry // that no error has got yet, the oldest first
}

// LogEntry is what the log says about one failed call.
type LogEntry struct {
	Op   string        // "" if the log does not name the function
	Code driver.Result // 0 if the log does not have it
	Text string
	// Whole says that the text is the software driver's own, about what the machine lacks, and has the remedy.
	Whole bool
	Read  time.Time
}

// OwnSource is the source of the software driver's lines about what the machine lacks.
const OwnSource = "cusim"

const (
	LogSize        = 25600 + 1 // NVIDIA's driver keeps this many bytes; a NUL follows
	keptLines      = 64
	KeptFor        = time.Second // another goroutine needs less to ask for its lines
	maxReads       = 16          // each time another goroutine has read the same lines
	MaxExplanation = 1000        // bytes of a text; without the name of a function it may be of many calls
)

// Begin finds the end of the log. The driver has been initialized.
func (l *DriverLog) Begin(t *driver.Table) {
	at, res := t.LogsCurrent(driver.At{}, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Exists, l.at = res == driver.ResultSuccess, at
}

// explanation returns what the driver's log says about an error.
func (l *DriverLog) explanation(t *driver.Table, op string, res driver.Result) (none LogEntry) {
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
		var entries []LogEntry
		if r == driver.ResultSuccess {
			entries = ParseLog(string(buffer[:min(n, LogSize)]))
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
func (l *DriverLog) beginRead() (from uint32, buffer []byte, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.Exists {
		return 0, nil, false
	}
	buffer, l.buffer = l.buffer, nil
	if buffer == nil {
		buffer = make([]byte, LogSize)
	}
	return l.at, buffer, true
}

// endRead keeps what was read between two places, and returns the text about an error. If another
// goroutine has read from the first place meanwhile, it drops the entries, which that goroutine has
// kept. Then done is false if the text may be in a later line.
func (l *DriverLog) endRead(from, at uint32, buffer []byte, entries []LogEntry, now time.Time,
	op string, res driver.Result) (k LogEntry, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buffer = buffer
	l.Kept = slices.DeleteFunc(l.Kept, func(k LogEntry) bool { return now.Sub(k.Read) > KeptFor })
	if done = l.at == from; done {
		for _, k := range entries {
			k.Read = now
			l.Kept = append(l.Kept, k)
		}
		l.at, l.Kept = at, l.Kept[max(0, len(l.Kept)-keptLines):]
	}
	k = l.Take(op, res, done)
	return k, done || k.Text != ""
}

// Take returns the text about the newest error of a function, or else, if unnamed is set, the newest one
// that names no function, and forgets it.
func (l *DriverLog) Take(op string, res driver.Result, unnamed bool) (none LogEntry) {
	for _, want := range []struct{ op, text string }{
		{op, "the driver's log says: "},
		{"", "the driver's log ends with this, perhaps about another call: "},
	} {
		if want.op == "" && !unnamed {
			continue
		}
		for i := len(l.Kept) - 1; i >= 0; i-- {
			if k := l.Kept[i]; k.Op == want.op && (k.Code == 0 || k.Code == res) {
				l.Kept = slices.Delete(l.Kept, i, i+1)
				switch {
				case k.Text == "": // only that the call returned res
				case k.Whole:
					k.Text = shorten(k.Text)
				default:
					k.Text = want.text + shorten(k.Text)
				}
				return k
			}
		}
	}
	return none
}

// shorten leaves the middle of a long text out.
func shorten(text string) string {
	if len(text) <= MaxExplanation {
		return text
	}
	head, tail := MaxExplanation/2, len(text)-MaxExplanation/2
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + " … " + text[tail:]
}

// ParseLog returns the entries of a log. A line is "[time][thread][source][severity] message", with
// the function's name in a fifth pair of brackets, or in the last line of a thread about the call:
// "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemAlloc". Other lines are left out.
func ParseLog(log string) (entries []LogEntry) {
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
			entries = append(entries, LogEntry{Op: op, Code: code, Text: open[thread], Whole: whole[thread]})
			open[thread], whole[thread] = "", false
		case len(fields) > 4:
			entries = append(entries, LogEntry{Op: baseName(fields[4]), Text: message})
		default:
			open[thread], whole[thread] = JoinText(open[thread], message), fields[2] == OwnSource
		}
	}
	for _, thread := range threads {
		if open[thread] != "" {
			entries = append(entries, LogEntry{Text: open[thread]})
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

// JoinText joins two texts, each of which may be empty.
func JoinText(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
