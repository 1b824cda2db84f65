package cu_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	. "github.com/purecu/purecu/internal/testrig"
)

func TestDeviceFacts(t *testing.T) {
	f := newFake(t)
	drv := f.open()
	devs := Need(drv.Devices())(t)
	if len(devs) != 3 {
		t.Fatalf("%d devices", len(devs))
	}
	for i, dev := range devs {
		if dev.Ordinal() != i || dev.Driver() != drv || dev != Need(drv.Device(i))(t) {
			t.Errorf("device %d is %+v", i, dev)
		}
	}
	dev := devs[1]
	if name := Need(dev.Name())(t); name != "Fake GPU 1" {
		t.Errorf("Name = %q", name)
	}
	if got := dev.String(); got != "device 1 (Fake GPU 1)" {
		t.Errorf("String = %q", got)
	}
	uuid := Need(dev.UUID())(t)
	const text = "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1"
	if j := Need(json.Marshal(uuid))(t); uuid.String() != text || string(j) != `"`+text+`"` {
		t.Errorf("UUID = %v, as JSON %s", uuid, j)
	}
	id := Need(dev.PCIBusID())(t)
	if id != "0000:3C:00.0" || Need(drv.DeviceByPCIBusID(id))(t) != dev {
		t.Errorf("PCIBusID = %q", id)
	}
	for _, bad := range []string{"", "nonsense", "0000:ff:00.0"} {
		if _, err := drv.DeviceByPCIBusID(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("DeviceByPCIBusID(%q): %v", bad, err)
		}
	}
	if v := Need(dev.Attribute(DeviceAttributeWarpSize))(t); v != int(DeviceAttributeWarpSize) {
		t.Errorf("Attribute = %d", v)
	}
	all := Need(dev.Attributes())(t)
	if len(all) != len(NamesDeviceAttribute) || all[DeviceAttributeComputeCapabilityMajor] != 9 {
		t.Errorf("%d attributes: %v", len(all), all)
	}
	if j := string(Need(json.Marshal(all))(t)); !strings.Contains(j, `"warp_size":10`) {
		t.Errorf("as JSON: %.100s", j)
	}
	// A driver that is too old for an attribute says so, one that fails does too.
	f.fail("cuDeviceGetAttribute", 3, ResultInvalidValue)
	if fewer := Need(dev.Attributes())(t); len(fewer) != len(all)-1 {
		t.Errorf("%d of %d attributes", len(fewer), len(all))
	}
	f.fail("cuDeviceGetAttribute", 3, ResultUnknown)
	if _, err := dev.Attributes(); !errors.Is(err, ResultUnknown) {
		t.Errorf("Attributes of a failing driver: %v", err)
	}
	f.fail("cuDeviceGetAttribute", 1, ResultInvalidValue)
	if _, err := dev.Attribute(DeviceAttributeWarpSize); !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "warp_size") {
		t.Errorf("an unknown attribute: %v", err)
	}
	for _, n := range []int{-1, 3, 1 << 40} {
		if _, err := drv.Device(n); !errors.Is(err, ResultInvalidDevice) ||
			!strings.Contains(err.Error(), "the driver has the devices 0 to 2") {
			t.Errorf("Device(%d): %v", n, err)
		}
	}
}

