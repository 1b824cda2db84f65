package simnvml

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// TestFaults checks which calls a fault affects.
func TestFaults(t *testing.T) {
	const denied = raw.NVML_ERROR_NO_PERMISSION
	b := newBench(t, 2)
	var n uint32
	var pci raw.PciInfo
	calls := map[string]func(d raw.Device) raw.Return{
		"temperature": func(d raw.Device) raw.Return { return b.DeviceGetTemperature(d, 0, &n) },
		"pci":         func(d raw.Device) raw.Return { return b.DeviceGetPciInfo(d, &pci) },
		"pci3":        func(d raw.Device) raw.Return { return b.DeviceGetPciInfoV3(d, &pci) },
		"limit":       func(d raw.Device) raw.Return { return b.DeviceSetPowerManagementLimit(d, 300_000) },
		"name":        func(d raw.Device) raw.Return { return b.DeviceGetName(d, make([]byte, 96)) },
		"uuid":        func(raw.Device) raw.Return { return b.DeviceGetHandleByUUID("GPU-00000000", new(raw.Device)) },
		"events":      func(raw.Device) raw.Return { return b.EventSetCreate(new(raw.EventSet)) },
	}
	for _, c := range []struct {
		fault    Fault
		affected string // with the GPU
	}{
		{Fault{Function: "nvmlDeviceGetTemperature"}, "temperature0 temperature1"},
		{Fault{Function: "nvmlDeviceGetTemperature", GPUs: []int{1}}, "temperature1"},
		{Fault{Function: "nvmlDeviceGetPciInfo"}, "pci0 pci1 pci30 pci31"},
		{Fault{Function: "nvmlDeviceGetPciInfo_v3"}, "pci30 pci31"},
		{Fault{GPUs: []int{0}}, "limit0 name0 pci0 pci30 temperature0 uuid0 uuid1"},
		{Fault{}, "events0 events1 limit0 limit1 name0 name1 pci0 pci1 pci30 pci31 temperature0 temperature1 uuid0 uuid1"},
	} {
		// Some results are those that the software NVML takes for others.
		for _, result := range []raw.Return{denied, raw.NVML_ERROR_NOT_SUPPORTED, raw.NVML_ERROR_NOT_FOUND,
			raw.Lacks("nvmlDeviceGetName")} {
			c.fault.Result = result
			b.Inject(c.fault)
			for name, call := range calls {
				for i, d := range b.gpus {
					want := raw.NVML_SUCCESS
					if has(c.affected, name+string(rune('0'+i))) {
						want = result
					}
					if r := call(d); r != want {
						t.Errorf("%+v: %s of GPU %d: %v, want %v", c.fault, name, i, r, want)
					}
				}
			}
			b.ClearFaults()
		}
	}
}

// TestHang checks that a call hangs until the faults are cleared, and no other call.
func TestHang(t *testing.T) {
	for _, result := range []raw.Return{raw.NVML_SUCCESS, raw.NVML_ERROR_GPU_IS_LOST} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, 2)
			b.Inject(Fault{GPUs: []int{0}, Result: result, Hangs: true})
			done := make(chan raw.Return, 1)
			go func() { done <- b.DeviceGetTemperature(b.gpus[0], 0, new(uint32)) }()
			synctest.Wait()
			succeeds(t, b.DeviceGetTemperature(b.gpus[1], 0, new(uint32)))
			select {
			case r := <-done:
				t.Errorf("the call returns %v", r)
			default:
			}
			b.ClearFaults()
			returns(t, <-done, result)
			succeeds(t, b.DeviceGetTemperature(b.gpus[0], 0, new(uint32)))
		})
	}
}

// TestLost checks that a lost GPU is not found, and others are.
func TestLost(t *testing.T) {
	b := newBench(t, 2)
	b.LoseGPU(1)
	const lost = raw.NVML_ERROR_GPU_IS_LOST
	var d raw.Device
	returns(t, b.DeviceGetHandleByIndexV2(1, &d), lost)
	returns(t, b.DeviceGetHandleByUUID("GPU-00000001", &d), lost)
	returns(t, b.DeviceGetTemperature(b.gpus[1], 0, new(uint32)), lost)
	returns(t, b.DeviceSetPowerManagementLimit(b.gpus[1], 300_000), lost)
	returns(t, b.DeviceOnSameBoard(b.gpus[0], b.gpus[1], new(int32)), lost)
	succeeds(t, b.DeviceGetTemperature(b.gpus[0], 0, new(uint32)))
	var n uint32
	if succeeds(t, b.DeviceGetCountV2(&n)); n != 2 {
		t.Errorf("there are %d GPUs", n)
	}
	b.LoseGPU(7) // there is none
}

// has reports whether a list has a word.
func has(list, word string) bool {
	for _, w := range splitArguments(list) {
		if w == word {
			return true
		}
	}
	return false
}

// TestWrongFaults sets faults that no call can have.
func TestWrongFaults(t *testing.T) {
	for _, f := range []Fault{
		{Nth: -1, Result: raw.NVML_ERROR_UNKNOWN}, {Slow: -time.Second, Result: raw.NVML_ERROR_UNKNOWN},
		{GPUs: []int{1}, Result: raw.NVML_ERROR_UNKNOWN}, {Function: "nvmlGetName", Result: raw.NVML_ERROR_UNKNOWN},
	} {
		b := newBench(t, 1)
		b.Inject(f)
		if len(b.machine.misuses) != 1 {
			t.Errorf("%+v: the misuses are %q", f, b.machine.misuses)
		}
		var count uint32
		returns(t, b.DeviceGetCountV2(&count), raw.NVML_SUCCESS)
	}
}
