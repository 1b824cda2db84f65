package main

import (
	"fmt"
	"io"
	"strings"
)

// benchReport contains the results of cuprobe bench.
type benchReport struct {
	Driver  driverInfo   `json:"driver"`
	Devices []deviceInfo `json:"devices"`
	// VirtualTime says that the times are those of the software driver's model.
	VirtualTime  bool           `json:"virtualTime"`
	Measurements []*benchRow    `json:"measurements"`
	Warnings     []benchWarning `json:"warnings"`
	ends
}

func newBenchReport(virtual bool) *benchReport {
	return &benchReport{
		Devices: []deviceInfo{}, VirtualTime: virtual, Measurements: []*benchRow{}, Warnings: []benchWarning{},
		ends: ends{Skipped: []skipped{}},
	}
}

// benchRow is a row of the tables.
type benchRow struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"` // kindCopy or kindCall
	Device int    `json:"device"`
	// Peer is the other device of a copy between devices, Memory the kind of memory on the other
	// side, and Direction the direction: h2d, d2h, peer, or both.
	Peer      *int   `json:"peer,omitempty"`
	Memory    string `json:"memory,omitempty"`
	Direction string `json:"direction,omitempty"`
	// Bytes is the size of all copies that a time of the row is for: of two if they run at the same
	// time.
	Bytes uint64 `json:"bytes,omitempty"`
	// Batch is how often a sample has the work that a time of the row is for.
	Batch int `json:"batch"`
	// Clock is the clock of the times: events or host.
	Clock string `json:"clock"`
	// Time is the time of one copy in each direction, or of one call.
	Time stats `json:"time"`
	// Distribution says more about the times of calls.
	Distribution   []quantile `json:"distribution,omitempty"`
	BytesPerSecond float64    `json:"bytesPerSecond,omitempty"`
	// NotHeld counts the samples that began on the GPU before all their work was enqueued.
	NotHeld int    `json:"notHeld"`
	Hints   []hint `json:"hints"`

	staged bool // the devices cannot access each other's memory
}

// The clocks.
const (
	clockEvents = "events"
	clockHost   = "host"
)

// size returns the size of one copy.
func (r *benchRow) size() uint64 {
	if r.Direction == "both" {
		return r.Bytes / 2
	}
	return r.Bytes
}

// benchWarning says that the state of a device makes all results inaccurate.
type benchWarning struct {
	Device int `json:"device"`
	hint
}

func (r *benchRow) hinted() (string, []hint) { return r.Name, r.Hints }

// head prints the lines above the tables.
func (r *benchReport) head(w io.Writer) {
	r.Driver.text(w)
	for _, d := range r.Devices {
		d.text(w)
	}
	if r.VirtualTime {
		fmt.Fprintln(w, "time     virtual: these are the times of a model, not of a GPU")
	}
}

// head returns the header line of the row's table.
func (r *benchRow) head() string {
	if r.Kind == kindCall {
		return fmt.Sprintf("%-26s %5s %5s %9s %9s", "host, for one call", "n", "calls", "median", "p95")
	}
	return fmt.Sprintf("%-26s %5s %5s %9s %9s %9s", r.Clock+", for one copy", "n", "batch", "median", "p95", "GB/s")
}

// text returns the row's line in the table.
func (r *benchRow) text() string {
	s := r.Time
	line := fmt.Sprintf("%-26s %5d %5d %9s %9s", r.Name, s.Samples, r.Batch, duration(s.Median), duration(s.P95))
	if r.Kind == kindCopy {
		rate := "-"
		if r.BytesPerSecond > 0 {
			rate = decimal(r.BytesPerSecond/1e9, 5)
		}
		line += fmt.Sprintf(" %9s", rate)
	}
	return strings.TrimRight(line+" "+hintMark(r.Hints), " ")
}

// textEnd prints the text below the tables.
func (r *benchReport) textEnd(w io.Writer) {
	for i, warning := range r.Warnings {
		if i == 0 {
			fmt.Fprintln(w)
		}
		text := fmt.Sprintf("warning  device %d, %s: %s", warning.Device, warning.Code, warning.Text)
		fmt.Fprintln(w, strings.Join(wrap(text, "         ", 80), "\n"))
	}
	r.ends.text(w, explainHints(r.Measurements, 80))
}
