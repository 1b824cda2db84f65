package cu_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

func TestParseLog(t *testing.T) {
	const old = "[22:21:32.099][25642][CUDA][E]"
	for _, tt := range []struct {
		name, log string
		want      []drivercall.LogEntry
	}{
		{"empty", "", nil},
		{"a function in brackets", old + "[cuLogsDumpToMemory] buffer cannot be NULL\n",
			[]drivercall.LogEntry{{Op: "cuLogsDumpToMemory", Code: 0, Text: "buffer cannot be NULL"}}},
		{"a last line with the function", old + " buffer cannot be NULL\n" + old +
			" Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemAlloc_v2\n",
			[]drivercall.LogEntry{{Op: "cuMemAlloc", Code: 1, Text: "buffer cannot be NULL"}}},
		{"two messages", old + " one\n" + old + " two\n" + old + " Returning 1 (X) from cuA_v3_ptsz\n",
			[]drivercall.LogEntry{{Op: "cuA", Code: 1, Text: "one; two"}}},
		{"two threads", "[t][1][CUDA][E] of one\n[t][2][CUDA][E] of two\n[t][1][CUDA][E] Returning 1 (X) from cuOne\n[t][2][CUDA][E] Returning 2 (Y) from cuTwo\n",
			[]drivercall.LogEntry{{Op: "cuOne", Code: 1, Text: "of one"}, {Op: "cuTwo", Code: 2, Text: "of two"}}},
		{"what the machine lacks", "[t][1][cusim][E] no files\n[t][1][cusim][E] Returning 2 (X) from cuA\n" + old +
			" buffer cannot be NULL\n",
			[]drivercall.LogEntry{{Op: "cuA", Code: 2, Text: "no files", Whole: true}, {Text: "buffer cannot be NULL"}}},
		{"no function", old + " something\n", []drivercall.LogEntry{{Text: "something"}}},
		{"a warning in brackets", "[t][1][CUDA][W] [x] y\n", []drivercall.LogEntry{{Text: "[x] y"}}},
		{"other lines", "logs were lost\n[\n[a\n[a]\n\n", nil},
		{"no number", old + " Returning from a trip\n", []drivercall.LogEntry{{Text: "Returning from a trip"}}},
		{"a long number", old + " Returning 99999999999 (X) from cuA\n",
			[]drivercall.LogEntry{{Text: "Returning 99999999999 (X) from cuA"}}},
	} {
		if diff := cmp.Diff(tt.want, drivercall.ParseLog(tt.log), cmp.AllowUnexported(drivercall.LogEntry{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestDriverLogLong checks that a long text becomes a short one, with its beginning and its end.
func TestDriverLogLong(t *testing.T) {
	sim := cusim.New(cusim.Faults(cusim.Fault{Function: "cuDeviceGetCount", Code: 2, Log: "begin" +
		strings.Repeat("ä", 10000) + "end"}))
	_, err := Need(Open(WithSoftware(sim)))(t).DeviceCount()
	if s := fmt.Sprint(err); len(s) > 2*drivercall.MaxExplanation || !strings.Contains(s, "says: beginää") ||
		!strings.HasSuffix(s, "ääend") || !utf8.ValidString(s) {
		t.Errorf("%d bytes: %v", len(s), err)
	}
}

// TestDriverLog checks that errors have what the driver's log says, and each only what concerns it.
func TestDriverLog(t *testing.T) {
	sim := cusim.New(cusim.VirtualTime())
	drv, err := Open(WithSoftware(sim))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close()
	sim.Inject(cusim.Fault{Function: "cuMemGetInfo", Code: 2, Log: "the pool is empty"})
	sim.Inject(cusim.Fault{Function: "cuMemGetInfo", Nth: 2, Code: 2}) // the driver says nothing
	const says = "the driver's log says: the pool is empty"
	for _, want := range []bool{true, false} {
		_, _, err := gpu.MemInfo()
		var e *Error
		if !errors.As(err, &e) || strings.HasSuffix(e.Detail, "; "+says) != want ||
			strings.Contains(e.Detail, "log says") != want {
			t.Errorf("%v; want the log: %v", err, want)
		}
	}

	// Two functions fail at the same time.
	sim.Inject(cusim.Fault{Function: "cuMemGetInfo", Every: true, Code: 2, Log: "size"})
	sim.Inject(cusim.Fault{Function: "cuDeviceGetCount", Every: true, Code: 2, Log: "count"})
	var wg sync.WaitGroup
	results := make(chan error, 100)
	for range 4 {
		wg.Go(func() {
			for range 100 {
				_, _, aerr := gpu.MemInfo()
				_, serr := drv.DeviceCount()
				if aerr == nil || serr == nil || !strings.HasSuffix(aerr.Error(), "says: size") ||
					!strings.HasSuffix(serr.Error(), "says: count") {
					select {
					case results <- fmt.Errorf("%v\n%v", aerr, serr):
					default:
					}
				}
			}
		})
	}
	wg.Wait()
	close(results)
	for err := range results {
		t.Fatal(err)
	}
	if n := len(core.Of(drv).Log.Kept); n != 0 {
		t.Errorf("%d entries are left: %v", n, core.Of(drv).Log.Kept)
	}

	// Lines that nobody has asked for in time are of no error.
	core.Of(drv).Log.Kept = []drivercall.LogEntry{{Op: "cuMemGetInfo", Text: "old", Read: core.Of(drv).Table().Clock().Now()}}
	sim.ClearFaults()
	sim.Inject(cusim.Fault{Function: "cuMemGetInfo", Code: 2})
	sim.Advance(2 * drivercall.KeptFor)
	if _, _, err := gpu.MemInfo(); err == nil || strings.Contains(err.Error(), "log") {
		t.Errorf("after a while: %v", err)
	}
}

// slowLog is a driver that takes long to read its log, and calls during in the meantime.
type slowLog struct {
	Software driver.Software
	during   func()
}

func (s *slowLog) LogsDumpToMemory(th *driver.Thread, from uint32, b []byte,
	flags uint32) (uint32, uint64, driver.Result) {
	at, n, res := s.Software.LogsDumpToMemory(th, from, b, flags)
	if f := s.during; f != nil {
		s.during = nil
		f()
	}
	return at, n, res
}

// TestDriverLogUnlocked causes an error while the driver reads its log for another one: no lock is held, and both
// errors get their lines.
func TestDriverLogUnlocked(t *testing.T) {
	sim := cusim.New()
	slow := &slowLog{Software: sim.Software()}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(slow)))))(t)
	sim.Inject(cusim.Fault{Function: "cuDeviceGetCount", Code: 2, Log: "first"})
	sim.Inject(cusim.Fault{Function: "cuDeviceGet", Code: 2, Log: "second"})
	var second error
	slow.during = func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, second = drv.Device(0)
		}()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("an error waits until the driver has read its log")
		}
	}
	_, first := drv.DeviceCount()
	if first == nil || !strings.HasSuffix(first.Error(), "says: first") {
		t.Errorf("the first error: %v", first)
	}
	if second == nil || !strings.HasSuffix(second.Error(), "says: second") {
		t.Errorf("the second error: %v", second)
	}
	if n := len(core.Of(drv).Log.Kept); n != 0 {
		t.Errorf("%d entries are left: %v", n, core.Of(drv).Log.Kept)
	}
}

