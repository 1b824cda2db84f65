package nvml

import "github.com/purecu/purecu/nvml/raw"

// SetPowerLimitOf sets the limit of what the GPU or the module with its processor draws
// (nvmlDeviceSetPowerManagementLimit_v2). It needs root, and lasts until the driver is unloaded.
func (d *Device) SetPowerLimitOf(scope PowerScope, limit Power) error {
	const op = "nvmlDeviceSetPowerManagementLimit_v2"
	w := words{b: uint64(scope), c: uint64(limit)}
	_, err := d.obj().call(op, w, func(l *raw.Library, w words) (words, raw.Return) {
		p := raw.PowerValueV2{Version: raw.PowerValueV2Version, PowerScope: raw.PowerScopeType(w.b),
			PowerValueMw: uint32(w.c)}
		return words{}, l.DeviceSetPowerManagementLimitV2(raw.Device(w.a), &p)
	})
	return err
}

// PowerLimits are the limits of what a GPU or a module draws. A limit that the device does not have is 0.
type PowerLimits struct {
	// Current is the limit that counts.
	Current Power
	// Requested is the one that was set.
	Requested Power
	// Default is the one after the driver was loaded.
	Default Power
	// Least and Most are those that can be set.
	Least, Most Power
}

// PowerLimitsOf returns the limits of what the GPU or the module with its processor draws (nvmlDeviceGetFieldValues).
func (d *Device) PowerLimitsOf(scope PowerScope) (PowerLimits, error) {
	p, err := d.powers(scope, FieldPowerCurrentLimit, FieldPowerRequestedLimit, FieldPowerDefaultLimit, FieldPowerMinLimit,
		FieldPowerMaxLimit)
	if err != nil {
		return PowerLimits{}, err
	}
	return PowerLimits{p[0], p[1], p[2], p[3], p[4]}, nil
}

// PowerUsageOf returns what the GPU, its memory, or the module with its processor draws: as the average of a second,
// and now (nvmlDeviceGetFieldValues). A value that the device does not have is 0.
func (d *Device) PowerUsageOf(scope PowerScope) (average, instant Power, err error) {
	p, err := d.powers(scope, FieldPowerAverage, FieldPowerInstant)
	if err != nil {
		return 0, 0, err
	}
	return p[0], p[1], nil
}

// powers reads fields in milliwatts. The device must have one of them.
func (d *Device) powers(scope PowerScope, ids ...FieldID) ([]Power, error) {
	fields := make([]Field, len(ids))
	for i, id := range ids {
		fields[i] = Field{id, uint32(scope)}
	}
	values, err := d.ScopedFields(fields...)
	if err != nil {
		return nil, err
	}
	powers := make([]Power, len(ids))
	has := false
	for i, v := range values {
		if v.Err != nil && !unsupported(v.Err) {
			return nil, v.Err
		}
		has = has || v.Err == nil
		powers[i] = Power(v.Value.Uint64())
	}
	if !has {
		return nil, values[0].Err
	}
	return powers, nil
}

// PowerMizer says what the driver prefers when it sets the clocks.
type PowerMizer struct {
	Mode PowerMizerMode
	// Supported are the modes that the GPU has.
	Supported []PowerMizerMode
}

// PowerMizer returns what the driver prefers when it sets the clocks (nvmlDeviceGetPowerMizerMode_v1).
func (d *Device) PowerMizer() (PowerMizer, error) {
	const op = "nvmlDeviceGetPowerMizerMode_v1"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var m raw.DevicePowerMizerModesV1
		r := l.DeviceGetPowerMizerModeV1(raw.Device(w.a), &m)
		return words{a: uint64(m.CurrentMode), b: uint64(m.SupportedPowerMizerModes)}, r
	})
	m := PowerMizer{Mode: PowerMizerMode(w.a)}
	for mode := PowerMizerMode(0); w.b>>mode != 0; mode++ {
		if w.b>>mode&1 != 0 {
			m.Supported = append(m.Supported, mode)
		}
	}
	return m, err
}

// SetPowerMizer says what the driver prefers when it sets the clocks (nvmlDeviceSetPowerMizerMode_v1). It needs root.
func (d *Device) SetPowerMizer(mode PowerMizerMode) error {
	const op = "nvmlDeviceSetPowerMizerMode_v1"
	_, err := d.obj().call(op, words{b: uint64(mode)}, func(l *raw.Library, w words) (words, raw.Return) {
		m := raw.DevicePowerMizerModesV1{Mode: uint32(w.b)}
		return words{}, l.DeviceSetPowerMizerModeV1(raw.Device(w.a), &m)
	})
	return err
}
