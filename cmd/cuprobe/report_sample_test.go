package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/testrig/override"
	"github.com/purecu/purecu/loader"
)

// paced is a software driver whose calls take random virtual times.
type paced struct {
	Software driver.Software
	sim      *cusim.Driver
	mu       *sync.Mutex
	rnd      *rand.Rand
}

// takes lets a call take at least base, and sometimes much longer.
func (p paced) takes(base time.Duration) {
	p.mu.Lock()
	d := base + time.Duration(p.rnd.ExpFloat64()*float64(base)/12)
	if p.rnd.IntN(40) == 0 {
		d += 2 * base
	}
	p.mu.Unlock()
	p.sim.Advance(d)
}

func (p paced) LaunchKernel(th *driver.Thread, f driver.Function, gx, gy, gz, bx, by, bz, shared uint32,
	h driver.Stream, params driver.KernelParams) driver.Result {
	p.takes(2200 * time.Nanosecond)
	return p.Software.LaunchKernel(th, f, gx, gy, gz, bx, by, bz, shared, h, params)
}

func (p paced) EventRecord(th *driver.Thread, e driver.Event, h driver.Stream) driver.Result {
	p.takes(700 * time.Nanosecond)
	return p.Software.EventRecord(th, e, h)
}

func (p paced) EventQuery(th *driver.Thread, e driver.Event) driver.Result {
	p.takes(300 * time.Nanosecond)
	return p.Software.EventQuery(th, e)
}

func (p paced) StreamWaitEvent(th *driver.Thread, h driver.Stream, e driver.Event, flags uint32) driver.Result {
	p.takes(900 * time.Nanosecond)
	return p.Software.StreamWaitEvent(th, h, e, flags)
}

func (p paced) MemcpyHtoDAsync(th *driver.Thread, dst driver.DevicePtr, src driver.HostPtr, n uint64,
	h driver.Stream) driver.Result {
	p.takes(1800 * time.Nanosecond)
	return p.Software.MemcpyHtoDAsync(th, dst, src, n, h)
}

func (p paced) MemcpyHtoD(th *driver.Thread, dst driver.DevicePtr, src []byte) driver.Result {
	p.takes(5*time.Microsecond + time.Duration(len(src)/14))
	return p.Software.MemcpyHtoD(th, dst, src)
}

func (p paced) MemcpyDtoH(th *driver.Thread, dst []byte, src driver.DevicePtr) driver.Result {
	p.takes(6*time.Microsecond + time.Duration(len(dst)/11))
	return p.Software.MemcpyDtoH(th, dst, src)
}

func (p paced) StreamSynchronize(th *driver.Thread, h driver.Stream) driver.Result {
	p.sim.Finish()
	return p.Software.StreamSynchronize(th, h)
}

// sampleReport returns a report of n simulated devices with everything in it. Its times are
// invented. If odd is not "", something is missing, and odd is part of the texts from the machine.
func sampleReport(t *testing.T, odd string, n int) *nodeReport {
	t.Helper()
	r := &nodeReport{
		File: "report.html", Host: "gpu-node-7" + odd, Created: time.Date(2026, 7, 14, 3, 0, 5, 0, time.UTC),
		Cuprobe: programVersion(), Simulated: true, Missing: []skipped{}, Devices: &devicesReport{Driver: soft},
		Doctor: &doctorReport{Driver: &soft, Report: &loader.Report{
			Platform: "linux/amd64", Distribution: "Debian GNU/Linux 12 (bookworm)" + odd,
			Library: &loader.LibraryFacts{Name: "libcuda.so.1" + odd, Version: 13000, Simulated: true},
		}},
	}
	r.Cuprobe.Revision, r.Cuprobe.Modified = "", false
	r.measureSample(t, n)
	for i := range n {
		info := simulated
		info.Ordinal, info.Name, info.MemoryTotal = i, info.Name+odd, 150e9
		free := uint64(149e9)
		r.Devices.Devices = append(r.Devices.Devices, deviceDetail{deviceInfo: info, MemoryFree: &free})
		r.Doctor.Devices = append(r.Doctor.Devices, info)
		for _, name := range []string{
			"context, and a kernel compiled from PTX", "events around a kernel", "copies to the GPU and back",
			"closing everything",
		} {
			c := check{Device: i, Name: name, Passed: true, Detail: "it works" + odd, Took: ms}
			r.Doctor.Checks = append(r.Doctor.Checks, c)
		}
	}
	if n > 1 {
		r.Devices.Peers = []peer{{0, 1, true}, {1, 0, true}}
	}
	if odd != "" {
		r.addFailures(t, odd)
	}
	r.Doctor.judge()
	return r
}

// measureSample measures devices whose calls take random times.
func (r *nodeReport) measureSample(t *testing.T, n int) {
	t.Helper()
	sim := cusim.New(cusim.VirtualTime(), modelSpin(), cusim.Devices(n))
	pace := paced{sim.Software(), sim, new(sync.Mutex), rand.New(rand.NewPCG(1, 2))}
	provider := driver.Provide(override.Driver(pace))
	copies := &bench{samples: 5, parts: []string{partPinned, partPageable, partPeer}}
	for n := uint64(4 << 10); n <= 16<<20; n *= 4 {
		copies.sizes = append(copies.sizes, n)
	}
	r.Bench = benchOn(t, sim, provider, copies)
	calls := benchOn(t, sim, provider, &bench{samples: 200, parts: []string{partLatency}})
	r.Bench.Measurements = append(r.Bench.Measurements, calls.Measurements...)
	drv, err := cu.Open(cu.WithSoftware(provider))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	if r.Trace, err = tracePipeline(t.Context(), dev); err != nil {
		t.Fatal(err)
	}
}

// addFailures adds what is in a report if something fails.
func (r *nodeReport) addFailures(t *testing.T, odd string) {
	t.Helper()
	r.Missing = append(r.Missing, skipped{"a part" + odd, "it hangs" + odd})
	r.Doctor.Report.Findings = []loader.Finding{
		{Severity: loader.Fault, Title: "a fault" + odd, Detail: "its detail" + odd, Fix: "echo" + odd},
		{Severity: loader.Warning, Title: "a warning" + odd},
		{Severity: loader.Note, Title: "a note" + odd},
	}
	r.Bench.Warnings = append(r.Bench.Warnings, benchWarning{0, hint{warnBusy, "the device is busy" + odd}})
	name, err := json.Marshal("kernel 2" + odd)
	if err != nil {
		t.Fatal(err)
	}
	r.Trace = bytes.ReplaceAll(r.Trace, []byte(`"kernel 2"`), name)
	r.Devices.Devices[0].MemoryFree, r.Devices.Devices[0].MemoryFreeError = nil, "it fails"+odd
}
