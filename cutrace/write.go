package cutrace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/purecu/purecu/cu"
)

// The processes of a trace.
const (
	hostProcess = 1
	gpuProcess  = 2
)

// rounding is the largest overlap of two consecutive intervals of a stream that the driver's
// rounding can cause. WriteTo moves such intervals apart.
const rounding = 2 * time.Microsecond

// line is an event of the Trace Event Format, with the fields in the order of the format.
type line struct {
	Name string  `json:"name"`
	Cat  string  `json:"cat,omitempty"`
	Ph   string  `json:"ph"`
	TS   micros  `json:"ts"`
	Dur  *micros `json:"dur,omitempty"`
	PID  int     `json:"pid"`
	TID  int     `json:"tid"`
	ID   int     `json:"id,omitempty"`
	BP   string  `json:"bp,omitempty"`
	Args any     `json:"args,omitempty"`
}

// micros is a time that is written in microseconds with three decimals.
type micros time.Duration

// MarshalJSON returns the number of microseconds.
func (m micros) MarshalJSON() ([]byte, error) {
	b, ns := []byte(nil), int64(m)
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = strconv.AppendInt(b, ns/1000, 10)
	return fmt.Appendf(b, ".%03d", ns%1000), nil
}

// callArgs has what the trace shows about a call of the host besides the call's time.
type callArgs struct {
	Event        uint64 `json:"event,omitempty"`
	EventHandle  string `json:"event_handle,omitempty"`
	Stream       uint64 `json:"stream,omitempty"`
	StreamHandle string `json:"stream_handle,omitempty"`
	Result       string `json:"result,omitempty"`
}

// spanArgs has what the trace shows about an interval. The time is as the driver returned it, even
// if the slice was moved because of the driver's rounding.
type spanArgs struct {
	Stream uint64 `json:"stream"`
	NS     int64  `json:"ns"`
}

// WriteTo writes the trace as JSON in the Trace Event Format, and returns the number of bytes.
// ui.perfetto.dev and chrome://tracing open the format. WriteTo may be called at any time. It
// leaves out intervals that have not ended.
//
// # Content
//
// The process "host" has the calls. Each call is a slice, which has the name of the operation.
// Calls at the same time are on different lanes. The other process is the GPU. It has a lane for
// each stream, and an interval is a slice there. An arrow shows that a stream waited for a record.
// The arrow begins in the last nanosecond of the latest interval that was begun before the record.
// It ends at the interval in which the wait was enqueued. If there is none, it ends at the next
// interval of that stream.
//
// # Times
//
// Times are in microseconds since [Recorder.Origin] on the host's clock, with nanoseconds as
// decimals. Durations are those of [cu.Event.Since]. If the driver's rounding makes a slice overlap
// the previous slice, WriteTo moves it by up to two microseconds. otherData has the values of
// [Recorder.Stats], in nanoseconds.
func (r *Recorder) WriteTo(w io.Writer) (int64, error) {
	if w == nil {
		return 0, fmt.Errorf("cutrace.WriteTo: %w: the io.Writer is nil: pass a file", cu.ErrNil)
	}
	count := &counter{w: w}
	b := bufio.NewWriter(count)
	if err := r.write(b); err != nil {
		return count.n, err
	}
	err := b.Flush()
	return count.n, err
}

// counter counts the bytes that are written to a writer.
type counter struct {
	w io.Writer
	n int64
}

// Write writes to the underlying writer, and counts the bytes.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (r *Recorder) write(b *bufio.Writer) error {
	st := r.Stats()
	device := "GPU"
	if r != nil {
		device = r.device
	}
	other, err := json.Marshal(struct {
		Clock         string `json:"clock"`
		Uncertainty   int64  `json:"uncertainty_ns"`
		Drift         int64  `json:"drift_ns"`
		DroppedCalls  uint64 `json:"dropped_calls"`
		DroppedSpans  uint64 `json:"dropped_spans"`
		DroppedArrows uint64 `json:"dropped_arrows"`
	}{"host, monotonic", int64(st.Uncertainty), int64(st.Drift), st.DroppedCalls, st.DroppedSpans, st.DroppedArrows})
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "{\"displayTimeUnit\":\"ns\",\"otherData\":%s,\"traceEvents\":[", other)
	for i, l := range r.lines(device) {
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(text)
	}
	_, err = b.WriteString("\n]}\n")
	return err
}

