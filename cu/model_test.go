package cu_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

var (
	modelOps  = flag.Int("model.ops", 0, "`operations` of TestHandleModel: 0 means 200,000, or 20,000 with -short or under the race detector")
	modelSeed = flag.Uint64("model.seed", 0, "`seed` of TestHandleModel: 0 picks one")
)

// TestHandleModel does random things to shared objects from many goroutines.
// The fake driver aborts the process where NVIDIA's would crash; the answers
// are compared with what a model says is possible; and in the end nothing may
// be left, in the driver or here.
func TestHandleModel(t *testing.T) {
	ops := *modelOps
	if ops == 0 {
		ops = Fewer(200_000)
	}
	seed := *modelSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	m := &model{fake: newFake(t), ops: ops}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to try again: -model.ops=%d -model.seed=%d", ops, seed)
		}
	})
	m.run(seed)
	t.Logf("%d operations: %s", ops, m.summary())
}

const modelGoroutines = 64

// model is the shared world: cells that hold objects, open and closed.
type model struct {
	*fake
	ops      int
	drv      *Driver
	contexts [6]atomic.Pointer[modelContext]
	streams  [16]atomic.Pointer[modelStream]
	events   [48]atomic.Pointer[modelEvent]
	modules  [4]atomic.Pointer[modelModule]
	memories [8]atomic.Pointer[modelMemory]

	// What another driver has. Nothing of it mixes.
	strangers struct {
		gpu *Context
		s   *Stream
		e   *Event
	}

	held     chan *modelGate // to be released soon
	faults   atomic.Bool     // whether calls may fail
	failures atomic.Int32

	counts    [modelCounts]atomic.Int64
	abandoned sync.Map // *atomic.Int64 by kind of object
}

// What the model counts, to show that it goes everywhere.
const (
	countComplete = iota
	countPending
	countClosed
	countMismatch
	countFault
	countCancelled
	countTicket
	countChecked // answers that only one status could be
	countReleased
	modelCounts
)

func (m *model) summary() string {
	n := func(i int) int64 { return m.counts[i].Load() }
	return fmt.Sprintf("%d complete, %d pending, %d certain; %d closed, %d mismatched, %d faults, %d waits ended early, %d tickets; %d events, %d contexts destroyed",
		n(countComplete), n(countPending), n(countChecked), n(countClosed), n(countMismatch), n(countFault), n(countCancelled), n(countTicket),
		m.ask("fake_destroyed", kindEvent), m.ask("fake_destroyed", kindContext))
}

// modelLife is what is known about whether an object is closed.
type modelLife struct {
	closing atomic.Bool // somebody has begun to close it
	closed  atomic.Bool // a Close has returned
}

// close closes an object. It reports whether nobody did so before.
func (l *modelLife) close(f func() error) (first bool, err error) {
	first = l.closing.CompareAndSwap(false, true)
	err = f()
	l.closed.Store(true)
	return first, err
}

type modelContext struct {
	*modelLife
	c      *Context
	device int
}

type modelStream struct {
	*modelLife
	s      *Stream
	device int
	gate   *modelGate
}

type modelModule struct {
	*modelLife
	m      *Module
	noop   *Function
	axpy   *Function
	device int
}

type modelMemory struct {
	*modelLife
	m      *DeviceMem
	device int
}

// modelEvent is an event and, if it is tracked, what is known about its newest
// record. Where it has moved to the life is the same.
type modelEvent struct {
	*modelLife
	e       *Event
	device  int // -1 if it is not known
	timed   bool
	tracked bool
	created bool        // it has a CUevent, unless it has moved away
	shared  bool        // it was made for several processes
	moved   atomic.Bool // it moves, and may be a zero Event by now

	mu     sync.Mutex
	begun  int // records begun
	flying int // records under way
	alone  bool
	known  bool // whether record is the newest one
	record modelRecord
}

// modelGate says when records on a stream can be complete. Each hold is
// followed by one release.
type modelGate struct {
	raw                                    uintptr
	busy                                   atomic.Bool
	holdBegun, holdDone, relBegun, relDone atomic.Uint64
}

// modelRecord is a record of an event. The zero modelRecord is none, which is
// complete.
type modelRecord struct {
	gate *modelGate
	// pendingUntil is the release that has to begin before the record can be
	// complete, 0 if there is none; completeFrom the one that has to end before
	// it must be.
	pendingUntil, completeFrom uint64
}

