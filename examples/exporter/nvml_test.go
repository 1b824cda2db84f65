package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// machine is a software driver with GPUs whose time stands still, so that NVML's values do not change. GPU 0 has a
// context with memory, has worked for half of the last second, and has had errors.
func machine(t *testing.T, gpus int) *cusim.Driver {
	t.Helper()
	drv, sim := cutest.Soft(t, cusim.Devices(gpus), cusim.VirtualTime(),
		cusim.WithKernel("empty", cusim.Kernel{Time: func(*cusim.Launch) time.Duration { return time.Second / 2 }}))
	dev, err1 := drv.Device(0)
	gpu, err2 := dev.PrimaryContext()
	s, err3 := gpu.NewStream(cu.StreamNonBlocking)
	mod, err4 := gpu.LoadModule([]byte(".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty() { ret; }"))
	kernel, err5 := mod.Function("empty")
	mem, err6 := gpu.Alloc(2 << 30)
	err7 := kernel.Launch(s, cu.Grid1D(1, 1))
	sim.Advance(time.Second)
	if err := cmp.Or(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []io.Closer{mem, mod, s, gpu} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	sim.ECCErrors(0, 1, 2)
	sim.SetRemappedRows(0, cusim.RemappedRows{Corrected: 5, Uncorrected: 6, Failed: true})
	sim.SetClockReasons(0, raw.ClocksEventReasonSwPowerCap)
	return sim
}

// serve runs the exporter with an NVML. It probes a device of another driver, whose time goes on.
func serve(t *testing.T, sim *cusim.Driver, software raw.Software, names string, limit time.Duration) (addr string) {
	t.Helper()
	drv := cutest.Driver(t, cusim.Devices(1))
	e := exporter{every: 5 * time.Millisecond, limit: limit, linger: time.Hour}
	n, err := newGPUs(names)
	if err != nil {
		t.Fatal(err)
	}
	n.host, n.opts = "host", []nvml.Option{nvml.WithSoftware(software)}
	e.gpus = n
	addr, cancel, ended := start(t, drv, e)
	t.Cleanup(func() {
		stop(t, cancel, ended, sim)
		sim.Advance(time.Hour) // the last waits for events end
	})
	return addr
}

// values returns the metrics of GPUs, by their names and sorted labels.
func values(p page) map[string]float64 {
	all := map[string]float64{}
	for name, family := range p {
		if strings.HasPrefix(name, "cuda_") {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			slices.Sort(labels)
			all[name+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

// parse returns the metrics of lines of a name, labels behind a |, and a number. Without labels, or with …, a line
// has the common ones.
func parse(t *testing.T, text, common string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		m := regexp.MustCompile(`^(\w+)(?:\|(.*))? (\S+)\n$`).FindStringSubmatch(line)
		if m == nil {
			t.Fatal(line)
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatal(line, err)
		}
		labels := strings.Split(strings.Replace(cmp.Or(m[2], "…"), "…", common, 1), ",")
		slices.Sort(labels)
		all[m[1]+"{"+strings.Join(labels, ",")+"}"] = value
	}
	return all
}

func checkValues(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for k, v := range want {
		if g, ok := got[k]; !ok || g < v*0.999999 || g > v*1.000001 {
			t.Errorf("%s is %v, %t; want %v", k, g, ok, v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%s is %v, and should not be", k, v)
		}
	}
}

const nvmlPage = `nvml_up 1
gpu_info|…,device="nvidia0",name="Simulated H200",pci_bus_id="00000000:3B:00.0" 1
gpu_temperature_celsius 46
gpu_memory_temperature_celsius 46
gpu_power_watts 385
gpu_energy_joules_total 385
gpu_memory_used_bytes 2704080896
gpu_memory_free_bytes 147405799424
gpu_memory_size_bytes 150754820096
gpu_utilization_ratio 0.5
gpu_memory_utilization_ratio 0.03
gpu_encoder_utilization_ratio 0
gpu_decoder_utilization_ratio 0
gpu_sm_clock_hertz 1980e6
gpu_memory_clock_hertz 3201e6
gpu_clock_reason|…,reason="idle" 0
gpu_clock_reason|…,reason="applications_clocks" 0
gpu_clock_reason|…,reason="software_power_cap" 1
gpu_clock_reason|…,reason="hardware_slowdown" 0
gpu_clock_reason|…,reason="sync_boost" 0
gpu_clock_reason|…,reason="software_thermal_slowdown" 0
gpu_clock_reason|…,reason="hardware_thermal_slowdown" 0
gpu_clock_reason|…,reason="power_brake" 0
gpu_clock_reason|…,reason="display_clock" 0
gpu_pcie_replays_total 1
gpu_ecc_errors_total|error="corrected",… 1
gpu_ecc_errors_total|error="uncorrected",… 2
gpu_ecc_lifetime_errors_total|error="corrected",… 1
gpu_ecc_lifetime_errors_total|error="uncorrected",… 2
gpu_remapped_rows_total|error="corrected",… 5
gpu_remapped_rows_total|error="uncorrected",… 6
gpu_row_remap_pending 0
gpu_row_remap_failed 1
`

const dcgmPage = `nvml_up 1
DCGM_FI_DEV_GPU_TEMP 46
DCGM_FI_DEV_MEMORY_TEMP 46
DCGM_FI_DEV_POWER_USAGE 385
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 385000
DCGM_FI_DEV_FB_USED 2578.8125
DCGM_FI_DEV_FB_FREE 140577.125
DCGM_FI_DEV_FB_TOTAL 143771
DCGM_FI_DEV_GPU_UTIL 50
DCGM_FI_DEV_MEM_COPY_UTIL 3
DCGM_FI_DEV_ENC_UTIL 0
DCGM_FI_DEV_DEC_UTIL 0
DCGM_FI_DEV_SM_CLOCK 1980
DCGM_FI_DEV_MEM_CLOCK 3201
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS 4
DCGM_FI_DEV_PCIE_REPLAY_COUNTER 1
DCGM_FI_DEV_ECC_SBE_VOL_TOTAL 1
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL 2
DCGM_FI_DEV_ECC_SBE_AGG_TOTAL 1
DCGM_FI_DEV_ECC_DBE_AGG_TOTAL 2
DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS 5
DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS 6
DCGM_FI_DEV_ROW_REMAP_PENDING 0
DCGM_FI_DEV_ROW_REMAP_FAILURE 1
DCGM_FI_DEV_XID_ERRORS 0
`

const (
	uuid0      = "GPU-c5514000-0000-0000-0000-000000000000"
	uuid1      = "GPU-d6514000-0000-0000-0000-000000000001"
	nvmlLabels = `gpu="0",uuid="` + uuid0 + `"`
	dcgmLabels = `Hostname="host",UUID="` + uuid0 + `",device="nvidia0",gpu="0",modelName="Simulated H200",` +
		`pci_bus_id="00000000:3B:00.0"`
)

// read waits until all GPUs were read.
func read(t *testing.T, addr string) page {
	t.Helper()
	return until(t, addr, "GPUs that were read", func(p page) bool {
		for _, m := range p["nvml_up"].GetMetric() {
			if m.GetGauge().GetValue() != 1 {
				return false
			}
		}
		return p["nvml_up"] != nil
	})
}

func TestNames(t *testing.T) {
	sim := machine(t, 1)
	p := read(t, serve(t, sim, sim.NVML(), "nvml", time.Minute))
	checkValues(t, values(p), parse(t, nvmlPage, nvmlLabels))
	for name, family := range p {
		if strings.HasSuffix(name, "_total") != (family.GetType() == dto.MetricType_COUNTER) || family.GetHelp() == "" {
			t.Errorf("%s is a %v: %s", name, family.GetType(), family.GetHelp())
		}
	}
	p = read(t, serve(t, sim, sim.NVML(), "dcgm", time.Minute))
	checkValues(t, values(p), parse(t, dcgmPage, dcgmLabels))
	if _, err := newGPUs("other"); err == nil {
		t.Error("other names are possible")
	}
}

// TestLostGPU checks that a lost GPU says so, does not affect the other one, and can come back.
func TestLostGPU(t *testing.T) {
	sim := machine(t, 2)
	lose := func() { sim.InjectNVML(cusim.NVMLFault{GPUs: []int{1}, Result: raw.NVML_ERROR_GPU_IS_LOST}) }
	lose()
	addr := serve(t, sim, sim.NVML(), "nvml", time.Minute)
	const alive, lost = `nvml_up{gpu="0",uuid="` + uuid0 + `"}`, `nvml_up{gpu="1"}`
	var got map[string]float64
	until(t, addr, "a GPU that was read, and one that is lost", func(p page) bool {
		got = values(p)
		return got[alive] == 1 && got[`nvml_failures_total{gpu="1",result="NVML_ERROR_GPU_IS_LOST"}`] > 2
	})
	delete(got, `nvml_failures_total{gpu="1",result="NVML_ERROR_GPU_IS_LOST"}`)
	want := parse(t, nvmlPage, nvmlLabels)
	want[lost] = 0
	checkValues(t, got, want)
	sim.ClearFaults()
	read(t, addr)
	sim.LoseGPU(1)
	until(t, addr, "a lost GPU", func(p page) bool {
		got := values(p)
		up, known := got[`nvml_up{gpu="1",uuid="`+uuid1+`"}`]
		_, stale := got[`gpu_power_watts{gpu="1",uuid="`+uuid1+`"}`]
		return known && up == 0 && !stale && got[alive] == 1 &&
			got[`gpu_info{device="nvidia1",gpu="1",name="Simulated H200",pci_bus_id="00000000:3C:00.0",uuid="`+uuid1+`"}`] == 1
	})
}

// hidden is an NVML whose GPU 1 is for other containers.
type hidden struct{ raw.Software }

func (h hidden) DeviceGetHandleByIndexV2(index uint32, d *raw.Device) raw.Return {
	if index == 1 {
		return raw.NVML_ERROR_NO_PERMISSION
	}
	return h.Software.DeviceGetHandleByIndexV2(index, d)
}

// TestHiddenGPU checks that a GPU that the container does not have is not one that is lost.
func TestHiddenGPU(t *testing.T) {
	sim := machine(t, 2)
	addr := serve(t, sim, hidden{sim.NVML()}, "nvml", time.Minute)
	until(t, addr, "one GPU", func(p page) bool {
		return len(p["nvml_up"].GetMetric()) == 1 && p["nvml_up"].GetMetric()[0].GetGauge().GetValue() == 1
	})
}

func TestHangingGPU(t *testing.T) {
	sim := machine(t, 2)
	addr := serve(t, sim, sim.NVML(), "nvml", 200*time.Millisecond)
	read(t, addr)
	sim.InjectNVML(cusim.NVMLFault{GPUs: []int{1}, Hangs: true})
	until(t, addr, "a GPU that hangs", func(p page) bool {
		got := values(p)
		up, known := got[`nvml_up{gpu="1",uuid="`+uuid1+`"}`]
		return known && up == 0 && got[`nvml_failures_total{gpu="1",result="timeout"}`] > 1 &&
			got[`gpu_power_watts{gpu="0",uuid="`+uuid0+`"}`] == 385
	})
	sim.ClearFaults()
	read(t, addr)
}

// parts is an NVML with what the software NVML does not have. GPU 0 has three MIG devices, of which the first two share
// a GPU instance. XID 31 is for compute instances 1 and 0 of GPU instance 2, in turn. There are errors of NVLinks, and
// two errors of memory of each kind are older than the driver.
type parts struct {
	raw.Software
	mig  bool
	xids atomic.Uint32
}

// firstPart is the handle of the first MIG device. The handle of another one has its index more.
const firstPart raw.Device = 1 << 40

func (p *parts) DeviceGetMaxMigDeviceCount(d raw.Device, n *uint32) raw.Return {
	if !p.mig {
		return p.Software.DeviceGetMaxMigDeviceCount(d, n)
	}
	*n = 4
	return raw.NVML_SUCCESS
}

func (p *parts) DeviceGetMigDeviceHandleByIndex(_ raw.Device, index uint32, mig *raw.Device) raw.Return {
	*mig = firstPart + raw.Device(index)
	if index == 1 {
		return raw.NVML_ERROR_NOT_FOUND
	}
	return raw.NVML_SUCCESS
}

func (p *parts) DeviceGetGpuInstanceId(d raw.Device, id *uint32) raw.Return {
	*id = uint32(d-firstPart) / 3
	return raw.NVML_SUCCESS
}

func (p *parts) DeviceGetComputeInstanceId(d raw.Device, id *uint32) raw.Return {
	*id = min(uint32(d-firstPart)/2, 1)
	return raw.NVML_SUCCESS
}

func (p *parts) DeviceGetName(d raw.Device, name []byte) raw.Return {
	if d < firstPart {
		return p.Software.DeviceGetName(d, name)
	}
	copy(name, "NVIDIA H200 MIG 1c.2g.35gb\x00")
	return raw.NVML_SUCCESS
}

func (p *parts) DeviceGetMemoryInfoV2(d raw.Device, m *raw.MemoryV2) raw.Return {
	if d < firstPart {
		return p.Software.DeviceGetMemoryInfoV2(d, m)
	}
	*m = raw.MemoryV2{Total: 8 << 30, Free: 5 << 30, Used: 2 << 30, Reserved: 1 << 30}
	return raw.NVML_SUCCESS
}

func (p *parts) DeviceGetTotalEccErrors(d raw.Device, e raw.MemoryErrorType, since raw.EccCounterType,
	n *uint64) raw.Return {
	r := p.Software.DeviceGetTotalEccErrors(d, e, since, n)
	*n += 2 * uint64(since)
	return r
}

func (p *parts) DeviceGetFieldValues(d raw.Device, values []raw.FieldValue) raw.Return {
	r := p.Software.DeviceGetFieldValues(d, values)
	for i := range values {
		switch v := &values[i]; v.FieldId {
		case raw.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL:
			v.ValueType, v.NvmlReturn, v.Value[0] = raw.NVML_VALUE_TYPE_UNSIGNED_INT, raw.NVML_SUCCESS, 3
		case raw.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL:
			v.NvmlReturn = raw.NVML_ERROR_INVALID_ARGUMENT // this driver does not know the field
		}
	}
	return r
}

func (p *parts) EventSetWaitV2(set raw.EventSet, data *raw.EventData, ms uint32) raw.Return {
	r := p.Software.EventSetWaitV2(set, data, ms)
	if r == raw.NVML_SUCCESS && data.EventData == 31 {
		data.GpuInstanceId, data.ComputeInstanceId = 2, p.xids.Add(1)%2
	}
	return r
}

func TestXIDs(t *testing.T) {
	for _, tt := range []struct{ names, changes, common, page string }{
		{"nvml", `gpu_xid_errors_total|…,xid="79" 1
gpu_xid_errors_total|compute_instance="1",…,gpu_instance="2",xid="31" 1
gpu_xid_errors_total|compute_instance="0",…,gpu_instance="2",xid="31" 1
gpu_nvlink_errors_total|error="replay",… 3
gpu_ecc_lifetime_errors_total|error="corrected",… 3
gpu_ecc_lifetime_errors_total|error="uncorrected",… 4
`, nvmlLabels, nvmlPage},
		{"dcgm", `DCGM_EXP_XID_ERRORS_TOTAL|…,xid="79" 1
DCGM_EXP_XID_ERRORS_TOTAL|GPU_I_ID="2",…,xid="31" 2
DCGM_FI_DEV_XID_ERRORS 31
DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL 3
DCGM_FI_DEV_ECC_SBE_AGG_TOTAL 3
DCGM_FI_DEV_ECC_DBE_AGG_TOTAL 4
`, dcgmLabels, dcgmPage},
	} {
		sim := machine(t, 1)
		nvml := &watched{parts: parts{Software: sim.NVML()}, ready: make(chan struct{})}
		addr := serve(t, sim, nvml, tt.names, time.Minute)
		read(t, addr)
		<-nvml.ready
		for _, number := range []int{79, 31, 31} {
			sim.XID(0, number)
		}
		want := parse(t, tt.page, tt.common)
		maps.Copy(want, parse(t, tt.changes, tt.common))
		last := until(t, addr, "XIDs", func(p page) bool {
			got := values(p)
			for name, n := range want {
				if _, ok := got[name]; !ok || strings.Contains(strings.ToLower(name), "xid") && got[name] != n {
					return false
				}
			}
			return true
		})
		checkValues(t, values(last), want)
	}
}

// watched is an NVML that says when events are waited for.
type watched struct {
	parts
	ready chan struct{}
	once  sync.Once
}

func (w *watched) EventSetWaitV2(set raw.EventSet, data *raw.EventData, ms uint32) raw.Return {
	w.once.Do(func() { close(w.ready) })
	return w.parts.EventSetWaitV2(set, data, ms)
}

// TestMIG checks that the memory of a GPU with MIG devices is theirs.
func TestMIG(t *testing.T) {
	sim := machine(t, 1)
	got := map[string]float64{}
	for _, names := range []string{"nvml", "dcgm"} {
		addr := serve(t, sim, &parts{Software: sim.NVML(), mig: true}, names, time.Minute)
		for name, v := range values(read(t, addr)) {
			if strings.Contains(name, "_used") || strings.Contains(name, "USED") {
				got[name] = v
			}
		}
	}
	want := parse(t, `gpu_memory_used_bytes|compute_instance="0",gpu_instance="0",profile="1c.2g.35gb",… 2147483648
gpu_memory_used_bytes|compute_instance="1",gpu_instance="0",profile="1c.2g.35gb",… 2147483648
gpu_memory_used_bytes|compute_instance="1",gpu_instance="1",profile="1c.2g.35gb",… 2147483648
`, nvmlLabels)
	maps.Copy(want, parse(t, `DCGM_FI_DEV_FB_USED|GPU_I_ID="0",GPU_I_PROFILE="2g.35gb",… 2048
DCGM_FI_DEV_FB_USED|GPU_I_ID="1",GPU_I_PROFILE="2g.35gb",… 2048
`, dcgmLabels))
	checkValues(t, got, want)
}

// TestNVMLQueries checks that the alerts and the dashboard are about metrics that exist.
func TestNVMLQueries(t *testing.T) {
	sim := machine(t, 2)
	sim.LoseGPU(1)
	addr := serve(t, sim, sim.NVML(), "nvml", time.Minute)
	p := until(t, addr, "metrics and failures", func(p page) bool {
		return p["nvml_failures_total"] != nil && p["gpu_power_watts"] != nil
	})
	for file, text := range queries(t) {
		names := regexp.MustCompile(`\b(gpu|nvml)_\w+`).FindAllString(text, -1)
		for _, name := range names {
			if p[name] == nil && name != xids.name {
				t.Errorf("%s has %s, which the exporter has not", file, name)
			}
		}
		if len(names) == 0 {
			t.Errorf("%s has no metric of NVML", file)
		}
	}
}