// lines returns the events of the trace: first the metadata, then the other events in the order of
// their times.
func (r *Recorder) lines(device string) []line {
	var calls []call
	var spans []span
	var arrows []arrow
	var names map[*lane]string
	if r != nil {
		calls, arrows = r.host.all()
		spans = r.spans.all()
		names = r.host.names(spans)
	}
	t := &lineList{}
	t.addName("process_name", hostProcess, 0, "host")
	t.addName("process_name", gpuProcess, 0, device)
	t.addCalls(calls)
	t.addIntervals(spans, names)
	t.addArrows(spans, arrows)
	slices.SortStableFunc(t.events, func(a, b line) int {
		longer := time.Duration(0)
		if a.Dur != nil && b.Dur != nil {
			longer = time.Duration(*b.Dur - *a.Dur)
		}
		// A slice comes before the arrows and the slices inside it.
		return cmp.Or(cmp.Compare(a.TS, b.TS), cmp.Compare(rank(a), rank(b)), cmp.Compare(longer, 0))
	})
	return append(t.metadata, t.events...)
}

func rank(l line) int {
	if l.Ph == "X" {
		return 0
	}
	return 1
}

// lineList collects the events of a trace.
type lineList struct {
	metadata, events []line
	// tids has the lane of each span.
	tids []int
}

func (t *lineList) addName(name string, pid, tid int, value string) {
	t.metadata = append(t.metadata, line{Name: name, Ph: "M", PID: pid, TID: tid, Args: map[string]string{"name": value}})
}

func (t *lineList) addSortIndex(pid, tid int) {
	t.metadata = append(t.metadata,
		line{Name: "thread_sort_index", Ph: "M", PID: pid, TID: tid, Args: map[string]int{"sort_index": tid}})
}

func slice(name, cat string, pid, tid int, at, took time.Duration, args any) line {
	dur := micros(took)
	return line{Name: name, Cat: cat, Ph: "X", TS: micros(at), Dur: &dur, PID: pid, TID: tid, Args: args}
}

func hex(h uintptr) string {
	if h == 0 {
		return ""
	}
	return "0x" + strconv.FormatUint(uint64(h), 16)
}

// addCalls adds the calls.
func (t *lineList) addCalls(calls []call) {
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Compare(a.start, b.start) })
	var ends []time.Duration // the end of the last call on each lane
	for _, c := range calls {
		tid := slices.IndexFunc(ends, func(end time.Duration) bool { return end <= c.start })
		if tid < 0 {
			tid = len(ends)
			ends = append(ends, 0)
			t.addName("thread_name", hostProcess, tid+1, fmt.Sprintf("host %d", tid+1))
			t.addSortIndex(hostProcess, tid+1)
		}
		ends[tid] = c.start + c.took
		args := callArgs{c.event, hex(c.eventH), c.stream, hex(c.strmH), ""}
		if c.result != cu.ResultSuccess {
			args.Result = c.result.Name()
		}
		t.events = append(t.events, slice(c.op.String(), "host", hostProcess, tid+1, c.start, c.took, args))
	}
}

// addIntervals adds the intervals. It moves intervals that overlap because of the driver's
// rounding.
func (t *lineList) addIntervals(spans []span, names map[*lane]string) {
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.lane.id, b.lane.id), cmp.Compare(a.start, b.start), cmp.Compare(b.dur, a.dur))
	})
	tid := 0
	for i := 0; i < len(spans); {
		j := i
		for j < len(spans) && spans[j].lane == spans[i].lane {
			j++
		}
		var lanes [][]time.Duration // the ends of each lane's open intervals, outermost first
		for k := i; k < j; k++ {
			sp := &spans[k]
			n := 0
			for ; n < len(lanes); n++ {
				if open, ok := fit(lanes[n], sp); ok {
					lanes[n] = open
					break
				}
			}
			if n == len(lanes) {
				lanes = append(lanes, []time.Duration{sp.start + sp.dur})
				name := names[sp.lane]
				if n > 0 { // the spans of several goroutines may overlap
					name = fmt.Sprintf("%s (%d)", name, n+1)
				}
				t.addName("thread_name", gpuProcess, tid+n+1, name)
				t.addSortIndex(gpuProcess, tid+n+1)
			}
			t.tids = append(t.tids, tid+n+1)
			t.events = append(t.events,
				slice(sp.name, "gpu", gpuProcess, tid+n+1, sp.start, sp.dur, spanArgs{sp.lane.id, int64(sp.dur)}))
		}
		tid += len(lanes)
		i = j
	}
}

