package green_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// counts returns how many multiprocessors there are.
func counts(sms []green.SMResource) (n []int) {
	for _, r := range sms {
		n = append(n, r.Count())
	}
	return n
}

// TestSMGroups splits multiprocessors into groups, and refuses what no GPU allows.
func TestSMGroups(t *testing.T) {
	r := NewSoft(t, cusim.Version(13010))
	dev := r.GPU.Device()
	all := Need(green.DeviceSMs(dev))(t)
	parts, rest, err := all.SplitGroups(green.SMGroup{Count: 48, PreferredCoscheduled: 16},
		green.SMGroup{Count: 30, Backfill: true}, green.SMGroup{Coscheduled: 16})
	r.OK(err)
	if got := counts(append(parts, rest)); !slices.Equal(got, []int{48, 30, 48, 6}) {
		t.Fatalf("the parts and the rest have %d multiprocessors", got)
	}
	if parts[0].Device() != dev || rest.Device() != dev {
		t.Error("the parts are of another device")
	}
	g := Need(green.New(r.GPU, parts[0], parts[1], rest))(t)
	if n := Need(g.SMs())(t).Count(); n != 84 {
		t.Errorf("the green context has %d multiprocessors", n)
	}
	_, err = green.New(r.GPU, parts[0], parts[2]) // with sets of different sizes
	r.Is(err, ResultInvalidResourceConfiguration)

	// The rest can be split into groups again, and a part through its green context.
	again, none, err := rest.SplitGroups(green.SMGroup{Coscheduled: 2, Backfill: true})
	r.OK(err)
	if !slices.Equal(counts(again), []int{6}) || none.Count() != 0 || none.Device() != nil {
		t.Errorf("the rest became %d, and %d are left", counts(again), none.Count())
	}
	its := Need(g.SMs())(t)
	half, _, err := its.SplitGroups(green.SMGroup{Count: 40})
	r.OK(err)
	if half[0].Count() != 40 {
		t.Errorf("the part has %d multiprocessors", half[0].Count())
	}
	_, _, err = rest.Split(2)
	r.Is(err, ResultInvalidResourceConfiguration)
	_, left, err := all.Split(16)
	r.OK(err)
	for name, part := range map[string]green.SMResource{
		"a part": parts[0], "a part of the rest": again[0], "what Split has left": left,
	} {
		_, _, err := part.SplitGroups(green.SMGroup{})
		if !errors.Is(err, ResultInvalidResourceConfiguration) || !errors.Is(err, drivercall.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.OK(g.Close())
	_, _, err = its.SplitGroups(green.SMGroup{})
	r.Is(err, ErrClosed)
	_, err = green.New(r.GPU, half[0])
	r.Is(err, ErrClosed)
	_, _, err = green.SMResource{}.SplitGroups(green.SMGroup{})
	r.Is(err, ErrNil)

	r.Sim.Inject(cusim.Fault{Function: "cuDevSmResourceSplit", Code: int(ResultOutOfMemory)})
	_, _, err = all.SplitGroups(green.SMGroup{})
	r.Is(err, ResultOutOfMemory)
	r.Sim.ClearFaults()
	_, _, err = all.SplitGroups(green.SMGroup{Coscheduled: 64}) // only the driver knows the largest size
	r.Is(err, ResultInvalidValue)
	if errors.Is(err, drivercall.ErrInvalid) {
		t.Errorf("%v was found before the call", err)
	}
	_, _, err = all.SplitGroups(green.SMGroup{Count: 128}, green.SMGroup{}) // no set is left
	r.Is(err, ResultInvalidResourceConfiguration)
	if errors.Is(err, drivercall.ErrInvalid) || !strings.Contains(err.Error(), "Backfill") {
		t.Errorf("%v does not come from the driver, or does not say what to do", err)
	}
}

// TestSMGroupMistakes passes wrong groups. The driver is not asked.
func TestSMGroupMistakes(t *testing.T) {
	r := NewSoft(t, cusim.Version(13010))
	all := Need(green.DeviceSMs(r.GPU.Device()))(t)
	r.Sim.Inject(cusim.Fault{Function: "cuDevSmResourceSplit", Code: int(ResultUnknown)})
	for _, c := range []struct {
		groups []green.SMGroup
		want   Result
		text   string
	}{
		{nil, ResultInvalidValue, "there are no groups"},
		{[]green.SMGroup{{Count: -2}}, ResultInvalidValue, "SMGroup 1 of 1: Count is -2"},
		{[]green.SMGroup{{}, {Count: 7, Backfill: true}}, ResultInvalidValue,
			"SMGroup 2 of 2: Count is 7, and has to be an even number of at most 132"},
		{[]green.SMGroup{{Count: 134}}, ResultInvalidValue, "Count is 134"},
		{[]green.SMGroup{{Count: math.MaxInt}}, ResultInvalidValue, "Count is"},
		{[]green.SMGroup{{Coscheduled: -2}}, ResultInvalidValue, "Coscheduled is -2"},
		{[]green.SMGroup{{Coscheduled: 5}}, ResultInvalidValue, "Coscheduled is 5"},
		{[]green.SMGroup{{Coscheduled: 1 << 32}}, ResultInvalidValue, "Coscheduled is"},
		{[]green.SMGroup{{PreferredCoscheduled: -4}}, ResultInvalidValue, "PreferredCoscheduled is -4"},
		{[]green.SMGroup{{PreferredCoscheduled: 3}}, ResultInvalidValue, "PreferredCoscheduled is 3"},
		{[]green.SMGroup{{PreferredCoscheduled: 1 << 32}}, ResultInvalidValue, "PreferredCoscheduled is"},
		{[]green.SMGroup{{Coscheduled: 4, PreferredCoscheduled: 6}}, ResultInvalidValue, "a multiple of Coscheduled"},
		{[]green.SMGroup{{Count: 12, Coscheduled: 8}}, ResultInvalidValue, "a multiple of Coscheduled, 8, without Backfill"},
		{[]green.SMGroup{{Count: 4, Coscheduled: 8, Backfill: true}}, ResultInvalidValue, "at least Coscheduled, 8"},
		{[]green.SMGroup{{Count: 72}, {Count: 72}, {}}, ResultInvalidResourceConfiguration,
			"the first 2 groups have 144 multiprocessors, and there are 132"},
		{[]green.SMGroup{{Backfill: true}, {}}, ResultInvalidResourceConfiguration,
			"SMGroup 1 of 2 has all that is left: make it the last one"},
	} {
		_, _, err := all.SplitGroups(c.groups...)
		if !errors.Is(err, c.want) || !errors.Is(err, drivercall.ErrInvalid) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v", c.groups, err)
		}
	}
}

// TestStreamSMResource asks streams where their kernels run.
func TestStreamSMResource(t *testing.T) {
	r := NewSoft(t, cusim.Version(13010))
	dev := r.GPU.Device()
	parts, _, err := Need(green.DeviceSMs(dev))(t).SplitGroups(green.SMGroup{Count: 32})
	r.OK(err)
	g := Need(green.New(r.GPU, parts[0]))(t)
	s := Need(g.NewStream(0))(t)
	legacy := Need(r.GPU.LegacyStream())(t)
	shared := Need(r.GPU.PoolStream(0))(t)
	for _, c := range []struct {
		s    *Stream
		want int
	}{{s, 32}, {r.Stream(), 132}, {legacy, 132}, {shared, 132}} {
		if its := Need(green.StreamSMs(c.s))(t); its.Count() != c.want || its.Device() != dev {
			t.Errorf("%d multiprocessors of %v, want %d", its.Count(), its.Device(), c.want)
		}
	}
	r.OK(r.GPU.Do(func(th *Thread) error {
		own, err := th.DefaultStream()
		if err != nil {
			return err
		}
		its, err := green.StreamSMs(own)
		if its.Count() != 132 {
			t.Errorf("the thread's stream has %d multiprocessors", its.Count())
		}
		return errors.Join(err, own.Close())
	}))
	its := Need(green.StreamSMs(s))(t)
	half := Need(green.New(r.GPU, Need2(its.SplitGroups(green.SMGroup{Count: 16}))(t)...))(t)
	r.OK(half.Close())
	r.OK(g.Close()) // the stream keeps it
	late := Need(green.StreamSMs(s))(t)
	if late.Count() != 32 {
		t.Errorf("%d multiprocessors after Close, want 32", late.Count())
	}
	for _, sms := range []green.SMResource{its, late} {
		_, _, err := sms.SplitGroups(green.SMGroup{})
		r.Is(err, ErrClosed)
		_, err = green.New(r.GPU, sms)
		r.Is(err, ErrClosed)
	}
	r.Sim.Inject(cusim.Fault{Function: "cuStreamGetDevResource", Code: int(ResultOutOfMemory)})
	_, err = green.StreamSMs(s)
	r.Is(err, ResultOutOfMemory)
	r.Sim.ClearFaults()
	r.OK(s.Close())
	_, err = green.StreamSMs(s)
	r.Is(err, ErrClosed)
	_, err = green.StreamSMs((*Stream)(nil))
	r.Is(err, ErrNil)
}

// TestSMGroupsMissing uses older drivers.
func TestSMGroupsMissing(t *testing.T) {
	r := NewSoft(t, cusim.Version(13000))
	_, _, err := Need(green.DeviceSMs(r.GPU.Device()))(t).SplitGroups(green.SMGroup{Count: 8})
	for symbol, err := range map[string]error{
		"cuDevSmResourceSplit": err, "cuStreamGetDevResource": ErrorOf(green.StreamSMs(r.Stream())),
	} {
		noSMGroups(t, err, symbol, 13000)
	}
}

// noSMGroups checks the error of a driver that is too old.
func noSMGroups(t *testing.T, err error, symbol string, have int) {
	t.Helper()
	m := (*MissingError)(nil)
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, ResultNotSupported) || !errors.As(err, &m) ||
		m.Symbol != symbol || m.Since != 13010 || m.Driver != have {
		t.Errorf("%v does not say what is missing", err)
	}
}

