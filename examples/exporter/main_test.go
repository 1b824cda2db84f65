package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
	"github.com/purecu/purecu/driver"
)

// TestMain is the program itself if the environment says so.
func TestMain(m *testing.M) {
	if os.Getenv("EXPORTER_TEST_MAIN") != "" {
		// A driver without NVML.
		driver.Register("bare", func() driver.Provider { return cusim.New() })
		driver.Register("hangs", func() driver.Provider { // its first copy never begins
			return cusim.New(cusim.Faults(cusim.Fault{Function: "cuMemcpyHtoDAsync", Slow: time.Hour}))
		})
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

type page = map[string]*dto.MetricFamily

// scrape reads a page as Prometheus does.
func scrape(t *testing.T, addr string) page {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	resp, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	p, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// until scrapes until something is so.
func until(t *testing.T, addr, what string, is func(page) bool) page {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		p := scrape(t, addr)
		if is(p) {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not come to this: %s\n%v", what, p)
		}
	}
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// unhealthy reports whether device 0 is known to be unhealthy. Before the probes begin, nothing is known.
func unhealthy(p page) bool {
	healthy, known := health(p)["0"]
	return known && healthy == 0
}

// health returns the health of each device.
func health(p page) map[string]float64 {
	healthy := map[string]float64{}
	for _, m := range p["cuda_healthy"].GetMetric() {
		healthy[label(m, "device")] = m.GetGauge().GetValue()
	}
	return healthy
}

// failures returns how many probes failed with a code, on all devices.
func failures(p page, code string) (n float64) {
	for _, m := range p["cuda_probe_failures_total"].GetMetric() {
		if label(m, "code") == code {
			n += m.GetCounter().GetValue()
		}
	}
	return n
}

// probed returns how many probes of a device succeeded.
func probed(p page, device string) uint64 {
	for _, m := range p["cuda_event_round_trip_seconds"].GetMetric() {
		if label(m, "device") == device {
			return m.GetHistogram().GetSampleCount()
		}
	}
	return 0
}

// start runs the exporter. cancel ends it, and ended has its error then.
func start(t *testing.T, drv *cu.Driver, e exporter) (addr string, cancel func(), ended <-chan error) {
	t.Helper()
	devs, err := drv.Devices()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.run(ctx, devs, l) }()
	return l.Addr().String(), cancel, done
}

// stop ends an exporter that has nothing to complain of. Where time is virtual, closing needs more of it.
func stop(t *testing.T, cancel func(), ended <-chan error, virtual ...*cusim.Driver) {
	t.Helper()
	cancel()
	for {
		select {
		case err := <-ended:
			// The last probe may have taken too long.
			if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, context.Canceled) &&
				!errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			return
		case <-time.After(time.Millisecond):
			for _, sim := range virtual {
				sim.Advance(time.Hour)
			}
		}
	}
}

var patient = exporter{every: time.Millisecond, limit: time.Minute, linger: time.Hour}

func TestPage(t *testing.T) {
	drv := cutest.Driver(t, cusim.Devices(2))
	devs, err := drv.Devices()
	if err != nil {
		t.Fatal(err)
	}
	addr, cancel, ended := start(t, drv, patient)
	p := until(t, addr, "five probes of each device", func(p page) bool {
		return !slices.ContainsFunc(devs, func(dev *cu.Device) bool { return probed(p, strconv.Itoa(dev.Ordinal())) < 5 })
	})
	for _, name := range []string{
		"cuda_launch_seconds", "cuda_h2d_1mib_seconds", "cuda_d2h_1mib_seconds", "cuda_event_round_trip_seconds",
	} {
		if p[name].GetType() != dto.MetricType_HISTOGRAM || p[name].GetHelp() == "" || len(p[name].GetMetric()) != len(devs) {
			t.Errorf("%s: %v", name, p[name])
			continue
		}
		for i, m := range p[name].GetMetric() { // sorted by their labels
			checkLabels(t, name, devs[i], m)
			checkBuckets(t, name, m.GetHistogram())
		}
	}
	if got := p["cuda_healthy"]; got.GetType() != dto.MetricType_GAUGE || len(got.GetMetric()) != len(devs) {
		t.Errorf("cuda_healthy: %v", got)
	}
	for i, m := range p["cuda_healthy"].GetMetric() {
		checkLabels(t, "cuda_healthy", devs[i], m)
		if m.GetGauge().GetValue() != 1 {
			t.Errorf("device %d is not healthy", i)
		}
	}
	if len(p) != 5 {
		t.Errorf("there are other metrics, or failures: %v", p)
	}
	stop(t, cancel, ended)
}

func checkLabels(t *testing.T, name string, dev *cu.Device, m *dto.Metric) {
	t.Helper()
	uuid, err := dev.UUID()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.GetLabel()) != 2 || label(m, "device") != strconv.Itoa(dev.Ordinal()) || label(m, "uuid") != uuid.String() {
		t.Errorf("%s of %v has the labels %v", name, dev, m.GetLabel())
	}
}

