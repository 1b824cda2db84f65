package nvml

import (
	"fmt"

	"github.com/purecu/purecu/nvml/raw"
)

// PowerProfileInfo says what a power profile is like.
type PowerProfileInfo struct {
	Profile PowerProfile
	// Priority says which of several profiles wins: that with the least number.
	Priority int
	// Conflicts are the profiles that cannot be in use together with this one.
	Conflicts []PowerProfile
}

// PowerProfiles are profiles of a GPU. Several can be in use at once.
type PowerProfiles struct {
	Supported []PowerProfile
	Requested []PowerProfile
	// Enforced are those in use. They are fewer than those requested if some conflict.
	Enforced []PowerProfile
}

// profiles returns the profiles whose bits are set.
func profiles(mask raw.Mask255) (all []PowerProfile) {
	for i := range PowerProfile(raw.NVML_WORKLOAD_POWER_MAX_PROFILES) {
		if mask.Mask[i/32]&(1<<(i%32)) != 0 {
			all = append(all, i)
		}
	}
	return all
}

// profileMask sets the bits of profiles.
func (o *object) profileMask(op string, all []PowerProfile) (m raw.Mask255, err error) {
	if o != nil && len(all) == 0 {
		return m, o.invalid(op, "the list of profiles is empty")
	}
	for _, p := range all {
		if p >= raw.NVML_WORKLOAD_POWER_MAX_PROFILES {
			if o == nil {
				break
			}
			return m, o.invalid(op, fmt.Sprintf("there is no power profile %d", uint32(p)))
		}
		m.Mask[p/32] |= 1 << (p % 32)
	}
	return m, nil
}

// PowerProfiles returns the power profiles that the GPU has (nvmlDeviceWorkloadPowerProfileGetProfilesInfo). GPUs since
// Blackwell have some.
func (d *Device) PowerProfiles() ([]PowerProfileInfo, error) {
	const op = "nvmlDeviceWorkloadPowerProfileGetProfilesInfo"
	return get(d.obj(), op, func(l *raw.Library, h uint64) (all []PowerProfileInfo, r raw.Return) {
		i := &raw.WorkloadPowerProfileProfilesInfo{Version: raw.WorkloadPowerProfileProfilesInfoV1Version}
		for n := range i.PerfProfile {
			i.PerfProfile[n].Version = raw.WorkloadPowerProfileInfoV1Version
		}
		r = l.DeviceWorkloadPowerProfileGetProfilesInfo(raw.Device(h), i)
		for _, p := range profiles(i.PerfProfilesMask) {
			info := &i.PerfProfile[p]
			all = append(all, PowerProfileInfo{PowerProfile(info.ProfileId), int(info.Priority), profiles(info.ConflictingMask)})
		}
		return all, r
	})
}

// CurrentPowerProfiles returns the power profiles that were requested, and those in use
// (nvmlDeviceWorkloadPowerProfileGetCurrentProfiles). GPUs since Blackwell have some.
func (d *Device) CurrentPowerProfiles() (PowerProfiles, error) {
	const op = "nvmlDeviceWorkloadPowerProfileGetCurrentProfiles"
	return get(d.obj(), op, func(l *raw.Library, h uint64) (PowerProfiles, raw.Return) {
		c := raw.WorkloadPowerProfileCurrentProfiles{Version: raw.WorkloadPowerProfileCurrentProfilesV1Version}
		r := l.DeviceWorkloadPowerProfileGetCurrentProfiles(raw.Device(h), &c)
		return PowerProfiles{profiles(c.PerfProfilesMask), profiles(c.RequestedProfilesMask),
			profiles(c.EnforcedProfilesMask)}, r
	})
}

// updateProfiles changes the profiles that are requested. older is the older function, or nil.
func (d *Device) updateProfiles(change raw.PowerProfileOperation, all []PowerProfile,
	older func(*raw.Library, raw.Device, *raw.WorkloadPowerProfileRequestedProfiles) raw.Return) error {
	const op = "nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1"
	o := d.obj()
	mask, err := o.profileMask(op, all)
	if err != nil {
		return err
	}
	_, err = get(o, op, func(l *raw.Library, h uint64) (struct{}, raw.Return) {
		u := raw.WorkloadPowerProfileUpdateProfilesV1{Operation: change, UpdateProfilesMask: mask}
		r := l.DeviceWorkloadPowerProfileUpdateProfilesV1(raw.Device(h), &u)
		if lacks(r) && older != nil {
			p := raw.WorkloadPowerProfileRequestedProfiles{Version: raw.WorkloadPowerProfileRequestedProfilesV1Version,
				RequestedProfilesMask: mask}
			r = older(l, raw.Device(h), &p)
		}
		return struct{}{}, r
	})
	return err
}

// RequestPowerProfiles adds power profiles to those that were requested
// (nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1, and nvmlDeviceWorkloadPowerProfileSetRequestedProfiles for drivers
// up to 580). It needs root. Unverified: no driver has confirmed nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1.
func (d *Device) RequestPowerProfiles(add ...PowerProfile) error {
	return d.updateProfiles(raw.NVML_POWER_PROFILE_OPERATION_SET, add,
		(*raw.Library).DeviceWorkloadPowerProfileSetRequestedProfiles)
}

// ClearPowerProfiles takes back requests for power profiles (nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1, and
// nvmlDeviceWorkloadPowerProfileClearRequestedProfiles for drivers up to 580). It needs root. Unverified: no driver has
// confirmed nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1.
func (d *Device) ClearPowerProfiles(remove ...PowerProfile) error {
	return d.updateProfiles(raw.NVML_POWER_PROFILE_OPERATION_CLEAR, remove,
		(*raw.Library).DeviceWorkloadPowerProfileClearRequestedProfiles)
}

// ReplacePowerProfiles requests power profiles in place of those that were requested
// (nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1). It needs root. Unverified: no driver has confirmed it.
func (d *Device) ReplacePowerProfiles(all ...PowerProfile) error {
	return d.updateProfiles(raw.NVML_POWER_PROFILE_OPERATION_SET_AND_OVERWRITE, all, nil)
}
