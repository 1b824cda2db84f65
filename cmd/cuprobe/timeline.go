package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// lane is a stream in a timeline.
type lane struct {
	Name string `json:"name"`
	// Spans are the parts of the lane, in order.
	Spans []span `json:"spans"`
}

// span is a part of a lane.
type span struct {
	// Name is the name of the kernel, or "" for a wait.
	Name string `json:"name"`
	// From and To are counted from the beginning of the timeline.
	From time.Duration `json:"fromNS"`
	To   time.Duration `json:"toNS"`
	// Waiting marks a span in which the stream waited for another stream.
	Waiting bool `json:"waiting"`
}

// link is an arrow from one lane to the next.
type link struct {
	from, to time.Duration
	text     string
}

// labelWidth is the width of a timeline's first column.
const labelWidth = 10

// timeline draws lanes below each other, to scale, in lines of at most width columns. There is at
// most one link between two neighbouring lanes.
func timeline(width int, lanes []lane, links []link) []string {
	var end time.Duration
	for _, l := range lanes {
		for _, s := range l.Spans {
			end = max(end, s.To)
		}
	}
	if end <= 0 {
		return nil
	}
	width = max(width, labelWidth+20) - labelWidth
	column := func(t time.Duration) int { // the end is at column width
		return int(math.Round(float64(max(0, min(t, end))) / float64(end) * float64(width)))
	}
	lines := ruler(width, end)
	for i, l := range lanes {
		lines = append(lines, label(l.Name)+drawLane(width, l, column))
		if i < len(links) && i+1 < len(lanes) {
			lines = append(lines, drawLink(width, links[i], column)...)
		}
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// label returns a name that fills the first column.
func label(name string) string {
	return fmt.Sprintf("%-*.*s", labelWidth, labelWidth-1, name)
}

// ruler returns the two lines of the scale.
func ruler(width int, end time.Duration) []string {
	unit, name := time.Nanosecond, "ns"
	switch {
	case end >= 2*time.Second:
		unit, name = time.Second, "s"
	case end >= 2*time.Millisecond:
		unit, name = time.Millisecond, "ms"
	case end >= 2*time.Microsecond:
		unit, name = time.Microsecond, "us"
	}
	step := tick(end, width)
	numbers, marks := blank(width), []byte(strings.Repeat("-", width))
	for t := time.Duration(0); t <= end; t += step {
		x := int(math.Round(float64(t) / float64(end) * float64(width)))
		if x < width {
			marks[x] = '|'
		}
		n := strconv.FormatFloat(float64(t)/float64(unit), 'f', -1, 64)
		if x+len(n) <= width {
			copy(numbers[x:], n)
		}
	}
	return []string{label(name) + string(numbers), label("") + string(marks)}
}

// tick returns the smallest of 1, 2, 5, 10, … for which each mark of the scale has room for its
// number.
func tick(end time.Duration, width int) time.Duration {
	const room = 8
	for step := time.Duration(1); ; step *= 10 {
		for _, m := range []time.Duration{1, 2, 5} {
			if end/(step*m) <= time.Duration(width/room) {
				return step * m
			}
		}
	}
}

// drawLane draws a lane's spans. The shortest spans are drawn last, so that longer ones do not hide
// them.
func drawLane(width int, l lane, column func(time.Duration) int) string {
	line := blank(width)
	var short []span
	for _, s := range l.Spans {
		a, b := column(s.From), column(s.To)
		if b-a < 3 {
			short = append(short, s)
			continue
		}
		copy(line[a:b], bar(b-a, s))
	}
	for _, s := range short {
		a := min(column(s.From), width-1)
		b := min(max(column(s.To), a+1), width)
		copy(line[a:b], strings.Repeat(s.letter(), b-a))
	}
	return string(line)
}

// letter returns the letter for a span that has no room for more.
func (s span) letter() string {
	switch {
	case s.Waiting:
		return "."
	case s.Name == "":
		return "="
	}
	return s.Name[:1]
}

// bar draws a span in n columns, at least 3.
func bar(n int, s span) string {
	begin, fill, end := "[", "=", "]"
	length := roundDuration(s.To-s.From, 3)
	texts := []string{" " + s.Name + " " + length + " ", " " + s.Name + " ", s.letter()}
	if s.Waiting {
		begin, fill, end = ".", ".", "."
		texts = []string{" waits " + length + " ", " waits ", "."}
	}
	for _, text := range texts {
		if room := n - 2 - len(text); room >= 2 || (room >= 0 && len(text) == 1) {
			return begin + strings.Repeat(fill, room/2) + text + strings.Repeat(fill, room-room/2) + end
		}
	}
	return strings.Repeat(s.letter(), n)
}

// drawLink draws an arrow to the next lane, with its text.
func drawLink(width int, l link, column func(time.Duration) int) []string {
	from, to := min(column(l.from), width-1), min(column(l.to), width-1)
	first, second := blank(width), blank(width)
	first[from] = '|'
	for x := min(from, to); x <= max(from, to); x++ {
		second[x] = '-'
	}
	second[from], second[to] = '+', 'v'
	left, right := min(from, to), max(from, to)
	switch n := len(l.text); {
	case right+2+n <= width:
		copy(second[right+2:], l.text)
	case left-2-n >= 0:
		copy(second[left-1-n:], l.text)
	}
	return []string{label("") + string(first), label("") + string(second)}
}

func blank(n int) []byte { return []byte(strings.Repeat(" ", n)) }
