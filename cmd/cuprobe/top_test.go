package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// working returns a software driver with devices whose time stands still. This process has memory on device 0, which
// has worked for a half of the last second.
func working(t *testing.T, devices int) *cusim.Driver {
	t.Helper()
	sim := cusim.New(cusim.Devices(devices), cusim.VirtualTime(), modelSpin())
	drv, err := cu.Open(cu.WithSoftware(sim))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	rig, err := newRig(dev)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := keep(rig, func() (*cu.DeviceMem, error) { return rig.gpu.Alloc(2 << 30) })
	if err != nil {
		t.Fatal(mem, err)
	}
	s, err := keep(rig, func() (*cu.Stream, error) { return rig.gpu.NewStream(cu.StreamNonBlocking) })
	if err != nil {
		t.Fatal(err)
	}
	if err := rig.spin.Launch(s, cu.Grid1D(1, 1), cu.U64(uint64(time.Second/2))); err != nil {
		t.Fatal(err)
	}
	sim.Advance(time.Second)
	t.Cleanup(func() {
		if err := rig.close(); err != nil {
			t.Error(err)
		}
	})
	return sim
}

// runTop runs the command on a software driver.
func runTop(ctx context.Context, sim *cusim.Driver, args ...string) result {
	var out, said bytes.Buffer
	c := &invocation{ctx: ctx, out: &output{w: &out}, err: &said, env: os.LookupEnv, driver: softDriver,
		device: anyDevice, after: time.After, sim: sim}
	status := c.finish(c.run(append([]string{"top"}, args...)))
	return newResult(status, &out, &said)
}

// withoutProcess replaces the time, and what depends on the process of the test.
func withoutProcess(text string) string {
	text = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$`).ReplaceAllString(text, "TIME")
	text = regexp.MustCompile(`(?m)^#  PID +MEMORY`).ReplaceAllString(text, "#  PID  MEMORY")
	return regexp.MustCompile(fmt.Sprintf(`(?m)^0  %d +(\S+) +\S.*$`, os.Getpid())).
		ReplaceAllString(text, "0  PID  $1  NAME")
}

const topText = `TIME

#  NAME            BUSY  MEMORY GIB  TEMP  POWER W  SM CLOCK
0  Simulated H200  50 %  2.5/140.4   46 C  385/700  1980 MHz
1  Simulated H200  0 %   0.0/140.4   33 C  80/700   345 MHz

#  PID  MEMORY GIB  PROCESS
0  PID  2.5  NAME
`