// fit puts an interval on a lane, if the interval comes after the open intervals of the lane or
// lies within one of them.
func fit(open []time.Duration, sp *span) ([]time.Duration, bool) {
	start := sp.start
	for len(open) > 0 {
		last := open[len(open)-1]
		if start+sp.dur <= last {
			break // the interval lies within, or is short
		}
		if start+rounding < last { // the intervals overlap
			if over := start + sp.dur - last; over > rounding {
				return nil, false
			}
			start = last - sp.dur // both intervals end together
			break
		}
		start = max(start, last)
		open = open[:len(open)-1]
	}
	sp.start = start
	return append(slices.Clone(open), start+sp.dur), true
}

// laneOrder has the intervals of a stream in the order of their beginnings, as indexes of spans.
type laneOrder struct {
	spans []span
	list  []int
	// last has, for each interval of the list, the latest end of that interval and all before it.
	last []uint64
}

func (o *laneOrder) sort() {
	slices.SortFunc(o.list, func(a, b int) int { return cmp.Compare(o.spans[a].begin, o.spans[b].begin) })
	end := uint64(0)
	for _, i := range o.list {
		end = max(end, o.spans[i].end)
		o.last = append(o.last, end)
	}
}

// next returns the index in the list of the first interval that began after seq.
func (o *laneOrder) next(seq uint64) int {
	n, _ := slices.BinarySearchFunc(o.list, seq,
		func(i int, seq uint64) int { return cmp.Compare(o.spans[i].begin, seq) })
	return n
}

// before returns the last interval that began before seq, or -1.
func (o *laneOrder) before(seq uint64) int {
	if o == nil {
		return -1
	}
	if n := o.next(seq); n > 0 {
		return o.list[n-1]
	}
	return -1
}

// at returns the innermost interval that was open at seq, or the next interval, or -1.
func (o *laneOrder) at(seq uint64) int {
	if o == nil {
		return -1
	}
	n := o.next(seq)
	for i := n - 1; i >= 0 && o.last[i] > seq; i-- {
		if o.spans[o.list[i]].end > seq {
			return o.list[i]
		}
	}
	if n < len(o.list) {
		return o.list[n]
	}
	return -1
}

// arrowEnd is the time between the beginning of an arrow and the end of its slice.
const arrowEnd = time.Nanosecond

// addArrows adds the arrows between intervals.
func (t *lineList) addArrows(spans []span, arrows []arrow) {
	lanes := make(map[*lane]*laneOrder)
	for i, sp := range spans {
		if sp.begin == 0 {
			continue // an interval between events of the program
		}
		if lanes[sp.lane] == nil {
			lanes[sp.lane] = &laneOrder{spans: spans}
		}
		lanes[sp.lane].list = append(lanes[sp.lane].list, i)
	}
	for _, o := range lanes {
		o.sort()
	}
	id := 0
	for _, a := range arrows {
		from, to := lanes[a.from.lane].before(a.from.seq), lanes[a.to.lane].at(a.to.seq)
		if from < 0 || to < 0 {
			continue // no interval was measured there
		}
		src, dst := &spans[from], &spans[to]
		begin := src.start + max(0, src.dur-arrowEnd)
		end := dst.start
		if end < begin && dst.start+dst.dur >= begin { // the wait is within the interval
			end = begin
		}
		if end < begin {
			begin = max(src.start, end) // because of the driver's rounding
		}
		if end < begin {
			continue
		}
		id++
		for i, at := range []time.Duration{begin, end} {
			l := line{Name: "wait", Cat: "gpu", Ph: "s", TS: micros(at), PID: gpuProcess, TID: t.tids[from], ID: id}
			if i == 1 {
				l.Ph, l.BP, l.TID = "f", "e", t.tids[to]
			}
			t.events = append(t.events, l)
		}
	}
}
