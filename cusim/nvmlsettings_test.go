package cusim_test

import (
	"errors"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// settingTests are what can be set of a GPU: value is set, and must be got.
var settingTests = []struct {
	name         string
	set          func(d *nvml.Device, v [2]uint32) error
	get          func(d *nvml.Device) ([2]uint32, error)
	begin, value [2]uint32
	wrong        [][2]uint32
}{
	{"the power limit",
		func(d *nvml.Device, v [2]uint32) error { return d.SetPowerLimit(nvml.Power(v[0])) },
		func(d *nvml.Device) ([2]uint32, error) { return one(d.PowerLimit()) },
		[2]uint32{700_000}, [2]uint32{300_000}, [][2]uint32{{199_999}, {700_001}}},
	{"the power limit of a scope",
		func(d *nvml.Device, v [2]uint32) error {
			return d.SetPowerLimitOf(nvml.PowerScopeGPU, nvml.Power(v[0]))
		},
		func(d *nvml.Device) ([2]uint32, error) { return one(d.EnforcedPowerLimit()) },
		[2]uint32{700_000}, [2]uint32{200_000}, [][2]uint32{{0}}},
	{"the persistence mode",
		func(d *nvml.Device, v [2]uint32) error { return d.SetPersistenceMode(v[0] != 0) },
		func(d *nvml.Device) ([2]uint32, error) { return flags(d.PersistenceMode()) },
		[2]uint32{1}, [2]uint32{0}, nil},
	{"the compute mode",
		func(d *nvml.Device, v [2]uint32) error { return d.SetComputeMode(nvml.ComputeMode(v[0])) },
		func(d *nvml.Device) ([2]uint32, error) { return one(d.ComputeMode()) },
		[2]uint32{0}, [2]uint32{uint32(nvml.ComputeModeExclusiveProcess)}, [][2]uint32{{4}}},
	{"the ECC mode",
		func(d *nvml.Device, v [2]uint32) error { return d.SetECCMode(v[1] != 0) },
		func(d *nvml.Device) ([2]uint32, error) {
			current, pending, err := d.ECCMode()
			a, _ := flags(current, err)
			b, err := flags(pending, err)
			return [2]uint32{a[0], b[0]}, err
		},
		[2]uint32{1, 1}, [2]uint32{1, 0}, nil},
	{"the accounting mode",
		func(d *nvml.Device, v [2]uint32) error { return d.SetAccountingMode(v[0] != 0) },
		func(d *nvml.Device) ([2]uint32, error) { return flags(d.AccountingMode()) },
		[2]uint32{0}, [2]uint32{1}, nil},
	{"the streaming of metrics",
		func(d *nvml.Device, v [2]uint32) error { return d.SetGPMStreaming(v[0] != 0) },
		func(d *nvml.Device) ([2]uint32, error) { return flags(d.GPMStreaming()) },
		[2]uint32{0}, [2]uint32{1}, nil},
	{"the clocks of programs",
		func(d *nvml.Device, v [2]uint32) error {
			return d.SetApplicationsClocks(nvml.MHz(v[0]), nvml.MHz(v[1]))
		},
		func(d *nvml.Device) ([2]uint32, error) {
			memory, err := d.ApplicationsClock(nvml.ClockMemory)
			if err != nil {
				return [2]uint32{}, err
			}
			graphics, err := d.ClockOf(nvml.ClockSM, nvml.ClockAppClockTarget)
			return [2]uint32{uint32(memory), uint32(graphics)}, err
		},
		[2]uint32{3201, 1980}, [2]uint32{2201, 1500}, [][2]uint32{{3201, 1501}, {3200, 1500}, {3201, 330}, {3201, 1995}}},
	{"the locked clocks",
		func(d *nvml.Device, v [2]uint32) error { return d.LockClocks(nvml.MHz(v[0]), nvml.MHz(v[0])) },
		func(d *nvml.Device) ([2]uint32, error) { return one(d.Clock(nvml.ClockSM)) },
		[2]uint32{345}, [2]uint32{1200}, [][2]uint32{{344}, {1981}}},
	{"the locked clocks of the memory",
		func(d *nvml.Device, v [2]uint32) error { return d.LockMemoryClocks(nvml.MHz(v[0]), nvml.MHz(v[0])) },
		func(d *nvml.Device) ([2]uint32, error) { return one(d.Clock(nvml.ClockMemory)) },
		[2]uint32{3201}, [2]uint32{2201}, [][2]uint32{{0}, {3000}}},
}

func one[T ~uint32](v T, err error) ([2]uint32, error) { return [2]uint32{uint32(v)}, err }

func flags(on bool, err error) ([2]uint32, error) {
	if on {
		return [2]uint32{1}, err
	}
	return [2]uint32{}, err
}

// TestNVMLSettings sets what can be set. Each handle of the GPU, and each process of the machine, gets it then, other
// GPUs do not. A reset undoes it.
func TestNVMLSettings(t *testing.T) {
	machine := environment(t, "CUSIM_MACHINE="+t.TempDir(), "CUSIM_DEVICES=3")
	for _, drivers := range [][2]*cusim.Driver{
		{cusim.New(cusim.Devices(3)), nil}, {cusim.New(machine), cusim.New(machine)},
	} {
		sim := drivers[0]
		lib, _ := openNVML(t, sim)
		d, other := must(lib.Device(1))(t), must(lib.Device(2))(t)
		same := must(lib.DeviceByUUID(must(d.UUID())(t)))(t)
		if drivers[1] != nil {
			lib, _ := openNVML(t, drivers[1])
			same = must(lib.Device(1))(t)
		}
		for _, tt := range settingTests {
			equal(t, tt.name+" at first", tt.begin)(tt.get(same))
			for _, wrong := range tt.wrong {
				if err := tt.set(d, wrong); !errors.Is(err, nvml.ErrInvalidArgument) {
					t.Errorf("%s %v: %v", tt.name, wrong, err)
				}
			}
			equal(t, tt.name+" after wrong ones", tt.begin)(tt.get(same))
			if err := tt.set(d, tt.value); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			equal(t, tt.name, tt.value)(tt.get(same))
			equal(t, tt.name+" of another GPU", tt.begin)(tt.get(other))
			sim.ResetGPU(1)
			want := tt.begin
			switch tt.name {
			case "the persistence mode":
				want = tt.value
			case "the ECC mode":
				want = [2]uint32{0, 0}
			}
			equal(t, tt.name+" after a reset", want)(tt.get(same))
		}
		sim.ResetGPU(3) // there is none
		if got := len(sim.Misuses()); got != 1 {
			t.Errorf("%d misuses", got)
		}
	}
}

// TestNVMLClocks checks which clock a GPU has that works: a locked one supersedes that of programs.
func TestNVMLClocks(t *testing.T) {
	b := newBench(t, cusim.VirtualTime(), cusim.WithKernel("sum", cusim.Kernel{
		Time: func(*cusim.Launch) time.Duration { return time.Hour },
	}))
	_, d := openNVML(t, b.sim)
	sum := must(b.mod.Function("sum"))(t)
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1, Y: 1, Z: 1}, Block: cu.Dim3{X: 1, Y: 1, Z: 1}}
	if err := sum.Launch(b.s, cfg, cu.U64(0), cu.U32(0), cu.F32(0), cu.F64(0)); err != nil {
		t.Fatal(err)
	}
	b.sim.Advance(time.Second)
	check := func(what string, clock nvml.MHz, reasons nvml.ClockReasons) {
		t.Helper()
		equal(t, "the clock "+what, clock)(d.Clock(nvml.ClockGraphics))
		equal(t, "the reasons "+what, reasons)(d.ClockReasons())
	}
	check("at first", 1980, 0)
	done(t, d.SetApplicationsClocks(3201, 1500))
	check("of programs", 1500, nvml.ReasonApplicationsClocks)
	done(t, d.LockClocks(600, 1200))
	check("that is locked", 1200, 0)
	done(t, d.LockClocks(nvml.MHz(raw.NVML_CLOCK_LIMIT_ID_UNLIMITED), nvml.MHz(raw.NVML_CLOCK_LIMIT_ID_UNLIMITED)))
	check("without a limit", 1500, nvml.ReasonApplicationsClocks)
	done(t, d.UnlockClocks())
	check("that is not locked any more", 1500, nvml.ReasonApplicationsClocks)
	done(t, d.ResetApplicationsClocks())
	check("of programs as at first", 1980, 0)
	b.sim.ResetGPU(0)
	if got := b.sim.Misuses(); len(got) != 1 {
		t.Errorf("a GPU with a context is reset: %v", got)
	}
	b.sim.Finish()
	b.close(t)
}

