package nvml_test

import (
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

type dataFake struct {
	base
	groups raw.RusdSettingsV1
}

func (f *dataFake) DeviceSetRusdSettingsV1(d raw.Device, s *raw.RusdSettingsV1) raw.Return {
	f.groups = *s
	return raw.NVML_SUCCESS
}

func (f *dataFake) DeviceGetBBXTimeDataV1(d raw.Device, t *raw.BBXTimeDataV1) raw.Return {
	t.TimeRun = 3600
	return raw.NVML_SUCCESS
}

func TestDriverData(t *testing.T) {
	f := &dataFake{}
	d := device(t, f)
	if err := d.SetSharedData(nvml.SharedAll); err != nil || f.groups.PollMask != 1<<64-1 || f.groups.Version == 0 {
		t.Errorf("%+v (%v)", f.groups, err)
	}
	equal(t, "the time", time.Hour)(d.DriverLoadedTime())
}
