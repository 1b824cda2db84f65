package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/purecu/purecu/loader"
)

//go:embed report.html
var reportHTML string

// nodeReport contains all that cuprobe report has found out.
type nodeReport struct {
	File    string       `json:"file"` // "" for standard output
	Host    string       `json:"host"`
	Created time.Time    `json:"created"`
	Cuprobe *buildReport `json:"cuprobe"`
	// Simulated says that the devices are those of the software driver.
	Simulated bool           `json:"simulated"`
	Doctor    *doctorReport  `json:"doctor"`
	Devices   *devicesReport `json:"devices"`
	Bench     *benchReport   `json:"bench"`
	// Trace is a trace in the Trace Event Format, or nil.
	Trace json.RawMessage `json:"trace"`
	// Missing names the parts that could not be measured, or not completely.
	Missing []skipped `json:"missing"`
}

// MissingLines returns a line for each reason why parts are missing.
func (r *nodeReport) MissingLines() []string {
	var lines []string
	for i := 0; i < len(r.Missing); {
		var names []string
		reason := r.Missing[i].Reason
		for ; i < len(r.Missing) && r.Missing[i].Reason == reason; i++ {
			names = append(names, r.Missing[i].Name)
		}
		lines = append(lines, strings.Join(names, "; ")+": "+reason)
	}
	return lines
}

// simulatedNote says what simulated results are worth.
const simulatedNote = "simulated by purecu's software driver: the devices and their speed are a model's, " +
	"and say nothing about a GPU"

// pageData is what the template shows.
type pageData struct {
	*nodeReport
	SimulatedNote string
	Findings      []loader.Finding
	Facts         string // the doctor's text
	Bandwidths    []*chart
	Latencies     []*chart
	Notes         string // the text below bench's tables
	Timeline      *timelinePlot
	Legend        []legendEntry
}

// legendEntry explains a colour of the timeline.
type legendEntry struct{ Class, Name string }

// page writes the report as HTML. Device names and other texts come from the machine: the template
// escapes them for HTML, and terminal escapes characters that would change the direction of writing.
func (r *nodeReport) page(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"time": func(d time.Duration) string { return unitTime(d) },
		"gib":  gibibytes,
		"rate": func(bytesPerSecond float64) string {
			if bytesPerSecond == 0 {
				return "–"
			}
			return decimal(bytesPerSecond/1e9, 4)
		},
		"size":    size,
		"clock":   func(kHz int) string { return fmt.Sprintf("%.2f GHz", float64(kHz)/1e6) },
		"hints":   hintCodes,
		"unknown": orUnknown,
	}).Parse(reportHTML)
	if err != nil {
		return err
	}
	d, err := r.pageData()
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := t.Execute(&text, d); err != nil {
		return err
	}
	_, err = io.WriteString(terminal{w}, text.String())
	return err
}

// pageData returns what the template shows.
func (r *nodeReport) pageData() (*pageData, error) {
	d := &pageData{nodeReport: r, SimulatedNote: simulatedNote, Legend: []legendEntry{
		{"gpu", "work of the GPU"}, {"launch", "launch"}, {"record", "record"},
		{"order", "order of streams"}, {"other", "other calls"},
	}}
	var facts strings.Builder
	r.Doctor.body(&facts)
	d.Facts = facts.String()
	if r.Doctor.Report != nil {
		d.Findings = r.Doctor.Report.Findings
	} else if r.Doctor.Verdict.Severity != loader.Fine {
		d.Findings = []loader.Finding{r.Doctor.Verdict}
	}
	if r.Bench != nil {
		d.Bandwidths, d.Latencies = r.Bench.bandwidths(), r.Bench.latencies()
		var notes strings.Builder
		r.Bench.textEnd(&notes)
		d.Notes = strings.TrimSpace(notes.String())
	}
	if len(r.Trace) > 0 && string(r.Trace) != "null" {
		var err error
		if d.Timeline, err = drawTrace(r.Trace); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// hintCodes returns the codes of hints.
func hintCodes(hints []hint) string {
	var codes []string
	for _, h := range hints {
		codes = append(codes, h.Code)
	}
	return strings.Join(codes, ", ")
}

// Driver describes the driver in a line.
func (d *pageData) Driver() string {
	switch {
	case d.Doctor.Report != nil && d.Doctor.Report.Library != nil && d.Doctor.Report.Library.Release != "":
		l := d.Doctor.Report.Library
		return fmt.Sprintf("%s, CUDA %d.%d", l.Release, l.Version/1000, l.Version%1000/10)
	case d.Doctor.Driver != nil:
		return d.Doctor.Driver.Library + ", CUDA " + d.Doctor.Driver.CUDA
	}
	return "none"
}

// Data is what the page has as JSON.
func (d *pageData) Data() *nodeReport { return d.nodeReport }

// System describes the operating system in a line.
func (d *pageData) System() string {
	if d.Doctor.Report == nil {
		return d.Cuprobe.Platform
	}
	parts := []string{d.Doctor.Report.Platform}
	for _, part := range []string{d.Doctor.Report.Distribution, d.Doctor.Report.Container} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}

// Program describes cuprobe in a line.
func (d *pageData) Program() string {
	var b strings.Builder
	d.Cuprobe.text(&b)
	return strings.TrimPrefix(strings.TrimSpace(b.String()), "cuprobe ")
}

// Calls returns the rows about calls.
func (r *benchReport) Calls() []*benchRow { return r.ofKind(kindCall) }

// Copies returns the rows about copies.
func (r *benchReport) Copies() []*benchRow { return r.ofKind(kindCopy) }

func (r *benchReport) ofKind(kind string) []*benchRow {
	var rows []*benchRow
	for _, row := range r.Measurements {
		if row.Kind == kind {
			rows = append(rows, row)
		}
	}
	return rows
}
