package nvml

import (
	"math"

	"github.com/purecu/purecu/nvml/raw"
)

// SetPowerSmoothing says whether the GPU avoids fast changes of its power (nvmlDevicePowerSmoothingSetState). It needs
// root. GPUs since Blackwell can do it. [Device.Fields] reads the state, as [FieldPowerSmoothingEnabled].
func (d *Device) SetPowerSmoothing(on bool) error {
	const op = "nvmlDevicePowerSmoothingSetState"
	_, err := d.obj().call(op, words{b: number[uint64](on)}, func(l *raw.Library, w words) (words, raw.Return) {
		s := raw.PowerSmoothingState{Version: raw.PowerSmoothingStateV1Version, State: raw.EnableState(w.b)}
		return words{}, l.DevicePowerSmoothingSetState(raw.Device(w.a), &s)
	})
	return err
}

// SetPowerSmoothingProfile makes a profile of power smoothing the active one
// (nvmlDevicePowerSmoothingActivatePresetProfile). The first profile has number 0. It needs root.
func (d *Device) SetPowerSmoothingProfile(profile int) error {
	const op = "nvmlDevicePowerSmoothingActivatePresetProfile"
	o := d.obj()
	if err := o.checkNumber(op, "profile", profile); err != nil {
		return err
	}
	_, err := o.call(op, words{b: uint64(profile)}, func(l *raw.Library, w words) (words, raw.Return) {
		p := raw.PowerSmoothingProfile{Version: raw.PowerSmoothingProfileV1Version, ProfileId: uint32(w.b)}
		return words{}, l.DevicePowerSmoothingActivatePresetProfile(raw.Device(w.a), &p)
	})
	return err
}

// SetPowerSmoothingParameter sets a parameter of a profile of power smoothing
// (nvmlDevicePowerSmoothingUpdatePresetProfileParam). A floor is in percent, a rate in watts a second, and a hysteresis
// in milliseconds. It needs root.
func (d *Device) SetPowerSmoothingParameter(profile int, p PowerSmoothingParameter, value float64) error {
	const op = "nvmlDevicePowerSmoothingUpdatePresetProfileParam"
	o := d.obj()
	if err := o.checkNumber(op, "profile", profile); err != nil {
		return err
	}
	if o != nil && (math.IsNaN(value) || value < 0) {
		return o.invalid(op, "the value is negative, or no number")
	}
	w := words{b: uint64(profile), c: uint64(p), d: math.Float64bits(value)}
	_, err := o.call(op, w, func(l *raw.Library, w words) (words, raw.Return) {
		p := raw.PowerSmoothingProfile{Version: raw.PowerSmoothingProfileV1Version, ProfileId: uint32(w.b),
			ParamId: uint32(w.c), Value: math.Float64frombits(w.d)}
		return words{}, l.DevicePowerSmoothingUpdatePresetProfileParam(raw.Device(w.a), &p)
	})
	return err
}
