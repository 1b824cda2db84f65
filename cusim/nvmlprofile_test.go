package cusim_test

import (
	"errors"
	"testing"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// TestNVMLOfProfiles asks NVML about GPUs of three kinds in one machine. The facts are those of internal/profile.
func TestNVMLOfProfiles(t *testing.T) {
	sim := cusim.New(cusim.Profile("T4,A100,B200"))
	lib, t4 := openNVML(t, sim)
	a100, b200 := must(lib.Device(1))(t), must(lib.Device(2))(t)
	for _, tt := range []struct {
		gpu          *nvml.Device
		name         string
		most         nvml.Power
		clock        nvml.MHz
		architecture nvml.Architecture
		mig, gpm     bool
	}{
		{t4, "Simulated T4", 70_000, 1590, nvml.ArchitectureTuring, false, false},
		{a100, "Simulated A100", 400_000, 1410, nvml.ArchitectureAmpere, true, false},
		{b200, "Simulated B200", 1_000_000, 1965, nvml.ArchitectureBlackwell, true, true},
	} {
		equal(t, tt.name, tt.name)(tt.gpu.Name())
		equal(t, tt.name+": the power limit", tt.most)(tt.gpu.PowerLimit())
		equal(t, tt.name+": the highest clock", tt.clock)(tt.gpu.MaxClock(nvml.ClockSM))
		equal(t, tt.name+": the architecture", tt.architecture)(tt.gpu.Architecture())
		equal(t, tt.name+": GPM", tt.gpm)(tt.gpu.GPMSupported())
		if err := tt.gpu.SetPowerLimit(tt.most + 1); err == nil {
			t.Errorf("%s: the power limit became too high", tt.name)
		}
		_, err := tt.gpu.SetMIGMode(true)
		if (err == nil) != tt.mig || err != nil && !errors.Is(err, raw.NVML_ERROR_NOT_SUPPORTED) {
			t.Errorf("%s: MIG: %v", tt.name, err)
		}
	}
	equal(t, "retired pages of a T4", false)(t4.RetiredPagesPending())
	if pages, err := t4.RetiredPages(nvml.PageRetirementCause(0)); len(pages) != 0 || err != nil {
		t.Errorf("a T4 has retired %v, %v", pages, err)
	}
	if _, err := t4.RemappedRows(); !errors.Is(err, raw.NVML_ERROR_NOT_SUPPORTED) {
		t.Errorf("a T4 has remapped rows: %v", err)
	}
	if _, err := a100.RemappedRows(); err != nil {
		t.Error(err)
	}
	var names []string
	profiles := must(a100.GPUInstanceProfiles())(t)
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	if len(names) != 7 || names[0] != "MIG 1g.5gb" {
		t.Errorf("an A100 has the instances %q", names)
	}
	i := must(a100.CreateGPUInstance(profiles[0].ID))(t)
	c := must(i.CreateComputeInstance(0))(t)
	m := must(a100.MIGDevice(0))(t)
	equal(t, "the MIG device", "Simulated A100 MIG 1g.5gb")(m.Name())
	if got := must(m.Memory())(t); got.Total != 4864<<20 {
		t.Errorf("the MIG device has %d bytes", got.Total)
	}
	if err := errors.Join(c.Destroy(), i.Destroy()); err != nil {
		t.Error(err)
	}
}
