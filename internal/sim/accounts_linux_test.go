package sim

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/purecu/purecu/internal/simnvml"
	nvml "github.com/purecu/purecu/nvml/raw"
)

// TestAccountOfAnotherDevice checks that a driver with one device keeps the account of an ended process on the second
// device of the machine.
func TestAccountOfAnotherDevice(t *testing.T) {
	folder := t.TempDir()
	driverOf := func(devices int) *Driver { return New(Devices(devices), Machine(folder)) }
	n, device := simnvml.New(driverOf(2)), nvml.Device(0)
	for _, r := range []nvml.Return{n.InitV2(), n.DeviceGetHandleByIndexV2(1, &device),
		n.DeviceSetAccountingMode(device, nvml.NVML_FEATURE_ENABLED)} {
		if r != nvml.NVML_SUCCESS {
			t.Fatal(r)
		}
	}
	const begun = 1 << 62 // later than now
	e := entry{Now: begun + 1, Begun: begun, Contexts: 1, Peak: 5}
	e.Sum = e.sum()
	b, err := binary.Append(nil, binary.LittleEndian, []entry{{}, e})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "77-0"+ledgerSuffix), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if list := driverOf(1).GPUs(); len(list) != 1 || len(list[0].Accounts) != 0 {
		t.Errorf("a driver with one device: %+v", list)
	}
	want := simnvml.Account{ID: 77, Begun: begun, Ended: begun + 1, Peak: 5}
	if got := driverOf(2).GPUs()[1].Accounts; len(got) != 1 || got[0] != want {
		t.Errorf("the accounts are %+v, want %+v", got, want)
	}
}
