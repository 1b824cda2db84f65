package nvml

import (
	"fmt"
	"iter"

	"github.com/purecu/purecu/nvml/raw"
)

// String returns how errors name the unit: "unit 0".
func (u *Unit) String() string {
	if u == nil {
		return "no unit"
	}
	return u.name
}

// Handle returns the nvmlUnit_t, for calls through package raw.
func (u *Unit) Handle() raw.Unit {
	if u == nil {
		return 0
	}
	return raw.Unit(u.handle)
}

// Units returns the S-class units of the machine (nvmlUnitGetCount, nvmlUnitGetHandleByIndex).
func (l *Library) Units() iter.Seq2[*Unit, error] {
	return func(yield func(*Unit, error) bool) {
		n, err := l.UnitCount()
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range n {
			if !yield(l.Unit(i)) {
				return
			}
		}
	}
}

// Unit returns the unit with an index (nvmlUnitGetHandleByIndex).
func (l *Library) Unit(index int) (*Unit, error) {
	const op = "nvmlUnitGetHandleByIndex"
	o := l.obj()
	if err := o.checkNumber(op, "index", index); err != nil {
		return nil, err
	}
	w, err := o.call(op, words{b: uint64(uint32(index))}, func(l *raw.Library, w words) (words, raw.Return) {
		var u raw.Unit
		r := l.UnitGetHandleByIndex(uint32(w.b), &u)
		return words{a: uint64(u)}, r
	})
	name := fmt.Sprintf("unit %d", index)
	if err != nil {
		return nil, named(err, name)
	}
	return &Unit{o.part(w.a, name)}, nil
}

// UnitInfo says what a unit is.
type UnitInfo struct{ Name, ID, Serial, FirmwareVersion string }

// Info returns what the unit is (nvmlUnitGetUnitInfo).
func (u *Unit) Info() (UnitInfo, error) {
	return get(u.obj(), "nvmlUnitGetUnitInfo", func(l *raw.Library, h uint64) (UnitInfo, raw.Return) {
		var i raw.UnitInfo
		r := l.UnitGetUnitInfo(raw.Unit(h), &i)
		return UnitInfo{text(i.Name[:]), text(i.Id[:]), text(i.Serial[:]), text(i.FirmwareVersion[:])}, r
	})
}

// UnitPSU says how the power supply of a unit is.
type UnitPSU struct {
	// State is "Normal", or says what is wrong.
	State   string
	Current int // in amperes
	Voltage int // in volts
	Power   Power
}

// PSU returns how the power supply of the unit is (nvmlUnitGetPsuInfo).
func (u *Unit) PSU() (UnitPSU, error) {
	return get(u.obj(), "nvmlUnitGetPsuInfo", func(l *raw.Library, h uint64) (UnitPSU, raw.Return) {
		var i raw.PSUInfo
		r := l.UnitGetPsuInfo(raw.Unit(h), &i)
		return UnitPSU{text(i.State[:]), int(i.Current), int(i.Voltage), Power(i.Power * 1000)}, r // C has watts
	})
}

// UnitFan says how a fan of a unit is.
type UnitFan struct {
	Speed  int // in revolutions per minute
	Failed bool
}

// Fans returns how the fans of the unit are (nvmlUnitGetFanSpeedInfo).
func (u *Unit) Fans() ([]UnitFan, error) {
	return get(u.obj(), "nvmlUnitGetFanSpeedInfo", func(l *raw.Library, h uint64) ([]UnitFan, raw.Return) {
		var i raw.UnitFanSpeeds
		r := l.UnitGetFanSpeedInfo(raw.Unit(h), &i)
		var fans []UnitFan
		for _, f := range i.Fans[:min(int(i.Count), len(i.Fans))] {
			fans = append(fans, UnitFan{int(f.Speed), f.State != raw.NVML_FAN_NORMAL})
		}
		return fans, r
	})
}

// UnitLED is the state of the LED of a unit.
type UnitLED struct {
	Color LEDColor
	// Cause says why the LED is amber. It is empty otherwise.
	Cause string
}

// LED returns the state of the unit's LED (nvmlUnitGetLedState).
func (u *Unit) LED() (UnitLED, error) {
	return get(u.obj(), "nvmlUnitGetLedState", func(l *raw.Library, h uint64) (UnitLED, raw.Return) {
		var s raw.LedState
		r := l.UnitGetLedState(raw.Unit(h), &s)
		return UnitLED{s.Color, text(s.Cause[:])}, r
	})
}

// Devices returns the GPUs of the unit (nvmlUnitGetDevices).
func (u *Unit) Devices() ([]*Device, error) {
	o := u.obj()
	handles, err := get(o, "nvmlUnitGetDevices", func(l *raw.Library, h uint64) ([]raw.Device, raw.Return) {
		return list(func(n *uint32, list []raw.Device) raw.Return { return l.UnitGetDevices(raw.Unit(h), n, list) })
	})
	var devices []*Device
	for i, h := range handles {
		devices = append(devices, o.device(h, fmt.Sprintf("%s, GPU %d", o.name, i)))
	}
	return devices, err
}