// TestNVMLWithoutECC checks that a GPU without ECC counts no errors of its memory.
func TestNVMLWithoutECC(t *testing.T) {
	sim := cusim.New(environment(t, "CUSIM_GPU_FAULTS=0:reset@5s"), cusim.VirtualTime())
	_, d := openNVML(t, sim)
	sim.ECCErrors(0, 1, 0)
	done(t, d.SetECCMode(false))
	equal(t, "the errors", uint64(1))(d.ECCErrors(nvml.MemoryErrorCorrected, nvml.ECCAggregate))
	sim.Advance(5 * time.Second)
	if _, err := d.ECCErrors(nvml.MemoryErrorCorrected, nvml.ECCAggregate); !errors.Is(err, nvml.ErrNotSupported) {
		t.Errorf("without ECC: %v", err)
	}
	done(t, d.SetECCMode(true))
	sim.ResetGPU(0)
	equal(t, "the errors", uint64(1))(d.ECCErrors(nvml.MemoryErrorCorrected, nvml.ECCAggregate))
	equal(t, "the errors since the reset", uint64(0))(d.ECCErrors(nvml.MemoryErrorCorrected, nvml.ECCVolatile))
	fields := must(d.Fields(nvml.FieldECCCurrent, nvml.FieldECCPending, nvml.FieldPowerRequestedLimit))(t)
	for i, want := range []uint64{1, 1, 700_000} {
		if got, err := fields[i].Value.Uint64(), fields[i].Err; got != want || err != nil {
			t.Errorf("%+v, want %d", fields[i], want)
		}
	}
}

// done checks that a call has succeeded.
func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