func TestTop(t *testing.T) {
	sim := working(t, 2)
	r := runTop(t.Context(), sim, "-n", "2", "-every", "100ms")
	diff := cmp.Diff(topText+"\n"+topText, withoutProcess(r.stdout))
	if diff != "" || r.status != exitOK || r.stderr != "" {
		t.Errorf("exit status %d, %q (-want +got):\n%s", r.status, r.stderr, diff)
	}
	r = runTop(t.Context(), sim, "-n", "1", "-device", "1")
	if strings.Contains(r.stdout, "50 %") || !strings.Contains(r.stdout, "\n1  Simulated") || r.status != exitOK {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	r = runTop(t.Context(), sim, "-device", "2")
	if r.status != exitFailure || r.stderr != "cuprobe: there is no GPU 2: NVML sees 2 GPUs\n" {
		t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

func TestTopJSON(t *testing.T) {
	r := runTop(t.Context(), working(t, 1), "-json", "-n", "2", "-every", "100ms")
	lines := strings.SplitAfter(r.stdout, "\n")
	if len(lines) != 3 || lines[2] != "" || r.status != exitOK || r.stderr != "" {
		t.Fatalf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	for _, line := range lines[:2] {
		documented(t, "top", line)
		var got topRound
		decode(t, result{stdout: line}, &got)
		if got.Time.IsZero() || len(got.GPUs) != 1 || len(got.GPUs[0].Processes) != 1 {
			t.Fatal(line)
		}
		g := got.GPUs[0]
		if q := g.Processes[0]; *g.Busy != 50 || *g.Power != 385_000 || *g.MemoryUsed>>30 != 2 || *g.MemoryTotal>>30 != 140 ||
			q.PID != uint32(os.Getpid()) || q.MemoryUsed>>30 != 2 {
			t.Error(line)
		}
	}
}

// TestTopFailing watches a GPU that does not answer for a while, and is lost later, and one that is well.
func TestTopFailing(t *testing.T) {
	const row = "0  Simulated H200  0 %   0.0/140.4   33 C  80/700   345 MHz\n"
	synctest.Test(t, func(t *testing.T) {
		sim := cusim.New(cusim.Devices(2))
		began := time.Now()
		at := func(d time.Duration, f func()) { time.AfterFunc(d, f) }
		at(500*time.Millisecond, func() { sim.InjectNVML(cusim.NVMLFault{GPUs: []int{1}, Hangs: true}) })
		at(3500*time.Millisecond, sim.ClearFaults)
		at(6500*time.Millisecond, func() { sim.LoseGPU(1) })
		r := runTop(t.Context(), sim, "-n", "9")
		rounds := strings.Split(r.stdout, "2000-01-01 ")[1:]
		if len(rounds) != 9 || r.status != exitOK || time.Since(began) > 9*time.Second {
			t.Fatalf("exit status %d after %v\n%s%s", r.status, time.Since(began), r.stdout, r.stderr)
		}
		for i, text := range rounds {
			first, _, _ := strings.Cut(text, "\n")
			if !strings.HasSuffix(first, fmt.Sprintf(":00:0%d", i)) {
				t.Errorf("round %d begins at %s", i, first)
			}
			want := ""
			switch {
			case i == 4: // the read before has ended too late, or just in time
				continue
			case i >= 1 && i <= 3:
				want = "GPU 1 does not answer\n"
			case i >= 7:
				want = "GPU 1 is lost: it has fallen off the bus\n"
			}
			lines := regexp.MustCompile(`(?m)^(0 .*|GPU .*)\n`).FindAllString(text, -1)
			known := regexp.MustCompile(`(?m)^1  Simulated H200  (\d|\?)`).FindStringSubmatch(text)
			if len(lines) == 0 || strings.Join(strings.Fields(lines[0]), " ") != strings.Join(strings.Fields(row), " ") ||
				strings.Join(lines[1:], "") != want || known == nil || (known[1] == "?") != (want != "") {
				t.Errorf("round %d: %q, %q\n%s", i, lines, known, text)
			}
		}
	})
}

// TestTopLost is for a GPU that is lost from the beginning: NVML does not say what it is.
func TestTopLost(t *testing.T) {
	sim := cusim.New()
	sim.LoseGPU(0)
	r := runTop(t.Context(), sim, "-n", "1")
	const want = "TIME\n\n#  NAME  BUSY  MEMORY GIB  TEMP  POWER W  SM CLOCK\n" +
		"0  ?     ?     ?/?         ?     ?/?      ?\n\nGPU 0 is lost: it has fallen off the bus\n"
	if diff := cmp.Diff(want, withoutProcess(r.stdout)); diff != "" || r.status != exitOK {
		t.Errorf("exit status %d (-want +got):\n%s", r.status, diff)
	}
	r = runTop(t.Context(), sim, "-n", "1", "-json")
	var got topRound
	decode(t, r, &got)
	documented(t, "top", r.stdout)
	if !strings.Contains(got.GPUs[0].Error, "NVML_ERROR_GPU_IS_LOST") {
		t.Error(r.stdout)
	}
}

// TestTopInterrupted ends the command in a round, and between two.
func TestTopInterrupted(t *testing.T) {
	for _, after := range []time.Duration{100 * time.Millisecond, 1100 * time.Millisecond} {
		for _, arg := range []string{"-json=false", "-json"} {
			synctest.Test(t, func(t *testing.T) {
				sim := cusim.New()
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				if after > time.Second {
					time.AfterFunc(time.Second/2, func() { sim.InjectNVML(cusim.NVMLFault{GPUs: []int{0}, Hangs: true}) })
				}
				began := time.Now()
				r := runTop(ctx, sim, arg)
				if took := time.Since(began); took != after || r.status != exitOK || r.stderr != "" ||
					strings.Count(r.stdout, "Simulated") != 1 {
					t.Errorf("exit status %d after %v\n%s%s", r.status, took, r.stdout, r.stderr)
				}
				sim.ClearFaults()
			})
		}
	}
}

// TestTopLive checks what a terminal gets.
func TestTopLive(t *testing.T) {
	users := []gpuProcess{{PID: 7, Name: strings.Repeat("ä", 100)}, {PID: 12, MemoryUsed: 1 << 30}}
	r := &topRound{Time: time.Date(2026, 7, 14, 3, 0, 5, 0, time.UTC),
		GPUs: []topGPU{{Name: "evil \x1b[2J", nvmlFacts: nvmlFacts{Processes: users}}}}
	var text strings.Builder
	r.text(&text, 60)
	const want = "\x1b[2J\x1b[H2026-07-14 03:00:05\x1b[K\n\x1b[K\n" +
		"#  NAME       BUSY  MEMORY GIB  TEMP  POWER W  SM CLOCK\x1b[K\n" +
		"0  evil \\x1b[2J  ?     ?/?         ?     ?/?      ?\x1b[K\n\x1b[K\n" +
		"#  PID  MEMORY GIB  PROCESS\x1b[K\n" +
		"0  7    ?           %s...\x1b[K\n0  12   1.0         ?\x1b[K\n\x1b[J"
	if diff := cmp.Diff(fmt.Sprintf(want, strings.Repeat("ä", 37)), overwrite(text.String(), true)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if again := overwrite("a\n", false); again != "\x1b[Ha\x1b[K\n\x1b[J" {
		t.Errorf("%q", again)
	}
}

// TestTopWithoutNVML checks errors before the first round.
func TestTopWithoutNVML(t *testing.T) {
	f := newFake(t)
	for _, tt := range []struct {
		open   func() (*nvml.Library, error)
		status int
		says   string
	}{
		{nil, exitUsage, "top asks NVML, which " + f.path + " does not have"},
		{(&machine{init: raw.NVML_ERROR_DRIVER_NOT_LOADED}).open, exitFailure, "NVML_ERROR_DRIVER_NOT_LOADED"},
		{(&machine{}).open, exitFailure, "NVML sees no GPU"},
	} {
		r := f.runNVML(tt.open, "top")
		if r.status != tt.status || !strings.Contains(r.stderr, tt.says) {
			t.Errorf("exit status %d\n%s%s", r.status, r.stdout, r.stderr)
		}
		r = f.runNVML(tt.open, "top", "-json")
		var v struct{ Error failure }
		if err := json.Unmarshal([]byte(r.stdout), &v); err != nil || !strings.Contains(v.Error.Message, tt.says) {
			t.Errorf("%v\n%s", err, r.stdout)
		}
	}
	for _, args := range [][]string{{"-n", "0"}, {"-every", "1ms"}, {"1"}} {
		if r := runTop(t.Context(), cusim.New(), args...); r.status != exitUsage {
			t.Errorf("%q: exit status %d\n%s%s", args, r.status, r.stdout, r.stderr)
		}
	}
}
