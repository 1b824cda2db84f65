package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// fake is an NVML with GPUs, of which the handle is the index and 1. The handle of a MIG device is 10 times that of its
// GPU, and the index and 1.
type fake struct {
	raw.Unimplemented
	gpus   uint32
	mig    bool
	events chan raw.EventData // if there is one GPU
	sets   atomic.Uint64
	hidden bool                     // the last GPU is for other containers
	lost   atomic.Bool              // the last GPU
	hang   atomic.Pointer[chan int] // calls about the last GPU do not return before it is closed
}

// answer is the result of a call about a GPU.
func (f *fake) answer(d raw.Device) raw.Return {
	if f.gpus > 1 && d == raw.Device(f.gpus) {
		if hang := f.hang.Load(); hang != nil {
			<-*hang
		}
		if f.lost.Load() {
			return raw.NVML_ERROR_GPU_IS_LOST
		}
	}
	return raw.NVML_SUCCESS
}

// put sets a result.
func put[T any](f *fake, d raw.Device, result *T, value T) raw.Return {
	r := f.answer(d)
	if r == raw.NVML_SUCCESS {
		*result = value
	}
	return r
}

func (f *fake) InitV2() raw.Return   { return raw.NVML_SUCCESS }
func (f *fake) Shutdown() raw.Return { return raw.NVML_SUCCESS }

func (f *fake) DeviceGetCountV2(n *uint32) raw.Return {
	*n = f.gpus
	return raw.NVML_SUCCESS
}

func (f *fake) DeviceGetHandleByIndexV2(index uint32, d *raw.Device) raw.Return {
	if *d = raw.Device(index + 1); f.hidden && index == f.gpus-1 {
		return raw.NVML_ERROR_NO_PERMISSION
	}
	return raw.NVML_SUCCESS
}

func (f *fake) DeviceGetUUID(d raw.Device, uuid []byte) raw.Return {
	copy(uuid, fmt.Sprintf("GPU-%d\x00", d))
	return f.answer(d)
}

func (f *fake) DeviceGetName(d raw.Device, name []byte) raw.Return {
	copy(name, "NVIDIA H200\x00")
	if d > 10 {
		copy(name, "NVIDIA H200 MIG 1c.2g.35gb\x00")
	}
	return f.answer(d)
}

func (f *fake) DeviceGetPciInfoV3(d raw.Device, pci *raw.PciInfo) raw.Return {
	return put(f, d, pci, raw.PciInfo{Bus: uint32(d)})
}

func (f *fake) DeviceGetMinorNumber(d raw.Device, n *uint32) raw.Return {
	return put(f, d, n, uint32(d)+3)
}

func (f *fake) DeviceGetTemperature(d raw.Device, _ raw.TemperatureSensors, t *uint32) raw.Return {
	return put(f, d, t, 41)
}

func (f *fake) DeviceGetPowerUsage(d raw.Device, p *uint32) raw.Return { return put(f, d, p, 71_500) }

func (f *fake) DeviceGetTotalEnergyConsumption(d raw.Device, e *uint64) raw.Return {
	return put(f, d, e, 1_204_500)
}

func (f *fake) DeviceGetMemoryInfoV2(d raw.Device, m *raw.MemoryV2) raw.Return {
	return put(f, d, m, raw.MemoryV2{Total: 8 << 30, Free: 5 << 30, Used: 2 << 30, Reserved: 1 << 30})
}

func (f *fake) DeviceGetUtilizationRates(d raw.Device, u *raw.Utilization) raw.Return {
	if f.mig {
		return raw.NVML_ERROR_NOT_SUPPORTED
	}
	return put(f, d, u, raw.Utilization{Gpu: 50, Memory: 25})
}

func (f *fake) DeviceGetClockInfo(d raw.Device, c raw.ClockType, mhz *uint32) raw.Return {
	return put(f, d, mhz, 1980+uint32(c))
}

func (f *fake) DeviceGetPcieReplayCounter(d raw.Device, n *uint32) raw.Return { return put(f, d, n, 7) }

func (f *fake) DeviceGetTotalEccErrors(d raw.Device, e raw.MemoryErrorType, c raw.EccCounterType,
	n *uint64) raw.Return {
	return put(f, d, n, 1+uint64(e)+2*uint64(c))
}

func (f *fake) DeviceGetRemappedRowsV2(d raw.Device, n *raw.RemappedRowsInfoV2) raw.Return {
	return put(f, d, n, raw.RemappedRowsInfoV2{CorrActiveRemaps: 5, UncActiveRemaps: 6, BFailureOccurred: 1})
}

