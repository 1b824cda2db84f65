package sim

import (
	"fmt"
	"os"

	"github.com/purecu/purecu/driver"
)

// maxLog is how many bytes of the log are kept, as NVIDIA documents it.
const maxLog = 25600

// explain adds messages about a call that returns r. The name is "" if it is not known which call will.
func (d *Driver) explain(name, message string, r driver.Result) { d.write("CUDA", name, message, r) }

// lacks returns r for a call that the system has refused something: a file of a size, or a part of one.
// The log says what, and what to do. Its source tells package cu that nothing is to be added.
func (d *Driver) lacks(name string, err error, size uint64, r driver.Result) driver.Result {
	d.write("cusim", name, shortage(err, size), r)
	return r
}

// write adds messages of a source.
func (d *Driver) write(source, name, message string, r driver.Result) {
	at := d.engine.Clock.Now().UTC().Format("15:04:05.000")
	messages := []string{message}
	if name != "" {
		messages = append(messages, fmt.Sprintf("Returning %d (%s) from %s", r, r.Name(), name))
	}
	for _, m := range messages {
		d.log.lines = append(d.log.lines, fmt.Sprintf("[%s][1][%s][E] %s\n", at, source, m))
	}
	size := 0
	for i := len(d.log.lines) - 1; i >= 0; i-- {
		if size += len(d.log.lines[i]); size > maxLog {
			d.log.first += uint32(i + 1)
			d.log.lines = d.log.lines[i+1:]
			break
		}
	}
}

// LogsCurrent is cuLogsCurrent.
func (d *Driver) LogsCurrent(_ *driver.Thread, flags uint32) (uint32, driver.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.meet("cuLogsCurrent", d.faults["cuLogsCurrent"]); r != ok {
		return 0, r
	}
	if flags != 0 {
		return 0, driver.ResultInvalidValue
	}
	return d.log.first + uint32(len(d.log.lines)), ok
}

// LogsDumpToMemory is cuLogsDumpToMemory. A NUL follows the lines in the buffer.
func (d *Driver) LogsDumpToMemory(_ *driver.Thread, iterator uint32, buffer []byte,
	flags uint32) (uint32, uint64, driver.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	const op = "cuLogsDumpToMemory"
	if r := d.meet(op, d.faults[op]); r != ok {
		return iterator, 0, r
	}
	if flags != 0 || len(buffer) == 0 {
		d.explain(op, "buffer cannot be NULL", driver.ResultInvalidValue)
		return iterator, 0, driver.ResultInvalidValue
	}
	n := 0
	for i := max(iterator, d.log.first) - d.log.first; int(i) < len(d.log.lines); i++ {
		line := d.log.lines[i]
		if n+len(line) >= len(buffer) {
			if n == 0 {
				return iterator, 0, driver.ResultInvalidValue
			}
			break
		}
		n += copy(buffer[n:], line)
		iterator = d.log.first + i + 1
	}
	buffer[n] = 0
	return iterator, uint64(n), ok
}

// LogsDumpToFile is cuLogsDumpToFile. It writes the lines from a position on, or all without one, and replaces the
// content of a file. As on an H200, the flags do not matter.
func (d *Driver) LogsDumpToFile(_ *driver.Thread, iterator *uint32, path string, _ uint32) driver.Result {
	text, next, r := d.logFrom(iterator, path)
	if r != ok {
		return r
	}
	if os.WriteFile(path, text, 0o644) != nil { // without the lock, as a file may be one that waits for a reader
		return driver.ResultInvalidValue
	}
	if iterator != nil {
		*iterator = next
	}
	return ok
}

// logFrom returns the lines from a position on, and the position behind them, for cuLogsDumpToFile.
func (d *Driver) logFrom(iterator *uint32, path string) (text []byte, next uint32, r driver.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	const op = "cuLogsDumpToFile"
	if r := d.meet(op, d.faults[op]); r != ok {
		return nil, 0, r
	}
	if path == "" {
		return nil, 0, driver.ResultInvalidValue
	}
	from := uint32(0)
	if iterator != nil {
		from = *iterator
	}
	for i := max(from, d.log.first) - d.log.first; int(i) < len(d.log.lines); i++ {
		text = append(text, d.log.lines[i]...)
	}
	return text, max(from, d.log.first+uint32(len(d.log.lines))), ok
}
