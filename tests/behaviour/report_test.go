package behaviour

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/purecu/purecu/driver"
)

// A report is a line that a child prints about its case. All other output of the child comes from
// the driver.
type report struct {
	Kind   kind
	Step   string     `json:",omitempty"`
	Answer string     `json:",omitempty"` // as in the table
	Text   string     `json:",omitempty"`
	Driver driverInfo `json:",omitzero"`
}

// A kind says what a report is about.
type kind string

const (
	about   kind = "about"   // describes the driver; comes before the steps
	answer  kind = "answer"  // a step's answer
	dared   kind = "dared"   // the next step is the last, and may end the process
	left    kind = "left"    // a step that is not made on this driver; Text says why
	missing kind = "missing" // this old driver lacks the function of a step
	skipped kind = "skipped" // the case cannot run here; Text says why
	failed  kind = "failed"  // the case could not be set up; Text says why
	ready   kind = "ready"   // this process is ready for the first process
	ended   kind = "ended"   // nothing comes after it
)

// driverInfo decides which rows are asserted.
type driverInfo struct {
	Version  int // as the driver counts
	Software bool
	Cusim    bool // a library in C that is a software driver
}

// reportPrefix marks reports. No driver prints this text.
const reportPrefix = "purecu-behaviour "

// A reporter writes reports.
type reporter struct {
	mu sync.Mutex
	w  io.Writer
}

func (r *reporter) send(rep report) {
	data, err := json.Marshal(rep)
	if err != nil {
		data = fmt.Appendf(nil, `{"Kind":%q,"Text":%q}`, failed, err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Write in one piece, and on a line of its own, whatever the driver has printed.
	fmt.Fprintf(r.w, "\n%s%s\n", reportPrefix, data)
}

// parseReport parses a line. ok is false if the line is not a report.
func parseReport(line []byte) (rep report, ok bool) {
	data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(reportPrefix))
	return rep, ok && json.Unmarshal(data, &rep) == nil
}

// res reports the result of a step.
func (r *reporter) res(step string, res driver.Result) {
	r.send(report{Kind: answer, Step: step, Answer: fmt.Sprint(int(res))})
}

// val reports a value. True counts as 1.
func (r *reporter) val(step string, v any) {
	switch v {
	case true:
		v = 1
	case false:
		v = 0
	}
	r.send(report{Kind: answer, Step: step, Answer: fmt.Sprint("=", v)})
}

// leave reports that a step is not made.
func (r *reporter) leave(step, why string) {
	r.send(report{Kind: left, Step: step, Text: why})
}

// skip ends the process, because the case cannot run here.
func (r *reporter) skip(format string, args ...any) {
	r.send(report{Kind: skipped, Text: fmt.Sprintf(format, args...)})
	os.Exit(0)
}

// fatal ends the process, because something failed that is not a step.
func (r *reporter) fatal(format string, args ...any) {
	r.send(report{Kind: failed, Text: fmt.Sprintf(format, args...)})
	os.Exit(1)
}

// A verdict is the judgement of a case's reports.
type verdict struct {
	errs     []string // what is wrong
	notes    []string // differences and missing steps that are not asserted
	asserted int      // the number of rows that were compared
	skip     string   // why the case could not run here
}

// judge compares the reports of a case with its rows of the table. There must be one report for
// each row, in the same order, and no others.
func judge(rows []row, s suiteName, reports []report) verdict {
	var v verdict
	errorf := func(format string, args ...any) { v.errs = append(v.errs, fmt.Sprintf(format, args...)) }
	var d driverInfo
	var steps []report
	for _, rep := range reports {
		switch rep.Kind {
		case about:
			d = rep.Driver
		case skipped:
			v.skip = rep.Text
		case failed:
			errorf("%s", rep.Text)
		case answer, left, missing:
			steps = append(steps, rep)
		}
	}
	if v.skip != "" {
		if len(steps) > 0 {
			errorf("it was skipped, but not before step %s", steps[0].Step)
		}
		return v
	}
	next := 0
	for _, rep := range steps {
		at := slices.IndexFunc(rows, func(r row) bool { return r.step == rep.Step })
		switch {
		case at < 0:
			errorf("%s is no step of the table: it answered %s", rep.Step, rep.Answer)
			continue
		case at < next:
			errorf("%s comes again, or too late: after %s", rep.Step, rows[next-1].step)
			continue
		}
		if next < at {
			errorf("%s not made before %s", span(rows[next:at]), rep.Step)
		}
		next = at + 1

		r := rows[at]
		want, _ := r.want(s)
		holds := r.holds(s, d)
		switch {
		case rep.Kind == missing:
			v.notes = append(v.notes, fmt.Sprintf("%s: %s", r.step, rep.Text))
		case rep.Kind == left && holds:
			errorf("%s was not made: %s", r.step, rep.Text)
		case rep.Kind == left:
			v.notes = append(v.notes, fmt.Sprintf("%s was not made: %s", r.step, rep.Text))
		case holds:
			v.asserted++
			if rep.Answer != want {
				errorf("%s answered %s, want %s", r.step, spell(rep.Answer), spell(want))
			}
		case r.step == crash:
			v.asserted++ // the driver has returned
			v.notes = append(v.notes, fmt.Sprintf("%s answered %s", r.step, spell(rep.Answer)))
		case rep.Answer != want:
			v.notes = append(v.notes, fmt.Sprintf("%s answered %s, not %s; not asserted: %s", r.step, spell(rep.Answer), spell(want), r.note))
		}
	}
	if next < len(rows) {
		errorf("%s not made", span(rows[next:]))
	}
	return v
}

// span returns the name of consecutive rows.
func span(rows []row) string {
	first, last := rows[0].step, rows[len(rows)-1].step
	switch len(rows) {
	case 1:
		return first + " was"
	case 2:
		return first + " and " + last + " were"
	}
	return fmt.Sprintf("%s to %s, %d steps, were", first, last, len(rows))
}

// spell adds a result's name to its number.
func spell(answer string) string {
	var code driver.Result
	if n, err := fmt.Sscanf(answer, "%d", &code); n == 1 && err == nil && code.Name() != "" {
		return fmt.Sprintf("%s (%s)", answer, code.Name())
	}
	return answer
}
