package cusim_test

import (
	"os"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// TestNVMLGPUs checks that the GPUs are the devices of the driver, also those that a variable hides.
func TestNVMLGPUs(t *testing.T) {
	sim := cusim.New(cusim.Devices(3), cusim.VisibleDevices("1"))
	lib, _ := openNVML(t, sim)
	equal(t, "the number of GPUs", 3)(lib.DeviceCount())
	dev := must(must(cu.Open(cu.WithSoftware(sim)))(t).Device(0))(t)
	for i := range 3 {
		d := must(lib.Device(i))(t)
		equal(t, "the index", i)(d.Index())
		id := must(d.UUID())(t)
		if again := must(lib.DeviceByUUID(id))(t); again.Handle() != d.Handle() {
			t.Errorf("%s is %v", id, again)
		}
		if again := must(lib.DeviceByPCI(must(d.PCI())(t).Address))(t); again.Handle() != d.Handle() {
			t.Errorf("the address of GPU %d is that of %v", i, again)
		}
		if same := string(id) == must(dev.UUID())(t).String(); same != (i == 1) {
			t.Errorf("GPU %d has the UUID of the visible device: %v", i, same)
		}
	}
	if (*cusim.Driver)(nil).NVML() != nil {
		t.Error("there is an NVML without a driver")
	}
}

// TestNVMLWork checks that the utilization, and what follows from it, is that of the kernels.
func TestNVMLWork(t *testing.T) {
	b := newBench(t, cusim.VirtualTime(), cusim.WithKernel("sum", cusim.Kernel{
		Time: func(*cusim.Launch) time.Duration { return 600 * time.Millisecond },
	}))
	_, d := openNVML(t, b.sim)
	b.sim.Advance(2 * time.Second)
	equal(t, "the utilization", nvml.Utilization{})(d.Utilization())
	idle, cold := must(d.PowerUsage())(t), must(d.Temperature(nvml.TemperatureGPU))(t)
	before := must(d.GPMSample())(t)
	energy := must(d.TotalEnergy())(t)
	sum := must(b.mod.Function("sum"))(t)
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1, Y: 1, Z: 1}, Block: cu.Dim3{X: 1, Y: 1, Z: 1}}
	if err := sum.Launch(b.s, cfg, cu.U64(0), cu.U32(0), cu.F32(0), cu.F64(0)); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		b.sim.Advance(100 * time.Millisecond)
		now := must(d.TotalEnergy())(t)
		if now <= energy {
			t.Errorf("the energy was %v, and is %v", energy, now)
		}
		energy = now
	}
	equal(t, "the utilization", nvml.Utilization{GPU: 60, Memory: 4})(d.Utilization())
	if power, temp := must(d.PowerUsage())(t), must(d.Temperature(nvml.TemperatureGPU))(t); power <= idle || temp <= cold {
		t.Errorf("the GPU draws %v at %v, and without work %v at %v", power, temp, idle, cold)
	}
	after := must(d.GPMSample())(t)
	values := must(after.Since(before, nvml.GPMGraphicsUtilization, nvml.GPMSMUtilization))(t)
	for _, v := range values {
		if v.Err != nil || v.Value < 59.9 || v.Value > 60.1 {
			t.Errorf("metric %v is %v (%v)", v.Metric, v.Value, v.Err)
		}
	}
	b.sim.Advance(time.Second)
	equal(t, "the utilization", nvml.Utilization{})(d.Utilization())
	equal(t, "the power", idle)(d.PowerUsage())
	for _, s := range []*nvml.GPMSample{before, after} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	b.close(t)
}