func (f *fake) DeviceGetCurrentClocksEventReasons(d raw.Device, r *uint64) raw.Return {
	return put(f, d, r, raw.ClocksEventReasonSwPowerCap)
}

func (f *fake) DeviceGetFieldValues(d raw.Device, values []raw.FieldValue) raw.Return {
	for i := range values {
		values[i].ValueType, values[i].NvmlReturn = raw.NVML_VALUE_TYPE_UNSIGNED_INT, raw.NVML_ERROR_NOT_SUPPORTED
		switch values[i].FieldId {
		case raw.NVML_FI_DEV_MEMORY_TEMP:
			values[i].Value[0], values[i].NvmlReturn = 52, raw.NVML_SUCCESS
		case raw.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL:
			values[i].Value[0], values[i].NvmlReturn = 3, raw.NVML_SUCCESS
		case raw.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL:
			values[i].NvmlReturn = raw.NVML_ERROR_INVALID_ARGUMENT
		}
	}
	return f.answer(d)
}

func (f *fake) DeviceGetMaxMigDeviceCount(d raw.Device, n *uint32) raw.Return {
	if !f.mig {
		return raw.NVML_ERROR_NOT_SUPPORTED
	}
	return put(f, d, n, 4)
}

func (f *fake) DeviceGetMigDeviceHandleByIndex(d raw.Device, index uint32, mig *raw.Device) raw.Return {
	if index == 1 {
		return raw.NVML_ERROR_NOT_FOUND
	}
	return put(f, d, mig, d*10+raw.Device(index)+1)
}

// The first two MIG devices share a GPU instance.
func (f *fake) DeviceGetGpuInstanceId(d raw.Device, id *uint32) raw.Return {
	return put(f, d, id, uint32(d%10)/4)
}

func (f *fake) DeviceGetComputeInstanceId(d raw.Device, id *uint32) raw.Return {
	return put(f, d, id, uint32(d%10)/3)
}

func (f *fake) EventSetCreate(set *raw.EventSet) raw.Return {
	*set = raw.EventSet(f.sets.Add(1))
	return raw.NVML_SUCCESS
}

func (f *fake) EventSetFree(raw.EventSet) raw.Return { return raw.NVML_SUCCESS }

func (f *fake) DeviceRegisterEvents(d raw.Device, kinds uint64, set raw.EventSet) raw.Return {
	if kinds != raw.EventTypeXidCriticalError {
		return raw.NVML_ERROR_NOT_SUPPORTED
	}
	return f.answer(d)
}

func (f *fake) EventSetWaitV2(_ raw.EventSet, data *raw.EventData, ms uint32) raw.Return {
	if f.gpus > 1 {
		time.Sleep(time.Duration(ms) * time.Millisecond)
		return raw.NVML_ERROR_TIMEOUT
	}
	select {
	case *data = <-f.events:
		return raw.NVML_SUCCESS
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return raw.NVML_ERROR_TIMEOUT
	}
}