// checkBuckets checks that the buckets are 100 ns and twice the one before, and count all that was observed.
func checkBuckets(t *testing.T, name string, h *dto.Histogram) {
	t.Helper()
	const buckets = 21 // with the last, which has no bound
	b := h.GetBucket()
	if len(b) != buckets {
		t.Fatalf("%s has %d buckets", name, len(b))
	}
	var before uint64
	for i, b := range b[:buckets-1] {
		if bound := 100e-9 * float64(uint(1)<<i); b.GetUpperBound() < bound*0.999 || b.GetUpperBound() > bound*1.001 {
			t.Errorf("%s: bucket %d is up to %g", name, i, b.GetUpperBound())
		}
		if b.GetCumulativeCount() < before {
			t.Errorf("%s: bucket %d counts less than the one before", name, i)
		}
		before = b.GetCumulativeCount()
	}
	if n := b[buckets-1].GetCumulativeCount(); n < 5 || n != h.GetSampleCount() || n < before {
		t.Errorf("%s: the last bucket counts %d, the others %d, and all %d", name, n, before, h.GetSampleCount())
	}
	if b[0].GetCumulativeCount() == h.GetSampleCount() || h.GetSampleSum() <= 0 {
		t.Errorf("%s: nothing took longer than 100 ns, and all together %g s", name, h.GetSampleSum())
	}
}