// TestGPUSMGroups splits multiprocessors into groups, if the driver knows them.
func TestGPUSMGroups(t *testing.T) {
	gpu := GPUContext(t)
	if v := Need(gpu.Device().Driver().Version())(t); v < 13010 {
		_, _, err := Need(green.DeviceSMs(gpu.Device()))(t).SplitGroups(green.SMGroup{Count: 8})
		noSMGroups(t, err, "cuDevSmResourceSplit", int(v))
		s := Need(gpu.NewStream(StreamNonBlocking))(t)
		defer CloseIt(t, s)
		noSMGroups(t, ErrorOf(green.StreamSMs(s)), "cuStreamGetDevResource", int(v))
		return
	}
	useSMGroups(t, gpu)
}

// TestUseSMGroups does what TestGPUSMGroups does on a newer driver.
func TestUseSMGroups(t *testing.T) { useSMGroups(t, NewSoft(t, cusim.Version(13010)).GPU) }

// useSMGroups makes splits that each GPU allows, and green contexts of the parts.
func useSMGroups(t *testing.T, gpu *Context) {
	all := Need(green.DeviceSMs(gpu.Device()))(t)
	ten := green.SMGroup{Count: 10, Coscheduled: 2}
	parts, rest, err := all.SplitGroups(ten, green.SMGroup{Coscheduled: 2, Backfill: true})
	got := counts(append(parts, rest))
	if err != nil || len(parts) != 2 || got[0] != 10 || got[0]+got[1]+got[2] != all.Count() {
		t.Fatalf("the parts and the rest have %d multiprocessors: %v", got, err)
	}
	for _, part := range parts {
		g := Need(green.New(gpu, part))(t)
		s := Need(g.NewStream(0))(t)
		if n := Need(green.StreamSMs(s))(t).Count(); n != part.Count() {
			t.Errorf("a stream has %d multiprocessors, want %d", n, part.Count())
		}
		if err := s.Synchronize(); err != nil {
			t.Error(err)
		}
		CloseIt(t, s)
		CloseIt(t, g)
	}
	_, rest, err = all.SplitGroups(ten)
	if err != nil || rest.Count() != all.Count()-10 {
		t.Fatalf("%d are left: %v", rest.Count(), err)
	}
	if again, _, err := rest.SplitGroups(ten); err != nil || again[0].Count() != 10 {
		t.Errorf("the rest became %d: %v", counts(again), err)
	}
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer CloseIt(t, s)
	if n := Need(green.StreamSMs(s))(t).Count(); n != all.Count() {
		t.Errorf("a stream of the primary context has %d multiprocessors, want %d", n, all.Count())
	}
}