// serve runs the exporter with a fake NVML.
func serve(t *testing.T, f *fake, names string, limit time.Duration) (addr string) {
	t.Helper()
	drv := cutest.Driver(t, cusim.Devices(1))
	e := exporter{every: 5 * time.Millisecond, limit: limit, linger: time.Hour}
	n, err := newGPUs(names)
	if err != nil {
		t.Fatal(err)
	}
	n.host, n.opts = "host", []nvml.Option{nvml.WithSoftware(f)}
	e.gpus = n
	addr, cancel, ended := start(t, drv, e)
	t.Cleanup(func() { stop(t, cancel, ended) })
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
gpu_info|device="nvidia4",gpu="0",name="NVIDIA H200",pci_bus_id="00000000:01:00.0",uuid="GPU-1" 1
gpu_temperature_celsius 41
gpu_memory_temperature_celsius 52
gpu_power_watts 71.5
gpu_energy_joules_total 1204.5
gpu_memory_used_bytes 2147483648
gpu_memory_free_bytes 5368709120
gpu_memory_size_bytes 8589934592
gpu_utilization_ratio 0.5
gpu_memory_utilization_ratio 0.25
gpu_sm_clock_hertz 1981e6
gpu_memory_clock_hertz 1982e6
gpu_clock_reason|…,reason="idle" 0
gpu_clock_reason|…,reason="applications_clocks" 0
gpu_clock_reason|…,reason="software_power_cap" 1
gpu_clock_reason|…,reason="hardware_slowdown" 0
gpu_clock_reason|…,reason="sync_boost" 0
gpu_clock_reason|…,reason="software_thermal_slowdown" 0
gpu_clock_reason|…,reason="hardware_thermal_slowdown" 0
gpu_clock_reason|…,reason="power_brake" 0
gpu_clock_reason|…,reason="display_clock" 0
gpu_pcie_replays_total 7
gpu_ecc_errors_total|error="corrected",… 1
gpu_ecc_errors_total|error="uncorrected",… 2
gpu_ecc_lifetime_errors_total|error="corrected",… 3
gpu_ecc_lifetime_errors_total|error="uncorrected",… 4
gpu_remapped_rows_total|error="corrected",… 5
gpu_remapped_rows_total|error="uncorrected",… 6
gpu_row_remap_pending 0
gpu_row_remap_failed 1
gpu_nvlink_errors_total|error="replay",… 3
`

const dcgmPage = `nvml_up 1
DCGM_FI_DEV_GPU_TEMP 41
DCGM_FI_DEV_MEMORY_TEMP 52
DCGM_FI_DEV_POWER_USAGE 71.5
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 1204500
DCGM_FI_DEV_FB_USED 2048
DCGM_FI_DEV_FB_FREE 5120
DCGM_FI_DEV_FB_TOTAL 8192
DCGM_FI_DEV_GPU_UTIL 50
DCGM_FI_DEV_MEM_COPY_UTIL 25
DCGM_FI_DEV_SM_CLOCK 1981
DCGM_FI_DEV_MEM_CLOCK 1982
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS 4
DCGM_FI_DEV_PCIE_REPLAY_COUNTER 7
DCGM_FI_DEV_ECC_SBE_VOL_TOTAL 1
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL 2
DCGM_FI_DEV_ECC_SBE_AGG_TOTAL 3
DCGM_FI_DEV_ECC_DBE_AGG_TOTAL 4
DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS 5
DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS 6
DCGM_FI_DEV_ROW_REMAP_PENDING 0
DCGM_FI_DEV_ROW_REMAP_FAILURE 1
DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL 3
DCGM_FI_DEV_XID_ERRORS 0
`

const (
	nvmlLabels = `gpu="0",uuid="GPU-1"`
	dcgmLabels = `Hostname="host",UUID="GPU-1",device="nvidia4",gpu="0",modelName="NVIDIA H200",` +
		`pci_bus_id="00000000:01:00.0"`
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
	p := read(t, serve(t, &fake{gpus: 1}, "nvml", time.Minute))
	checkValues(t, values(p), parse(t, nvmlPage, nvmlLabels))
	for name, family := range p {
		if strings.HasSuffix(name, "_total") != (family.GetType() == dto.MetricType_COUNTER) || family.GetHelp() == "" {
			t.Errorf("%s is a %v: %s", name, family.GetType(), family.GetHelp())
		}
	}
	p = read(t, serve(t, &fake{gpus: 1}, "dcgm", time.Minute))
	checkValues(t, values(p), parse(t, dcgmPage, dcgmLabels))
	if _, err := newGPUs("other"); err == nil {
		t.Error("other names are possible")
	}
}

// TestLostGPU checks that a lost GPU says so, does not affect the other one, and can come back.
func TestLostGPU(t *testing.T) {
	f := &fake{gpus: 2}
	f.lost.Store(true)
	addr := serve(t, f, "nvml", time.Minute)
	const alive, lost = `nvml_up{gpu="0",uuid="GPU-1"}`, `nvml_up{gpu="1"}`
	var got map[string]float64
	until(t, addr, "a GPU that was read, and one that is lost", func(p page) bool {
		got = values(p)
		return got[alive] == 1 && got[`nvml_failures_total{gpu="1",result="NVML_ERROR_GPU_IS_LOST"}`] > 2
	})
	delete(got, `nvml_failures_total{gpu="1",result="NVML_ERROR_GPU_IS_LOST"}`)
	want := parse(t, nvmlPage, nvmlLabels)
	want[lost] = 0
	checkValues(t, got, want)
	f.lost.Store(false)
	read(t, addr)
	f.lost.Store(true)
	until(t, addr, "a lost GPU", func(p page) bool {
		got := values(p)
		up, known := got[`nvml_up{gpu="1",uuid="GPU-2"}`]
		_, stale := got[`gpu_power_watts{gpu="1",uuid="GPU-2"}`]
		return known && up == 0 && !stale && got[alive] == 1 &&
			got[`gpu_info{device="nvidia5",gpu="1",name="NVIDIA H200",pci_bus_id="00000000:02:00.0",uuid="GPU-2"}`] == 1
	})
}

// TestHiddenGPU checks that a GPU that the container does not have is not one that is lost.
func TestHiddenGPU(t *testing.T) {
	addr := serve(t, &fake{gpus: 2, hidden: true}, "nvml", time.Minute)
	until(t, addr, "one GPU", func(p page) bool {
		return len(p["nvml_up"].GetMetric()) == 1 && p["nvml_up"].GetMetric()[0].GetGauge().GetValue() == 1
	})
}

func TestHangingGPU(t *testing.T) {
	f := &fake{gpus: 2}
	addr := serve(t, f, "nvml", 200*time.Millisecond)
	read(t, addr)
	hang := make(chan int)
	f.hang.Store(&hang)
	until(t, addr, "a GPU that hangs", func(p page) bool {
		got := values(p)
		up, known := got[`nvml_up{gpu="1",uuid="GPU-2"}`]
		return known && up == 0 && got[`nvml_failures_total{gpu="1",result="timeout"}`] > 1 &&
			got[`gpu_power_watts{gpu="0",uuid="GPU-1"}`] == 71.5
	})
	f.hang.Store(nil)
	close(hang)
	read(t, addr)
}

func TestXIDs(t *testing.T) {
	const none = ^uint32(0)
	send := func(f *fake) {
		f.events <- raw.EventData{Device: 1, EventType: raw.EventTypeXidCriticalError, EventData: 79,
			GpuInstanceId: none, ComputeInstanceId: none}
		f.events <- raw.EventData{Device: 1, EventType: raw.EventTypeXidCriticalError, EventData: 31,
			GpuInstanceId: 2, ComputeInstanceId: 1}
		f.events <- raw.EventData{Device: 1, EventType: raw.EventTypeXidCriticalError, EventData: 31,
			GpuInstanceId: 2, ComputeInstanceId: 0}
	}
	for _, tt := range []struct{ names, xids, common, page string }{
		{"nvml", `gpu_xid_errors_total|…,xid="79" 1
gpu_xid_errors_total|compute_instance="1",gpu="0",gpu_instance="2",uuid="GPU-1",xid="31" 1
gpu_xid_errors_total|compute_instance="0",gpu="0",gpu_instance="2",uuid="GPU-1",xid="31" 1
`, nvmlLabels, nvmlPage},
		{"dcgm", `DCGM_EXP_XID_ERRORS_TOTAL|…,xid="79" 1
DCGM_EXP_XID_ERRORS_TOTAL|GPU_I_ID="2",…,xid="31" 2
DCGM_FI_DEV_XID_ERRORS 31
`, dcgmLabels, dcgmPage},
	} {
		f := &fake{gpus: 1}
		f.events = make(chan raw.EventData)
		addr := serve(t, f, tt.names, time.Minute)
		read(t, addr)
		send(f)
		want := parse(t, tt.page, tt.common)
		maps.Copy(want, parse(t, tt.xids, tt.common))
		last := until(t, addr, "XIDs", func(p page) bool {
			got := values(p)
			for name, n := range want {
				if _, ok := got[name]; !ok || strings.Contains(name, "XID") && got[name] != n {
					return false
				}
			}
			return true
		})
		checkValues(t, values(last), want)
	}
}

// TestMIG checks that the memory of a GPU with MIG devices is theirs.
func TestMIG(t *testing.T) {
	got := map[string]float64{}
	for _, names := range []string{"nvml", "dcgm"} {
		for name, v := range values(read(t, serve(t, &fake{gpus: 1, mig: true}, names, time.Minute))) {
			if strings.Contains(name, "_used") || strings.Contains(name, "USED") || strings.Contains(name, "util") {
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

// TestNVMLAlerts checks that the alerts are about metrics that exist.
func TestNVMLAlerts(t *testing.T) {
	rules, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{gpus: 2}
	f.lost.Store(true)
	addr := serve(t, f, "nvml", time.Minute)
	p := until(t, addr, "metrics and failures", func(p page) bool {
		return p["nvml_failures_total"] != nil && p["gpu_power_watts"] != nil
	})
	names := regexp.MustCompile(`\b(gpu|nvml)_\w+`).FindAllString(string(rules), -1)
	for _, name := range names {
		if p[name] == nil && name != xids.name {
			t.Errorf("alerts.yml has %s, which the exporter has not", name)
		}
	}
	if len(names) == 0 {
		t.Error("there are no alerts")
	}
}