// ownLog is a software driver whose log speaks of what the machine lacks.
type ownLog struct{ Software driver.Software }

func (o *ownLog) LogsDumpToMemory(th *driver.Thread, from uint32, b []byte,
	flags uint32) (uint32, uint64, driver.Result) {
	at, n, res := o.Software.LogsDumpToMemory(th, from, b, flags)
	n = uint64(copy(b, strings.ReplaceAll(string(b[:n]), "[CUDA]", "["+drivercall.OwnSource+"]")))
	return at, n, res
}

// TestDriverLogOwn checks that what the software driver says about the machine replaces the remedy, and nothing else.
func TestDriverLogOwn(t *testing.T) {
	sim := cusim.New()
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(&ownLog{sim.Software()})))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	const text = "no files: raise ulimit -n"
	sim.Inject(cusim.Fault{Function: "cuMemGetInfo", Every: true, Code: 2, Log: text})
	_, _, err := gpu.MemInfo()
	if e := (*Error)(nil); !errors.As(err, &e) || e.Detail != text {
		t.Errorf("in a usable context: %v", err)
	}
	sim.Inject(cusim.Fault{Function: "cuCtxSynchronize", Code: 700})
	if err := gpu.Synchronize(); !errors.Is(err, ErrContextPoisoned) {
		t.Fatal(err)
	}
	_, _, err = gpu.MemInfo()
	if s := fmt.Sprint(err); !strings.Contains(s, "was the first to report it") || !strings.HasSuffix(s, "; "+text) {
		t.Errorf("in a poisoned context: %v", err)
	}
}

// TestDriverLogOfAddAlloc makes sure that the error of an allocation that is tried several times has the log's text.
func TestDriverLogOfAddAlloc(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	defer g.Close()
	r.Sim.Inject(cusim.Fault{Function: "cuGraphAddMemAllocNode", Every: true, Code: 2, Log: "no pages"})
	_, _, err := AddAlloc(g, 64)
	if s := fmt.Sprint(err); !strings.Contains(s, "64 bytes") || !strings.HasSuffix(s, "says: no pages") {
		t.Error(err)
	}
}

// TestDriverLogIsBounded checks that lines that nobody gets are forgotten, and that an old driver
// has no log.
func TestDriverLogIsBounded(t *testing.T) {
	l := &drivercall.DriverLog{}
	for i := range 200 {
		l.Kept = append(l.Kept, drivercall.LogEntry{Op: fmt.Sprint("cu", i)})
	}
	if got := l.Take("cuOther", 1, true); got.Text != "" || len(l.Kept) != 200 {
		t.Errorf("%q, %d", got.Text, len(l.Kept))
	}
	l.Kept = append(l.Kept, drivercall.LogEntry{Text: "anything"})
	if got := l.Take("cuOther", 1, true); got.Text != "the driver's log ends with this, perhaps about another call: anything" {
		t.Error(got.Text)
	}
	drv, err := Open(WithSoftware(cusim.New(cusim.Version(12080),
		cusim.Faults(cusim.Fault{Function: "cuDeviceGetCount", Code: 999, Log: "unseen"}))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := drv.DeviceCount(); err == nil || strings.Contains(err.Error(), "log") || core.Of(drv).Log.Exists {
		t.Errorf("CUDA 12.8: %v", err)
	}
}