// TestNoSuchDevice checks that the error says which devices there are.
func TestNoSuchDevice(t *testing.T) {
	for n, has := range map[int]string{1: "only device 0", 2: "the devices 0 to 1"} {
		drv := Need(Open(WithSoftware(cusim.New(cusim.Devices(n)))))(t)
		_, err := drv.Device(n)
		if want := fmt.Sprintf("there is no device %d: the driver has %s", n, has); !errors.Is(err, ResultInvalidDevice) ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d devices: %v", n, err)
		}
		if err := drv.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDevicePeers(t *testing.T) {
	f := newFake(t)
	drv := f.open()
	a, b := Need(drv.Device(0))(t), Need(drv.Device(1))(t)
	if !Need(a.CanAccessPeer(b))(t) || Need(a.CanAccessPeer(a))(t) {
		t.Error("CanAccessPeer")
	}
	if v := Need(a.P2PAttribute(P2PAttributeNativeAtomicSupported, b))(t); v != 3 {
		t.Errorf("P2PAttribute = %d", v)
	}
	if _, err := a.P2PAttribute(0, a); !errors.Is(err, ResultInvalidDevice) {
		t.Errorf("a device's link to itself: %v", err)
	}
	other := Need(f.open().Device(1))(t)
	if _, err := a.CanAccessPeer(other); !errors.Is(err, ErrDriverMismatch) {
		t.Errorf("devices of two drivers: %v", err)
	}
}

func TestEnumNames(t *testing.T) {
	for got, want := range map[string]string{
		DeviceAttributeWarpSize.String():              "warp_size",
		DeviceAttributePCIBusID.String():              "pci_bus_id",
		DeviceAttribute(9999).String():                "9999",
		P2PAttributeCUDAArrayAccessSupported.String(): "cuda_array_access_supported",
		FunctionAttributeNumRegs.String():             "num_regs",
		LimitStackSize.String():                       "stack_size",
		(ContextSchedSpin | ContextMapHost).String():  "ContextSchedSpin|ContextMapHost",
		ContextDefault.String():                       "ContextDefault",
		(HostPortable | HostWriteCombined).String():   "HostPortable|HostWriteCombined",
		WaitExternal.String():                         "WaitExternal",
		LaunchCooperative.String():                    "LaunchCooperative",
		LaunchFlags(6).String():                       "0x6",
		graph.InstantiateDefault.String():             "InstantiateDefault",
		(graph.InstantiateAutoFree | graph.InstantiateDeviceLaunch | graph.InstantiateNodePriority).String(): "InstantiateAutoFree|InstantiateDeviceLaunch|InstantiateNodePriority",
		(ContextSchedSpin | ContextSchedYield).String():                                                      "ContextSchedSpin|ContextSchedYield",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestFeatures opens drivers of different ages.
func TestFeatures(t *testing.T) {
	for version, want := range map[int]Features{
		11000: {Version: 11000},
		12000: {Version: 12000, ContextID: true, StreamID: true, RecordExternal: true},
		12080: {Version: 12080, ContextID: true, StreamID: true, RecordExternal: true, ParamInfo: true, ElapsedTimeV2: true},
	} {
		f := newFake(t)
		f.tell("fake_version", version)
		drv := f.open()
		got := Need(drv.Features())(t)
		got.ContextEvents, got.GreenContexts = false, false // the fake driver has none
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d (-want +got):\n%s", version, diff)
		}
		resolved := map[string]Symbol{}
		for _, s := range drv.Symbols() {
			resolved[s.Export] = s
		}
		v2 := resolved["cuEventElapsedTime_v2"]
		if v2.Name != "cuEventElapsedTime" || v2.Since != 12080 || !v2.Current || (v2.Addr != 0) != want.ElapsedTimeV2 || (v2.Err == nil) != want.ElapsedTimeV2 {
			t.Errorf("%d: %+v", version, v2)
		}
		if v2.Err != nil && !errors.Is(v2.Err, errors.ErrUnsupported) {
			t.Errorf("%d: %v", version, v2.Err)
		}
		if len(resolved) < 600 || resolved["cuInit"].Err != nil {
			t.Errorf("%d: %d symbols, cuInit %+v", version, len(resolved), resolved["cuInit"])
		}
	}
}

// TestNewer looks whether the table of newer functions names functions, the oldest first.
func TestNewer(t *testing.T) {
	last := 0
	for _, function := range NewerFunctions() {
		sym, known := driver.FindSymbol(function)
		if !known {
			t.Errorf("%s is no function", function)
			continue
		}
		if v := sym.Info().Version; v < last {
			t.Errorf("%s (%d) stands after a newer one (%d)", function, v, last)
		} else {
			last = v
		}
	}
}
