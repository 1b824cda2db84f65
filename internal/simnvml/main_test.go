package simnvml

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/nvml/raw"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testMachine is a machine with GPUs without work, and with a time that only a test advances.
type testMachine struct {
	misuses []string
	gpus    []GPU

	mu     sync.Mutex
	now    time.Time
	timers map[*testTimer]struct{}
}

func (m *testMachine) GPUs() []GPU         { return m.gpus }
func (m *testMachine) Clock() driver.Clock { return m }
func (m *testMachine) DriverVersion() int  { return 13000 }

func (m *testMachine) Change(gpu int, f func(*Settings)) error {
	f(&m.gpus[gpu].Settings)
	return nil
}

// Misuse fails no test: tests look at what a call returns.
func (m *testMachine) Misuse(_, what string) { m.misuses = append(m.misuses, what) }

func (m *testMachine) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *testMachine) NewTimer(d time.Duration) driver.Timer {
	t := &testTimer{machine: m, c: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

// advance advances the time.
func (m *testMachine) advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
	for t := range m.timers {
		if !t.at.After(m.now) {
			t.c <- m.now
			delete(m.timers, t)
		}
	}
}

// waits reports whether a timer is set.
func (m *testMachine) waits() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.timers) > 0
}

type testTimer struct {
	machine *testMachine
	c       chan time.Time
	at      time.Time
}

func (t *testTimer) C() <-chan time.Time { return t.c }

func (t *testTimer) Reset(d time.Duration) {
	t.machine.mu.Lock()
	defer t.machine.mu.Unlock()
	t.at = t.machine.now.Add(d)
	t.machine.timers[t] = struct{}{}
}

func (t *testTimer) Stop() {
	t.machine.mu.Lock()
	defer t.machine.mu.Unlock()
	delete(t.machine.timers, t)
}

// bench is an NVML that is in use.
type bench struct {
	*NVML
	machine *testMachine
	gpus    []raw.Device
}

func newBench(t *testing.T, gpus int) *bench {
	t.Helper()
	return newBenchOf(t, fmt.Sprintf("H200:%d", gpus))
}

// newBenchOf is newBench with a list of kinds of GPUs.
func newBenchOf(t *testing.T, kinds string) *bench {
	t.Helper()
	list, err := profile.Parse(kinds)
	if err != nil {
		t.Fatal(err)
	}
	m := &testMachine{now: time.Unix(1e9, 0), timers: map[*testTimer]struct{}{}}
	for i, p := range list {
		m.gpus = append(m.gpus, GPU{Profile: p, Name: "GPU", Bus: uint32(i + 1), Memory: p.Memory.Size,
			UUID: "GPU-0000000" + string(rune('0'+i)), Settings: NewSettings(p)})
	}
	b := &bench{New(m), m, make([]raw.Device, len(list))}
	succeeds(t, b.InitV2())
	for i := range b.gpus {
		succeeds(t, b.DeviceGetHandleByIndexV2(uint32(i), &b.gpus[i]))
	}
	return b
}

func succeeds(t *testing.T, r raw.Return) { t.Helper(); returns(t, r, raw.NVML_SUCCESS) }

func returns(t *testing.T, r, want raw.Return) {
	t.Helper()
	if r != want {
		t.Errorf("the result is %v, want %v", r, want)
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for range 10000 {
		if so() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it never came: " + what)
}
