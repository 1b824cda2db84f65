package nvml_test

import (
	"math"
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

func (f *profileFake) DevicePowerSmoothingSetState(d raw.Device, s *raw.PowerSmoothingState) raw.Return {
	f.enable = uint32(s.State)
	return raw.NVML_SUCCESS
}

func (f *profileFake) DevicePowerSmoothingActivatePresetProfile(d raw.Device, p *raw.PowerSmoothingProfile) raw.Return {
	f.active = p.ProfileId
	return raw.NVML_SUCCESS
}

func (f *profileFake) DevicePowerSmoothingUpdatePresetProfileParam(d raw.Device,
	p *raw.PowerSmoothingProfile) raw.Return {
	f.smooth = *p
	return raw.NVML_SUCCESS
}

func TestPowerSmoothing(t *testing.T) {
	f := &profileFake{}
	d := device(t, f)
	if err := d.SetPowerSmoothing(true); err != nil || f.enable != 1 {
		t.Errorf("%d (%v)", f.enable, err)
	}
	if err := d.SetPowerSmoothingProfile(3); err != nil || f.active != 3 {
		t.Errorf("%d (%v)", f.active, err)
	}
	if err := d.SetPowerSmoothingParameter(2, nvml.PowerSmoothingRampUpRate, 12.5); err != nil ||
		f.smooth != (raw.PowerSmoothingProfile{Version: raw.PowerSmoothingProfileV1Version, ProfileId: 2, ParamId: 1,
			Value: 12.5}) {
		t.Errorf("%+v (%v)", f.smooth, err)
	}
	for what, err := range map[string]error{
		"a profile":               d.SetPowerSmoothingProfile(-1),
		"a profile's parameter":   d.SetPowerSmoothingParameter(-1, 0, 1),
		"a negative value":        d.SetPowerSmoothingParameter(0, 0, -1),
		"a value that is nothing": d.SetPowerSmoothingParameter(0, 0, math.NaN()),
	} {
		fails(t, what, err, nvml.ErrInvalidArgument)
	}
}