// TestRestart checks errors after which only a new process helps. They are served, and end the exporter after a while.
func TestRestart(t *testing.T) {
	for _, tt := range []struct {
		code string
		fail func(*cusim.Driver)
	}{
		{"CUDA_ERROR_DEVICE_UNAVAILABLE", (*cusim.Driver).LoseDevice},
		{"CUDA_ERROR_ECC_UNCORRECTABLE", func(sim *cusim.Driver) {
			sim.Inject(cusim.Fault{Function: "cuLaunchKernel", Code: 214})
		}},
		{"CUDA_ERROR_ILLEGAL_ADDRESS", func(sim *cusim.Driver) { sim.Poison(int(cu.ResultIllegalAddress)) }},
	} {
		t.Run(tt.code, func(t *testing.T) {
			drv, sim := cutest.Soft(t)
			addr, cancel, ended := start(t, drv, patient)
			until(t, addr, "a healthy device that was probed", func(p page) bool {
				return probed(p, "0") > 0 && health(p)["0"] == 1
			})
			tt.fail(sim)
			// A page can have values from before and from after the error.
			p := until(t, addr, "an unhealthy device, and a failure", func(p page) bool {
				return unhealthy(p) && p["cuda_probe_failures_total"] != nil
			})
			if n := failures(p, tt.code); n != 1 {
				t.Errorf("%v failures with this code: %v", n, p["cuda_probe_failures_total"])
			}
			cancel()
			if err := <-ended; !cu.NeedsRestart(err) && !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
		t.Run(tt.code+"/end", func(t *testing.T) {
			drv, sim := cutest.Soft(t, cusim.Devices(2))
			addr, cancel, ended := start(t, drv, exporter{every: time.Millisecond, limit: time.Minute})
			defer cancel()
			until(t, addr, "a probe of each device", func(p page) bool { return probed(p, "0") > 0 && probed(p, "1") > 0 })
			tt.fail(sim)
			if err := <-ended; !cu.NeedsRestart(err) {
				t.Error(err)
			}
		})
	}
}

// TestOtherErrors checks that an error of one probe is counted, and nothing else.
func TestOtherErrors(t *testing.T) {
	drv, sim := cutest.Soft(t)
	addr, cancel, ended := start(t, drv, patient)
	until(t, addr, "a probe", func(p page) bool { return probed(p, "0") > 0 })
	sim.Inject(cusim.Fault{Function: "cuLaunchKernel", Code: int(cu.ResultOutOfMemory)})
	p := until(t, addr, "a failure", func(p page) bool { return failures(p, "CUDA_ERROR_OUT_OF_MEMORY") == 1 })
	n := probed(p, "0")
	p = until(t, addr, "more probes", func(p page) bool { return probed(p, "0") > n+1 })
	if health(p)["0"] != 1 || failures(p, "CUDA_ERROR_OUT_OF_MEMORY") != 1 {
		t.Errorf("%v", p)
	}
	stop(t, cancel, ended)
}

// TestSlow checks a GPU that does not do its work in time, and does it later: the page says both.
func TestSlow(t *testing.T) {
	drv, sim := cutest.Soft(t, cusim.VirtualTime())
	e := exporter{every: time.Millisecond, limit: 200 * time.Millisecond}
	addr, cancel, ended := start(t, drv, e)
	p := until(t, addr, "an unhealthy device", func(p page) bool {
		return unhealthy(p) && failures(p, cu.ResultTimeout.Name()) > 0
	})
	if probed(p, "0") != 0 {
		t.Errorf("probes succeeded: %v", p)
	}
	until(t, addr, "a healthy device", func(p page) bool {
		sim.Advance(time.Second)
		return health(p)["0"] == 1 && probed(p, "0") > 0
	})
	stop(t, cancel, ended, sim)
}

// TestCallHangs checks a call of the driver that does not return, before the first probe and in one.
func TestCallHangs(t *testing.T) {
	for _, function := range []string{"cuModuleLoadDataEx", "cuLaunchKernel"} {
		t.Run(function, func(t *testing.T) {
			drv, sim := cutest.Soft(t, cusim.VirtualTime(), cusim.Faults(cusim.Fault{Function: function, Slow: time.Hour}))
			e := exporter{every: time.Millisecond, limit: 20 * time.Millisecond}
			addr, cancel, ended := start(t, drv, e)
			until(t, addr, "an unhealthy device", unhealthy)
			stop(t, cancel, ended, sim)
		})
	}
}

// queries returns the files with queries of metrics: the alerts and the dashboard.
func queries(t *testing.T) map[string]string {
	files := map[string]string{"alerts.yml": "", "dashboard.json": ""}
	for name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	if !json.Valid([]byte(files["dashboard.json"])) {
		t.Error("dashboard.json is not JSON")
	}
	return files
}

// TestQueries checks that the alerts and the dashboard are about metrics that exist.
func TestQueries(t *testing.T) {
	drv, sim := cutest.Soft(t)
	addr, cancel, ended := start(t, drv, patient)
	sim.Inject(cusim.Fault{Function: "cuLaunchKernel", Code: int(cu.ResultOutOfMemory)})
	p := until(t, addr, "a failure and a success", func(p page) bool {
		return probed(p, "0") > 0 && p["cuda_probe_failures_total"] != nil
	})
	for file, text := range queries(t) {
		names := map[string]bool{}
		for _, m := range regexp.MustCompile(`\b(cuda_\w+?)(_bucket)?\b`).FindAllStringSubmatch(text, -1) {
			names[m[1]] = true
			if f := p[m[1]]; f == nil || (f.GetType() == dto.MetricType_HISTOGRAM) != (m[2] != "") {
				t.Errorf("%s has %s, which the exporter has not", file, m[0])
			}
		}
		if len(names) != len(p) {
			t.Errorf("%s is about %v, and not about all metrics", file, names)
		}
	}
	stop(t, cancel, ended)
}

// TestUnit has systemd check the unit, with programs that exist.
func TestUnit(t *testing.T) {
	systemd, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("this machine has no systemd-analyze to check the unit with")
	}
	unit, err := os.ReadFile("exporter.service")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("/usr/local/bin/exporter", self, "/usr/bin/nvidia-modprobe", self).Replace(string(unit))
	path := filepath.Join(t.TempDir(), "exporter.service")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), systemd, "verify", "--man=no", path)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "exporter.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
