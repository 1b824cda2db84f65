package nvml_test

import (
	"errors"
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// profileFake has power profiles; newer ones have the newer function.
type profileFake struct {
	base
	newer          bool
	set, cleared   raw.Mask255
	updated        raw.WorkloadPowerProfileUpdateProfilesV1
	smooth         raw.PowerSmoothingProfile
	active, enable uint32
}

func (f *profileFake) DeviceWorkloadPowerProfileGetProfilesInfo(d raw.Device,
	i *raw.WorkloadPowerProfileProfilesInfo) raw.Return {
	i.PerfProfilesMask.Mask = [8]uint32{1 << 1, 1 << 8} // 1 and 40
	i.PerfProfile[1].ProfileId, i.PerfProfile[1].Priority = 1, 5
	i.PerfProfile[40].ProfileId, i.PerfProfile[40].Priority = 40, 6
	i.PerfProfile[40].ConflictingMask.Mask[0] = 1 << 1
	return raw.NVML_SUCCESS
}

func (f *profileFake) DeviceWorkloadPowerProfileGetCurrentProfiles(d raw.Device,
	c *raw.WorkloadPowerProfileCurrentProfiles) raw.Return {
	c.PerfProfilesMask.Mask[0], c.RequestedProfilesMask.Mask[0], c.EnforcedProfilesMask.Mask[7] = 6, 2, 1<<30
	return raw.NVML_SUCCESS
}

func (f *profileFake) DeviceWorkloadPowerProfileSetRequestedProfiles(d raw.Device,
	p *raw.WorkloadPowerProfileRequestedProfiles) raw.Return {
	f.set = p.RequestedProfilesMask
	return raw.NVML_SUCCESS
}

func (f *profileFake) DeviceWorkloadPowerProfileClearRequestedProfiles(d raw.Device,
	p *raw.WorkloadPowerProfileRequestedProfiles) raw.Return {
	f.cleared = p.RequestedProfilesMask
	return raw.NVML_SUCCESS
}

func (f *profileFake) DeviceWorkloadPowerProfileUpdateProfilesV1(d raw.Device,
	u *raw.WorkloadPowerProfileUpdateProfilesV1) raw.Return {
	if !f.newer {
		return raw.Unimplemented{}.DeviceWorkloadPowerProfileUpdateProfilesV1(d, u)
	}
	f.updated = *u
	return raw.NVML_SUCCESS
}

func TestPowerProfiles(t *testing.T) {
	f := &profileFake{}
	d := device(t, f)
	equal(t, "the profiles", []nvml.PowerProfileInfo{{Profile: nvml.PowerProfileMaxQ, Priority: 5}, {Profile: 40,
		Priority:  6,
		Conflicts: []nvml.PowerProfile{nvml.PowerProfileMaxQ}}})(d.PowerProfiles())
	equal(t, "the current profiles", nvml.PowerProfiles{Supported: []nvml.PowerProfile{1, 2},
		Requested: []nvml.PowerProfile{1},
		Enforced:  []nvml.PowerProfile{254}})(d.CurrentPowerProfiles())
	both := raw.Mask255{Mask: [8]uint32{2, 1 << 8}}
	if err := d.RequestPowerProfiles(nvml.PowerProfileMaxQ, 40); err != nil || f.set != both {
		t.Errorf("%v (%v)", f.set, err)
	}
	if err := d.ClearPowerProfiles(nvml.PowerProfileMaxQ, 40); err != nil || f.cleared != both {
		t.Errorf("%v (%v)", f.cleared, err)
	}
	fails(t, "a newer function", d.ReplacePowerProfiles(1), errors.ErrUnsupported)
	fails(t, "no profile", d.RequestPowerProfiles(), nvml.ErrInvalidArgument)
	fails(t, "a profile", d.ClearPowerProfiles(255), nvml.ErrInvalidArgument)

	f.newer = true
	for want, change := range map[raw.PowerProfileOperation]func(...nvml.PowerProfile) error{
		raw.NVML_POWER_PROFILE_OPERATION_SET:               d.RequestPowerProfiles,
		raw.NVML_POWER_PROFILE_OPERATION_CLEAR:             d.ClearPowerProfiles,
		raw.NVML_POWER_PROFILE_OPERATION_SET_AND_OVERWRITE: d.ReplacePowerProfiles,
	} {
		if err := change(1, 40); err != nil || f.updated.Operation != want || f.updated.UpdateProfilesMask != both {
			t.Errorf("%+v (%v)", f.updated, err)
		}
	}
}