// canBeComplete and mustBeComplete tell the record's state at the time of the
// call.
func (r modelRecord) canBeComplete() bool {
	return r.gate == nil || r.gate.relBegun.Load() >= r.pendingUntil
}

func (r modelRecord) mustBeComplete() bool {
	return r.gate == nil || r.gate.relDone.Load() >= r.completeFrom
}

// observe makes a record on a stream and returns what is known about it.
func (g *modelGate) observe(record func() error) (modelRecord, error) {
	held, released := g.holdDone.Load(), g.relBegun.Load()
	err := record()
	r := modelRecord{gate: g}
	if held > released && g.relBegun.Load() == released {
		r.pendingUntil = released + 1
	}
	r.completeFrom = g.holdBegun.Load()
	return r, err
}

// beginRecord and endRecord stand around a record.
func (e *modelEvent) beginRecord() {
	if !e.tracked {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun++
	e.flying++
	e.alone = e.flying == 1
}

func (e *modelEvent) endRecord(r modelRecord, err error) {
	if !e.tracked {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flying--
	switch {
	case !e.alone:
		e.known = false // nobody knows which came last
	case err == nil:
		e.known, e.record = true, r
	}
}

// peek returns the newest record, if it is known, and a stamp: if that is the
// same later there was no other record meanwhile.
func (e *modelEvent) peek() (r modelRecord, stamp int, ok bool) {
	if !e.tracked || e.moved.Load() {
		return r, 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.record, e.begun, e.known && e.flying == 0
}

// actor is one goroutine of the model.
type actor struct {
	*model
	*rand.Rand
	tickets []modelTicket
}

type modelTicket struct {
	*modelLife
	t      *Ticket
	record modelRecord
	known  bool
	// closed is set once the ticket has answered that the event was closed: that
	// is final.
	closed bool
}

func (m *model) run(seed uint64) {
	m.drv = m.open(WithLeakHook(m.hook))
	foreign := m.open()
	m.strangers.gpu = m.context(foreign, 0)
	m.strangers.s = m.stream(m.strangers.gpu)
	m.strangers.e = m.event(m.strangers.gpu, 0)
	m.tell("fake_spread", 1)
	m.held = make(chan *modelGate, len(m.streams)*64)

	janitor := make(chan struct{})
	go func() {
		defer close(janitor)
		n, deafen := 0, func() {}
		defer func() { deafen() }()
		for g := range m.held {
			// Half of the time somebody listens: records and waits are made in another way then.
			switch n++; n % 64 {
			case 32:
				deafen = trace.Add(m.drv, func(trace.Operation) {})
			case 0:
				deafen()
			}
			time.Sleep(50 * time.Microsecond)
			g.relBegun.Add(1)
			m.tell("fake_release", g.raw)
			g.relDone.Add(1)
			g.busy.Store(false)
		}
	}()

	first := &actor{model: m, Rand: rand.New(rand.NewPCG(seed, 0))}
	for i := range m.contexts {
		first.renewContext(i)
	}
	for i := range m.streams {
		first.renewStream(i)
	}
	for i := range m.events {
		first.renewEvent(i)
	}
	for i := range m.modules {
		first.renewModule(i)
	}
	for i := range m.memories {
		first.renewMemory(i)
	}
	m.faults.Store(true)

	var wg sync.WaitGroup
	for g := range modelGoroutines {
		wg.Go(func() {
			a := &actor{model: m, Rand: rand.New(rand.NewPCG(seed, uint64(g+1)))}
			for range (m.ops + modelGoroutines - 1) / modelGoroutines {
				if m.failures.Load() > 10 {
					return
				}
				a.act()
			}
		})
	}
	wg.Wait()
	close(m.held)
	<-janitor
	for _, fn := range faultyFunctions {
		m.fail(fn, -1, 0)
	}

	// Half of what is left is closed, the other half abandoned.
	leave := func(i int, l *modelLife, kind string, close func() error) {
		if l != nil && i%2 == 0 {
			first.close(l, kind, close)
		}
	}
	for i := range m.contexts {
		c := m.contexts[i].Swap(nil)
		leave(i, c.modelLife, "context", c.c.Close)
	}
	for i := range m.streams {
		s := m.streams[i].Swap(nil)
		leave(i, s.modelLife, "stream", s.s.Close)
	}
	for i := range m.events {
		e := m.events[i].Swap(nil)
		leave(i, e.modelLife, "event", e.e.Close)
	}
	for i := range m.modules {
		if c := m.modules[i].Swap(nil); c != nil {
			leave(i, c.modelLife, "module", c.m.Close)
		}
	}
	for i := range m.memories {
		if c := m.memories[i].Swap(nil); c != nil {
			leave(i, c.modelLife, "device memory", c.m.Close)
		}
	}
	m.ok(m.strangers.s.Close())
	m.ok(m.strangers.e.Close())
	m.ok(m.strangers.gpu.Close())

	if !m.freed(func() bool { return m.all() == [kindCount]int{} }) {
		m.t.Errorf("objects left: %v (by kind)", m.all())
	}
	// What was not closed was abandoned, and each report is about one of these.
	for _, kind := range []string{"context", "stream", "module", "device memory"} {
		if !Eventually(func() bool { return m.unclosed(kind).Load() == 0 }) {
			m.t.Errorf("%d of kind %s neither closed nor reported as abandoned", m.unclosed(kind).Load(), kind)
		}
	}
	if m.unclosed("event").Load() < 0 {
		m.t.Errorf("%d more events reported as abandoned than created and not closed", -m.unclosed("event").Load())
	}
}

// unclosed counts the objects of a kind that were made, less those that were
// closed, less those that were reported as abandoned.
func (m *model) unclosed(kind string) *atomic.Int64 {
	n, _ := m.abandoned.LoadOrStore(kind, new(atomic.Int64))
	return n.(*atomic.Int64)
}

func (m *model) hook(l Leak) {
	if l.Err != nil {
		m.wrong("reported: %s %#x: %v", l.Kind, l.Handle, l.Err)
	}
	if l.Abandoned {
		m.unclosed(l.Kind).Add(-1)
	}
}

// wrong reports an answer that cannot be.
func (m *model) wrong(format string, args ...any) {
	m.t.Helper()
	if m.failures.Add(1) <= 10 {
		m.t.Errorf(format, args...)
	}
}

// expect says what an operation may answer.
type expect struct {
	lives     []*modelLife // the objects involved
	wasClosed bool
	closed    []*modelEvent // those that were closed, if they are not zero Events
	stranger  bool
	// Whether objects of two drivers may be involved: what has moved is a zero
	// Event, and somebody may have recorded it on a stranger.
	mixed    bool
	device   bool // whether objects of two devices may be involved
	recorded bool // whether ErrNotRecorded is impossible
	timed    bool // whether ErrNotTimed is impossible
	ctx      context.Context
}

// involve prepares for an operation on objects. It comes before it.
func involve(lives ...*modelLife) expect {
	e := expect{lives: lives}
	for _, l := range lives {
		e.wasClosed = e.wasClosed || l.closed.Load()
	}
	return e
}

// involveEvent adds an event to what involve returned.
func (want *expect) involveEvent(e *modelEvent) {
	want.lives = append(want.lives, e.modelLife)
	if e.created && e.closed.Load() {
		want.closed = append(want.closed, e)
	}
}

// judge comes after the operation. It reports whether it succeeded.
func (m *model) judge(op string, e expect, err error) bool {
	m.t.Helper()
	if err == nil {
		wasClosed := e.wasClosed
		for _, event := range e.closed {
			wasClosed = wasClosed || !event.moved.Load()
		}
		if wasClosed {
			m.wrong("%s succeeded after an object was closed", op)
		}
		if e.stranger {
			m.wrong("%s succeeded with objects of two drivers", op)
		}
		return true
	}
	closing := false
	for _, l := range e.lives {
		closing = closing || l.closing.Load()
	}
	var typed *Error
	possible := errors.As(err, &typed) && err.Error() != ""
	switch {
	case errors.Is(err, ResultNotReady):
		possible = false
	case wokenByContext(err): // at any time somebody closes one of them
		m.counts[countClosed].Add(1)
		possible = possible && e.ctx != nil
	case errors.Is(err, ErrClosed):
		m.counts[countClosed].Add(1)
		possible = possible && closing && (errors.Is(err, ResultInvalidHandle) || errors.Is(err, ResultInvalidValue))
	case errors.Is(err, ErrDriverMismatch):
		m.counts[countMismatch].Add(1)
		possible = possible && (e.stranger || e.mixed)
	case errors.Is(err, ErrDeviceMismatch):
		m.counts[countMismatch].Add(1)
		possible = possible && e.device
	case errors.Is(err, ErrNotRecorded):
		possible = possible && !e.recorded
	case errors.Is(err, ErrNotTimed):
		possible = possible && !e.timed
	case errors.Is(err, ResultOutOfMemory):
		m.counts[countFault].Add(1)
		possible = possible && m.faults.Load()
	case e.ctx != nil && e.ctx.Err() != nil && errors.Is(err, context.Cause(e.ctx)):
		m.counts[countCancelled].Add(1)
	default:
		possible = false
	}
	if !possible {
		m.wrong("%s: %v (somebody closed it: %v)", op, err, closing)
	}
	return false
}

// status compares an answer with what is known about the record that it is
// for. sure says that the record was complete before the question.
func (m *model) status(op string, r modelRecord, sure bool, st Status) {
	m.t.Helper()
	m.counts[countChecked].Add(1)
	switch {
	case st == Complete && !r.canBeComplete():
		m.wrong("%s: complete, though its stream is held", op)
	case st == Pending && sure:
		m.wrong("%s: pending, though its stream went on", op)
	}
}

// closing and creating

func (a *actor) close(l *modelLife, kind string, f func() error) {
	first, err := l.close(f)
	if first {
		a.unclosed(kind).Add(-1)
	}
	if err != nil {
		a.wrong("closing the %s: %v", kind, err)
	}
}

// letGo closes an object, or abandons it.
func (a *actor) letGo(l *modelLife, kind string, f func() error) {
	if a.IntN(3) != 0 {
		a.close(l, kind, f)
	}
}

func (a *actor) renewContext(i int) {
	device := [...]int{0, 0, 0, 1, 1, 2}[i]
	c, err := Need(a.drv.Device(device))(a.t).PrimaryContext()
	if !a.judge("PrimaryContext", expect{}, err) {
		return
	}
	a.unclosed("context").Add(1)
	if old := a.contexts[i].Swap(&modelContext{new(modelLife), c, device}); old != nil {
		a.letGo(old.modelLife, "context", old.c.Close)
	}
}

// in picks a context: the last one seldom, so that it is often released.
func (a *actor) in() (*modelContext, expect) {
	i := a.IntN(len(a.contexts) - 1)
	if a.IntN(100) == 0 {
		i = len(a.contexts) - 1
	}
	c := a.contexts[i].Load()
	if c.closing.Load() && a.IntN(8) == 0 {
		a.renewContext(i)
		c = a.contexts[i].Load()
	}
	return c, involve(c.modelLife)
}

func (a *actor) renewStream(i int) {
	c, want := a.in()
	s, err := c.c.NewStream(StreamFlags(a.IntN(2)))
	if !a.judge("NewStream", want, err) {
		return
	}
	a.unclosed("stream").Add(1)
	n := &modelStream{new(modelLife), s, c.device, &modelGate{raw: uintptr(core.Of(s).Raw)}}
	if old := a.streams[i].Swap(n); old != nil {
		a.letGo(old.modelLife, "stream", old.s.Close)
	}
}

func (a *actor) renewEvent(i int) {
	n := &modelEvent{modelLife: new(modelLife), device: -1, tracked: a.IntN(2) == 0, known: true}
	if a.IntN(5) == 0 {
		n.e = new(Event)
	} else {
		c, want := a.in()
		flags := []EventFlags{0, EventDisableTiming, EventBlockingSync, EventDisableTiming | EventInterprocess}[a.IntN(4)]
		e, err := c.c.NewEvent(flags)
		if !a.judge("NewEvent", want, err) {
			return
		}
		if flags&EventInterprocess != 0 {
			n.tracked, n.shared = false, true // waits are for its newest record
		}
		n.e, n.device, n.created, n.timed = e, c.device, true, flags&EventDisableTiming == 0
	}
	a.unclosed("event").Add(1)
	if old := a.events[i].Swap(n); old != nil {
		a.letGo(old.modelLife, "event", old.e.Close)
	}
}

// moveEvent puts a moved event into the cell. What remains of the old one is a
// zero Event, that others may still record.
func (a *actor) moveEvent(i int) {
	old := a.events[i].Load()
	old.moved.Store(true)
	n := &modelEvent{modelLife: old.modelLife, e: old.e.Move(), device: -1, shared: old.shared}
	if a.events[i].CompareAndSwap(old, n) {
		a.unclosed("event").Add(1)
	} else {
		a.close(n.modelLife, "event", n.e.Close)
	}
}

func (a *actor) renewModule(i int) {
	c, want := a.in()
	mod, err := c.c.LoadModule([]byte("fake"))
	if !a.judge("LoadModule", want, err) {
		return
	}
	a.unclosed("module").Add(1)
	n := &modelModule{modelLife: new(modelLife), m: mod, device: c.device}
	n.noop = Need(mod.Function("noop"))(a.t)
	n.axpy = Need(mod.Function("axpy"))(a.t)
	if old := a.modules[i].Swap(n); old != nil {
		a.letGo(old.modelLife, "module", old.m.Close)
	}
}

func (a *actor) renewMemory(i int) {
	c, want := a.in()
	mem, err := c.c.Alloc(16)
	if !a.judge("Alloc", want, err) {
		return
	}
	a.unclosed("device memory").Add(1)
	if old := a.memories[i].Swap(&modelMemory{new(modelLife), mem, c.device}); old != nil {
		a.letGo(old.modelLife, "device memory", old.m.Close)
	}
}

// using

// event and stream pick one, and let few closed ones lie around.
func (a *actor) event() *modelEvent {
	i := a.IntN(len(a.events))
	if a.events[i].Load().closing.Load() && a.IntN(4) == 0 {
		a.renewEvent(i)
	}
	return a.events[i].Load()
}

func (a *actor) stream() *modelStream {
	i := a.IntN(len(a.streams))
	if a.streams[i].Load().closing.Load() && a.IntN(4) == 0 {
		a.renewStream(i)
	}
	return a.streams[i].Load()
}

// streamFor picks a stream, usually of the event's device.
func (a *actor) streamFor(device int) *modelStream {
	s := a.stream()
	for range 3 {
		if device < 0 || s.device == device {
			break
		}
		s = a.stream()
	}
	return s
}

// patience returns a context that ends soon, or has ended.
func (a *actor) patience() (context.Context, context.CancelFunc) {
	switch a.IntN(4) {
	case 0:
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errImpatient)
		return ctx, func() {}
	case 1:
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() {
			runtime.Gosched()
			cancel(errImpatient)
		}()
		return ctx, func() { cancel(nil) }
	case 2:
		return context.WithTimeout(context.Background(), time.Duration(a.IntN(1000))*time.Microsecond)
	}
	return context.Background(), func() {}
}

var errImpatient = errors.New("impatient")

// faultyFunctions are those that fail at times.
var faultyFunctions = []string{"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuStreamCreate", "cuMemAlloc_v2"}

func (a *actor) act() {
	switch n := a.IntN(1000); {
	case n < 200:
		a.query()
	case n < 420:
		a.record()
	case n < 450:
		e := a.event()
		var want expect
		want.involveEvent(e)
		a.judge("Synchronize", want, e.e.Synchronize())
	case n < 500:
		a.wait()
	case n < 560:
		a.takeTicket()
	case n < 600:
		a.useTicket()
	case n < 640:
		a.since()
	case n < 680:
		e, s := a.event(), a.stream()
		want := involve(s.modelLife)
		want.involveEvent(e)
		err := s.s.WaitEvent(e.e)
		want.mixed = e.moved.Load()
		want.device = e.shared && e.device != s.device
		a.judge("WaitEvent", want, err)
	case n < 700:
		s := a.stream()
		want := involve(s.modelLife)
		_, err := s.s.Query()
		a.judge("Stream.Query", want, err)
	case n < 705:
		s := a.stream()
		want := involve(s.modelLife)
		a.judge("Stream.Synchronize", want, s.s.Synchronize())
	case n < 730:
		g := a.stream().gate
		if g.busy.CompareAndSwap(false, true) {
			g.holdBegun.Add(1)
			a.tell("fake_hold", g.raw)
			g.holdDone.Add(1)
			a.held <- g
		}
	case n < 790:
		a.renewEvent(a.IntN(len(a.events)))
	case n < 820:
		e := a.event()
		a.close(e.modelLife, "event", e.e.Close)
	case n < 840:
		a.moveEvent(a.IntN(len(a.events)))
	case n < 860:
		a.renewStream(a.IntN(len(a.streams)))
	case n < 865:
		s := a.stream()
		a.close(s.modelLife, "stream", s.s.Close)
	case n < 875:
		a.renewContext(a.IntN(len(a.contexts)))
	case n < 880:
		c := a.contexts[len(a.contexts)-1].Load()
		a.close(c.modelLife, "context", c.c.Close)
	case n < 885:
		c, _ := a.in()
		a.close(c.modelLife, "context", c.c.Close)
	case n < 890:
		c, want := a.in()
		a.judge("Context.Synchronize", want, c.c.Synchronize())
	case n < 920:
		a.launch()
	case n < 945:
		a.copyMemory()
	case n < 955:
		a.renewMemory(a.IntN(len(a.memories)))
	case n < 960:
		a.renewModule(a.IntN(len(a.modules)))
	case n < 965:
		if mod := a.modules[a.IntN(len(a.modules))].Load(); mod != nil {
			a.close(mod.modelLife, "module", mod.m.Close)
		}
	case n < 985:
		a.mix()
	case n < 995:
		a.fail(faultyFunctions[a.IntN(len(faultyFunctions))], 1+a.IntN(20), ResultOutOfMemory)
	case a.IntN(20) == 0:
		runtime.GC()
	}
}

func (a *actor) query() {
	e := a.event()
	r, stamp, ok := e.peek()
	sure := ok && r.mustBeComplete()
	var want expect
	want.involveEvent(e)
	st, err := e.e.Query()
	if !a.judge("Query", want, err) {
		if st != StatusUnknown {
			a.wrong("Query = %v, %v", st, err)
		}
		return
	}
	switch st {
	case Complete:
		a.counts[countComplete].Add(1)
	case Pending:
		a.counts[countPending].Add(1)
	default:
		a.wrong("Query = %v", st)
	}
	// The record must have been the newest one all the time. The answer is
	// looked at before it is known whether it was.
	possible := st != Complete || r.canBeComplete()
	if _, again, still := e.peek(); ok && still && stamp == again && (!possible || st == Pending && sure) {
		a.status("Query", r, sure, st)
	} else if ok && still && stamp == again {
		a.counts[countChecked].Add(1)
	}
}

func (a *actor) record() {
	e := a.event()
	s := a.streamFor(e.device)
	want := involve(s.modelLife)
	want.involveEvent(e)
	want.device = e.device < 0 || e.device != s.device
	e.beginRecord()
	r, err := s.gate.observe(func() error {
		switch {
		case a.IntN(10) != 0:
			return e.e.Record(s.s)
		case e.tracked || e.shared:
			return e.e.RecordWithFlags(s.s, RecordDefault)
		}
		return e.e.RecordWithFlags(s.s, RecordExternal)
	})
	e.endRecord(r, err)
	want.mixed = e.moved.Load()
	want.device = want.device || want.mixed
	a.judge("Record", want, err)
}

func (a *actor) wait() {
	e := a.event()
	var want expect
	want.involveEvent(e)
	ctx, cancel := a.patience()
	defer cancel()
	want.ctx = ctx
	r, stamp, ok := e.peek()
	sure := ok && r.mustBeComplete()
	err := e.e.Wait(ctx)
	done := a.judge("Wait", want, err)
	possible := !done || r.canBeComplete()
	if _, again, still := e.peek(); !ok || !still || stamp != again {
		return
	}
	a.counts[countChecked].Add(1)
	if !possible {
		a.wrong("Wait returned while the event's stream was held")
	}
	if sure && want.ctx.Err() != nil && errors.Is(err, context.Cause(want.ctx)) {
		a.wrong("Wait: %v, though the event's stream went on before it", err)
	}
}

func (a *actor) takeTicket() {
	e := a.event()
	var want expect
	want.involveEvent(e)
	r, stamp, ok := e.peek()
	ticket, err := e.e.Ticket()
	if !a.judge("Ticket", want, err) {
		return
	}
	a.counts[countTicket].Add(1)
	_, again, still := e.peek()
	n := modelTicket{e.modelLife, ticket, r, ok && still && stamp == again, false}
	if len(a.tickets) < 4 {
		a.tickets = append(a.tickets, n)
	} else {
		a.tickets[a.IntN(len(a.tickets))] = n
	}
}

func (a *actor) useTicket() {
	if len(a.tickets) == 0 {
		return
	}
	i := a.IntN(len(a.tickets))
	n := a.tickets[i]
	want := expect{lives: []*modelLife{n.modelLife}}
	ctx, cancel := a.patience()
	defer cancel()
	want.ctx = ctx
	sure := n.record.mustBeComplete()
	err := n.t.Wait(ctx)
	done := a.judge("Ticket.Wait", want, err)
	if n.known {
		a.counts[countChecked].Add(1)
		if done && !n.record.canBeComplete() {
			a.wrong("a ticket's wait returned while the stream of its record was held")
		}
		if n.closed && !errors.Is(err, ErrClosed) {
			a.wrong("a ticket's wait: %v, after it said that the event was closed", err)
		}
		if !done && sure && !n.closed && !wokenByContext(err) && !errors.Is(err, ResultOutOfMemory) {
			a.wrong("a ticket's wait: %v, though the stream of its record went on before", err)
		}
	}
	a.tickets[i].closed = n.closed || errors.Is(err, ErrClosed) && !wokenByContext(err)
	if done && a.IntN(2) == 0 || a.IntN(8) == 0 {
		a.tickets = append(a.tickets[:i], a.tickets[i+1:]...)
	}
}

// wokenByContext reports whether an error is that of a wait that ended because its context
// was closed.
func wokenByContext(err error) bool {
	var e *Error
	return errors.Is(err, ErrClosed) && errors.As(err, &e) && e.Detail == drivercall.ContextClosedDetail
}

func (a *actor) since() {
	start, stop := a.event(), a.event()
	var want expect
	want.involveEvent(start)
	want.involveEvent(stop)
	want.device = start.device < 0 || stop.device < 0 || start.device != stop.device
	r1, _, ok1 := start.peek()
	r2, _, ok2 := stop.peek()
	want.recorded = ok1 && ok2 && r1.gate != nil && r2.gate != nil
	// What has moved is a zero Event, and may be recorded anywhere.
	moved := func() {
		moved := start.moved.Load() || stop.moved.Load()
		want.timed = start.timed && stop.timed && !moved
		want.device = want.device || moved
		want.mixed = moved
	}
	if a.IntN(4) == 0 {
		ctx, cancel := a.patience()
		defer cancel()
		want.ctx = ctx
		_, err := Elapsed(ctx, start.e, stop.e)
		moved()
		a.judge("Elapsed", want, err)
		return
	}
	d, st, err := stop.e.Since(start.e)
	moved()
	if a.judge("Since", want, err) && st == StatusUnknown || st == Pending && d != 0 || err != nil && st != StatusUnknown {
		a.wrong("Since = %v, %v, %v", d, st, err)
	}
}

func (a *actor) launch() {
	mod := a.modules[a.IntN(len(a.modules))].Load()
	mem := a.memories[a.IntN(len(a.memories))].Load()
	if mod == nil || mem == nil {
		return
	}
	s := a.streamFor(mod.device)
	want := involve(mod.modelLife, s.modelLife)
	cfg := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}
	var err error
	if a.IntN(2) == 0 {
		want.device = mod.device != s.device
		err = mod.noop.Launch(s.s, cfg)
	} else {
		want = involve(mod.modelLife, s.modelLife, mem.modelLife)
		want.device = mod.device != s.device || mem.device != mod.device
		err = mod.axpy.Launch(s.s, cfg, Ptr(mem.m), F32(2), U64(3))
	}
	a.judge("Launch", want, err)
}

func (a *actor) copyMemory() {
	mem := a.memories[a.IntN(len(a.memories))].Load()
	if mem == nil {
		return
	}
	want := involve(mem.modelLife)
	var b [16]byte
	if a.IntN(2) == 0 {
		a.judge("CopyFrom", want, mem.m.CopyFrom(b[:]))
	} else {
		a.judge("CopyTo", want, mem.m.CopyTo(b[:]))
	}
}

// mix uses objects of another driver.
func (a *actor) mix() {
	e, s := a.event(), a.stream()
	want := expect{lives: []*modelLife{e.modelLife, s.modelLife}}
	var err error
	op := ""
	switch x := &a.strangers; a.IntN(4) {
	case 0:
		if !e.created {
			return // a zero Event goes anywhere
		}
		op, err = "Record on a stranger", e.e.Record(x.s)
	case 1:
		op, err = "Record of a stranger", x.e.Record(s.s)
	case 2:
		op, err = "WaitEvent for a stranger", s.s.WaitEvent(x.e)
	case 3:
		if !e.created {
			return
		}
		op = "Since a stranger"
		_, _, err = e.e.Since(x.e)
	}
	if moved := e.moved.Load(); !moved || err != nil && !errors.Is(err, ErrNotTimed) && !errors.Is(err, ErrDeviceMismatch) {
		want.stranger = true
		a.judge(op, want, err)
	}
}
