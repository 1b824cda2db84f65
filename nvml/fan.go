package nvml

import "github.com/purecu/purecu/nvml/raw"

// FanRPM returns how often a fan is asked to turn in a minute (nvmlDeviceGetFanSpeedRPM). A fan that is blocked does
// not do so. The first fan has number 0.
func (d *Device) FanRPM(fan int) (int, error) {
	const op = "nvmlDeviceGetFanSpeedRPM"
	o := d.obj()
	if err := o.checkNumber(op, "fan", fan); err != nil {
		return 0, err
	}
	w, err := o.call(op, words{b: uint64(fan)}, func(l *raw.Library, w words) (words, raw.Return) {
		f := raw.FanSpeedInfo{Version: raw.FanSpeedInfoV1Version, Fan: uint32(w.b)}
		r := l.DeviceGetFanSpeedRPM(raw.Device(w.a), &f)
		return words{a: uint64(f.Speed)}, r
	})
	return int(w.a), err
}

// Cooler is a fan, or something else that cools.
type Cooler struct {
	Control CoolerControl
	Target  CoolerTarget
}

// Cooler returns how a fan is controlled, and what it cools (nvmlDeviceGetCoolerInfo). The first one has number 0.
func (d *Device) Cooler(number int) (Cooler, error) {
	const op = "nvmlDeviceGetCoolerInfo"
	o := d.obj()
	if err := o.checkNumber(op, "cooler", number); err != nil {
		return Cooler{}, err
	}
	w, err := o.call(op, words{b: uint64(number)}, func(l *raw.Library, w words) (words, raw.Return) {
		c := raw.CoolerInfo{Version: raw.CoolerInfoV1Version, Index: uint32(w.b)}
		r := l.DeviceGetCoolerInfo(raw.Device(w.a), &c)
		return words{a: uint64(c.SignalType), b: uint64(c.Target)}, r
	})
	return Cooler{CoolerControl(w.a), CoolerTarget(w.b)}, err
}
