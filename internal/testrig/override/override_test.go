package override

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/nvml/raw"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bare struct{}

func (bare) DriverGetVersion(*driver.Thread) (int32, driver.Result) { return 1, driver.ResultSuccess }

type newer struct{ Software driver.Software }

func (n *newer) DriverGetVersion(th *driver.Thread) (int32, driver.Result) {
	v, res := n.Software.DriverGetVersion(th)
	return v + 1, res
}

type noDriver struct{}

func (noDriver) Fly() {}

// TestDriver replaces a method twice, and leaves the others.
func TestDriver(t *testing.T) {
	d := Driver(&newer{Driver(bare{})})
	if v, res := d.DriverGetVersion(nil); v != 2 || res != driver.ResultSuccess {
		t.Errorf("the version is %d (%d), not 2", v, res)
	}
	_, want := driver.Unimplemented{}.EventCreate(nil, 0)
	if _, res := d.EventCreate(nil, 0); res != want {
		t.Errorf("what nothing replaces returns %d, not %d", res, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("a method that no driver has was taken")
		}
	}()
	Driver(noDriver{})
}

type onlyIndex struct{}

func (onlyIndex) DeviceGetIndex(_ raw.Device, index *uint32) raw.Return {
	*index = 7
	return raw.NVML_SUCCESS
}

// TestNVML is TestDriver for NVML.
func TestNVML(t *testing.T) {
	var index uint32
	n := NVML(onlyIndex{})
	if r := n.DeviceGetIndex(1, &index); r != raw.NVML_SUCCESS || index != 7 {
		t.Errorf("the index is %d (%d), not 7", index, r)
	}
	if r := n.Shutdown(); r != (raw.Unimplemented{}).Shutdown() {
		t.Errorf("what nothing replaces returns %d", r)
	}
}
