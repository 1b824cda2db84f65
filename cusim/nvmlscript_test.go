package cusim_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// TestGPUFaults checks what the environment variable CUSIM_GPU_FAULTS makes happen, and when.
func TestGPUFaults(t *testing.T) {
	sim := cusim.New(cusim.Devices(2), cusim.VirtualTime(),
		environment(t, "CUSIM_GPU_FAULTS=0:xid=79@5s, 0:ecc=3/1,1:lost@10s,0:rows=2/1,0:reasons=0x8"))
	lib := raw.NewSoftware(sim.NVML())
	var devices [2]raw.Device
	var set raw.EventSet
	lib.InitV2()
	for i := range devices {
		is(t, lib.DeviceGetHandleByIndexV2(uint32(i), &devices[i]), raw.NVML_SUCCESS)
	}
	is(t, lib.EventSetCreate(&set), raw.NVML_SUCCESS)
	is(t, lib.DeviceRegisterEvents(devices[0], raw.EventTypeXidCriticalError, set), raw.NVML_SUCCESS)

	var count uint64
	var reasons uint64
	var rows raw.RemappedRowsInfoV2
	lib.DeviceGetTotalEccErrors(devices[0], raw.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, raw.NVML_AGGREGATE_ECC, &count)
	lib.DeviceGetCurrentClocksEventReasons(devices[0], &reasons)
	lib.DeviceGetRemappedRowsV2(devices[0], &rows)
	if count != 1 || reasons&0x8 == 0 || rows.CorrActiveRemaps != 2 || rows.UncActiveRemaps != 1 {
		t.Errorf("%d errors, reasons %#x, rows %+v", count, reasons, rows)
	}

	var data raw.EventData
	sim.Advance(4 * time.Second)
	is(t, lib.EventSetWaitV2(set, &data, 0), raw.NVML_ERROR_TIMEOUT)
	sim.Advance(time.Second)
	is(t, lib.EventSetWaitV2(set, &data, 0), raw.NVML_SUCCESS)
	if data.Device != devices[0] || data.EventData != 79 {
		t.Errorf("the event is %+v", data)
	}

	var temp uint32
	is(t, lib.DeviceGetTemperature(devices[1], 0, &temp), raw.NVML_SUCCESS)
	sim.Advance(5 * time.Second)
	is(t, lib.DeviceGetTemperature(devices[1], 0, &temp), raw.NVML_ERROR_GPU_IS_LOST)
	is(t, lib.DeviceGetTemperature(devices[0], 0, &temp), raw.NVML_SUCCESS)
}

func is(t *testing.T, got, want raw.Return) {
	t.Helper()
	if got != want {
		t.Errorf("%v, not %v", got, want)
	}
}

// TestNVMLFunctionFaults checks which calls fail, or last longer, because of the variable CUSIM_FAULTS.
func TestNVMLFunctionFaults(t *testing.T) {
	const lost, denied = raw.NVML_ERROR_GPU_IS_LOST, raw.NVML_ERROR_NO_PERMISSION
	for _, tt := range []struct {
		faults string
		want   [5]raw.Return // the results of calls of nvmlDeviceGetMemoryInfo_v2
	}{
		{"nvmlDeviceGetMemoryInfo=15", [5]raw.Return{lost}},
		{"nvmlDeviceGetMemoryInfo_v2+=4", [5]raw.Return{denied, denied, denied, denied, denied}},
		{"nvmlDeviceGetMemoryInfo@3+=15,cuInit=2", [5]raw.Return{2: lost, 3: lost, 4: lost}},
		{"nvmlDeviceGetMemoryInfo@4=15, nvmlDeviceGetMemoryInfo@2+=4",
			[5]raw.Return{1: denied, 2: denied, 3: lost, 4: denied}},
		{"nvmlDeviceGetMemoryInfo~1ms,nvmlDeviceGetTemperature+=15,*+=2", [5]raw.Return{}},
	} {
		lib := raw.NewSoftware(cusim.New(environment(t, "CUSIM_FAULTS="+tt.faults)).NVML())
		var dev raw.Device
		is(t, lib.InitV2(), raw.NVML_SUCCESS)
		is(t, lib.DeviceGetHandleByIndexV2(0, &dev), raw.NVML_SUCCESS)
		var got [5]raw.Return
		for i := range got {
			got[i] = lib.DeviceGetMemoryInfoV2(dev, &raw.MemoryV2{Version: raw.MemoryV2Version})
		}
		if got != tt.want {
			t.Errorf("%s: %v, want %v", tt.faults, got, tt.want)
		}
	}

	sim := cusim.New(cusim.VirtualTime(), environment(t, "CUSIM_FAULTS=nvmlDeviceGetPowerUsage@2~1h"))
	_, dev := openNVML(t, sim)
	if _, err := dev.PowerUsage(); err != nil {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := dev.PowerUsage()
		done <- err
	}()
	for err := error(nil); ; sim.Advance(time.Minute) { // the call may not have begun
		select {
		case err = <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			runtime.Gosched()
		}
	}
}

// environment returns the option for environment variables.
func environment(t *testing.T, variables ...string) cusim.Option {
	t.Helper()
	env, err := cusim.Environment(variables)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// TestGPUFaultsHang checks that calls about a GPU that hangs are bounded, and delay no others.
func TestGPUFaultsHang(t *testing.T) {
	sim := cusim.New(cusim.Devices(2), environment(t, "CUSIM_GPU_FAULTS=1:hang"))
	lib, err := nvml.Open(nvml.WithSoftware(sim.NVML()), nvml.WithTimeout(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	defer sim.ClearFaults() // the calls that hang end
	sim.InjectNVML(cusim.NVMLFault{GPUs: []int{1}, Function: "nvmlDeviceGetHandleByIndex", Hangs: true})
	if _, err := lib.Device(1); !errors.Is(err, nvml.ErrTimeout) {
		t.Errorf("the GPU is looked up: %v", err)
	}
	if _, err := lib.Device(0); err != nil {
		t.Errorf("a lookup that hangs delays another one: %v", err)
	}
	sim.ClearFaults()
	sim.InjectNVML(cusim.NVMLFault{GPUs: []int{1}, Hangs: true})
	for _, tt := range []struct {
		gpu  int
		want error
	}{{0, nil}, {1, nvml.ErrTimeout}, {0, nil}} {
		dev, err := lib.Device(tt.gpu)
		if err == nil {
			_, err = dev.PowerUsage()
		}
		if !errors.Is(err, tt.want) {
			t.Errorf("GPU %d: %v, not %v", tt.gpu, err, tt.want)
		}
	}
}

func TestGPUFaultsMistakes(t *testing.T) {
	for _, tt := range []struct{ value, says string }{
		{"lost", "number of a GPU"},
		{"0:broken", "none of xid"},
		{"0:xid=many", "no number"},
		{"0:ecc=3", "not two numbers"},
		{"0:lost@soon", "no time"},
		{"0:lost=5", "no value"},
		{"0:nvlink=1/broken", "/down or /up"},
	} {
		if _, err := cusim.Environment([]string{"CUSIM_GPU_FAULTS=" + tt.value}); err == nil ||
			!strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.value, err)
		}
	}
}