// TestNVMLMemory checks that NVML knows the memory and the processes of CUDA.
func TestNVMLMemory(t *testing.T) {
	sim := cusim.New()
	_, d := openNVML(t, sim)
	if list, err := d.ComputeProcesses(); len(list) != 0 || err != nil {
		t.Errorf("the processes are %v (%v)", list, err)
	}
	ctx := must(must(must(cu.Open(cu.WithSoftware(sim)))(t).Device(0))(t).PrimaryContext())(t)
	check := func() uint64 {
		t.Helper()
		left, total, err := ctx.MemInfo()
		mem := must(d.Memory())(t)
		if err != nil || mem.Used != total-left || mem.Used+mem.Reserved+mem.Free != mem.Total || mem.Total <= total {
			t.Errorf("NVML has %+v, and CUDA %d free of %d (%v)", mem, left, total, err)
		}
		list := must(d.ComputeProcesses())(t)
		if len(list) != 1 || int(list[0].PID) != os.Getpid() || list[0].UsedMemory != mem.Used || list[0].GPUInstance != -1 {
			t.Errorf("the processes are %+v", list)
		}
		return mem.Used
	}
	first := check()
	mem := must(ctx.Alloc(100 << 20))(t)
	if more := check(); more < first+100<<20 {
		t.Errorf("%d bytes are used, and were %d before an allocation", more, first)
	}
	if err := mem.Close(); err != nil {
		t.Error(err)
	}
	check()
	if err := ctx.Close(); err != nil {
		t.Error(err)
	}
}

// TestNVMLErrors checks that all functions with counters of errors know those of a test.
func TestNVMLErrors(t *testing.T) {
	sim := cusim.New(cusim.Devices(2))
	lib, other := openNVML(t, sim)
	d := must(lib.Device(1))(t)
	sim.ECCErrors(1, 5, 2)
	sim.SetRemappedRows(1, cusim.RemappedRows{Corrected: 3, Uncorrected: 1, Pending: true, Failed: true})
	check := func(d *nvml.Device, since nvml.ECCCounter, corrected, uncorrected uint64) {
		t.Helper()
		for kind, want := range map[nvml.MemoryError]uint64{nvml.MemoryErrorCorrected: corrected,
			nvml.MemoryErrorUncorrected: uncorrected} {
			equal(t, "the total", want)(d.ECCErrors(kind, since))
			equal(t, "the details", nvml.ECCErrorCounts{DeviceMemory: want})(d.DetailedECCErrors(kind, since))
			equal(t, "the memory", want)(d.MemoryErrors(kind, since, nvml.MemoryDRAM))
		}
		fields := []nvml.FieldID{nvml.FieldECCSBEVolTotal, nvml.FieldECCDBEVolTotal}
		if since == nvml.ECCAggregate {
			fields = []nvml.FieldID{nvml.FieldECCSBEAggTotal, nvml.FieldECCDBEAggTotal}
		}
		values := must(d.Fields(fields...))(t)
		if values[0].Value.Uint64() != corrected || values[1].Value.Uint64() != uncorrected {
			t.Errorf("the fields are %v and %v", values[0].Value, values[1].Value)
		}
	}
	for _, since := range []nvml.ECCCounter{nvml.ECCVolatile, nvml.ECCAggregate} {
		check(d, since, 5, 2)
		check(other, since, 0, 0)
	}
	if err := d.ClearECCErrors(nvml.ECCVolatile); err != nil {
		t.Error(err)
	}
	check(d, nvml.ECCVolatile, 0, 0)
	check(d, nvml.ECCAggregate, 5, 2)
	rows := must(d.RemappedRows())(t)
	if rows.Corrected != 3 || rows.Uncorrected != 1 || !rows.Pending || !rows.Failed {
		t.Errorf("the rows are %+v", rows)
	}
	for _, v := range must(d.Fields(raw.NVML_FI_DEV_REMAPPED_COR, raw.NVML_FI_DEV_REMAPPED_UNC,
		raw.NVML_FI_DEV_REMAPPED_PENDING, raw.NVML_FI_DEV_REMAPPED_FAILURE))(t) {
		if want := map[nvml.FieldID]uint64{raw.NVML_FI_DEV_REMAPPED_COR: 3}[v.ID]; v.Value.Uint64() != max(want, 1) {
			t.Errorf("field %v is %v (%v)", v.ID, v.Value, v.Err)
		}
	}
	if rows := must(other.RemappedRows())(t); rows != (nvml.RemappedRows{}) {
		t.Errorf("the rows of another GPU are %+v", rows)
	}
}
