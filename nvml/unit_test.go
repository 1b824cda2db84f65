package nvml_test

import (
	"errors"
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// unitFake is a machine with two units, one of which cannot be opened.
type unitFake struct{ base }

func (unitFake) UnitGetCount(n *uint32) raw.Return {
	*n = 2
	return raw.NVML_SUCCESS
}

func (unitFake) UnitGetHandleByIndex(index uint32, u *raw.Unit) raw.Return {
	if index == 1 {
		return raw.NVML_ERROR_UNKNOWN
	}
	*u = 0x77
	return raw.NVML_SUCCESS
}

func (unitFake) UnitGetUnitInfo(u raw.Unit, i *raw.UnitInfo) raw.Return {
	fill(i.Name[:], "S2050")
	fill(i.Id[:], "id")
	fill(i.Serial[:], "123")
	return fill(i.FirmwareVersion[:], "4.5")
}

func (unitFake) UnitGetPsuInfo(u raw.Unit, i *raw.PSUInfo) raw.Return {
	i.Current, i.Voltage, i.Power = 10, 12, 120
	return fill(i.State[:], "Normal")
}

func (unitFake) UnitGetFanSpeedInfo(u raw.Unit, s *raw.UnitFanSpeeds) raw.Return {
	s.Fans[0], s.Fans[1], s.Count = raw.UnitFanInfo{Speed: 3000}, raw.UnitFanInfo{State: raw.NVML_FAN_FAILED}, 2
	return raw.NVML_SUCCESS
}

func (unitFake) UnitGetLedState(u raw.Unit, s *raw.LedState) raw.Return {
	s.Color = raw.NVML_LED_COLOR_AMBER
	return fill(s.Cause[:], "hot")
}

func (unitFake) UnitGetDevices(u raw.Unit, n *uint32, list []raw.Device) raw.Return {
	return fillList(n, list, 1, 2)
}

func TestUnits(t *testing.T) {
	l := open(t, unitFake{})
	var units []*nvml.Unit
	var errs []error
	for u, err := range l.Units() {
		units, errs = append(units, u), append(errs, err)
	}
	if len(units) != 2 || units[0].Handle() != 0x77 || units[0].String() != "unit 0" || errs[0] != nil || units[1] != nil {
		t.Fatalf("%v, %v", units, errs)
	}
	fails(t, "the other unit", errs[1], raw.NVML_ERROR_UNKNOWN)
	for range l.Units() {
		break
	}
	u := units[0]
	equal(t, "the info", nvml.UnitInfo{Name: "S2050", ID: "id", Serial: "123", FirmwareVersion: "4.5"})(u.Info())
	equal(t, "the power supply", nvml.UnitPSU{State: "Normal", Current: 10, Voltage: 12, Power: 120_000})(u.PSU())
	equal(t, "the fans", []nvml.UnitFan{{Speed: 3000}, {Failed: true}})(u.Fans())
	equal(t, "the LED", nvml.UnitLED{Color: nvml.LEDAmber, Cause: "hot"})(u.LED())
	if d := must(u.Devices())(t); len(d) != 2 || d[1].Handle() != 2 || d[1].String() != "unit 0, GPU 1" {
		t.Errorf("the devices are %v", d)
	}
	_, err := l.Unit(-1)
	fails(t, "an index", err, nvml.ErrInvalidArgument)
	for _, err := range open(t, base{}).Units() {
		fails(t, "no units", err, errors.ErrUnsupported)
	}
}
