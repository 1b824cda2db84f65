package raw

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/loader"
)

// exports is a library without the checks of package loader.
type exports struct{ lib ccall.Library }

func (e exports) Symbol(name string) (uintptr, error) { return e.lib.Lookup(name) }

// fakeLibrary builds the library for tests.
func fakeLibrary(t *testing.T) exports {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	path := filepath.Join(t.TempDir(), "libnvmlraw.so")
	build := exec.Command(cc, "-Wall", "-O1", "-shared", "-fPIC", "-o", path, "testdata/nvml.c")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lib, err := ccall.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return exports{lib}
}

// TestCalls makes calls of each kind of argument.
func TestCalls(t *testing.T) {
	l := New(fakeLibrary(t))
	want := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	want("InitV2", l.InitV2(), NVML_ERROR_DRIVER_NOT_LOADED)
	want("ErrorString", l.ErrorString(9), "a text of the library")
	want("ErrorString of a result without a text", l.ErrorString(3), NVML_ERROR_NOT_SUPPORTED.Text())
	var power uint32
	want("PowerUsage", l.DeviceGetPowerUsage(7, &power), NVML_SUCCESS)
	want("power", power, uint32(7000))
	want("PowerUsage without an address", l.DeviceGetPowerUsage(7, nil), NVML_ERROR_INVALID_ARGUMENT)
	temp := Temperature{Version: TemperatureV1Version, SensorType: NVML_TEMPERATURE_GPU}
	want("TemperatureV", l.DeviceGetTemperatureV(30, &temp), NVML_SUCCESS)
	want("temperature", temp.Temperature, int32(30))
	want("TemperatureV without a version", l.DeviceGetTemperatureV(30, &Temperature{}),
		NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
	name := make([]byte, 8)
	want("Name", l.DeviceGetName(1, name), NVML_SUCCESS)
	want("name", string(name), "a GPU\x00\x00\x00")
	want("Name of too few bytes", l.DeviceGetName(1, name[:5]), NVML_ERROR_INSUFFICIENT_SIZE)
	var device Device
	want("HandleByUUID", l.DeviceGetHandleByUUID("GPU-12", &device), NVML_SUCCESS)
	want("device", device, Device(6))
	want("HandleByUUID with a NUL", l.DeviceGetHandleByUUID("GPU\x0012", &device), NVML_ERROR_INVALID_ARGUMENT)
	states := make([]Pstates, 16)
	want("SupportedPerformanceStates", l.DeviceGetSupportedPerformanceStates(1, states), NVML_SUCCESS)
	want("states", states[:2], []Pstates{NVML_PSTATE_0, NVML_PSTATE_UNKNOWN})
	values := []FieldValue{{FieldId: 80}, {FieldId: 81}}
	want("FieldValues", l.DeviceGetFieldValues(1, values), NVML_SUCCESS)
	want("values", []uint64{*values[0].Value.UllVal(), *values[1].Value.UllVal()}, []uint64{81, 82})

	clocks, count := make([]uint32, 4), uint32(0)
	want("SupportedMemoryClocks of nothing", l.DeviceGetSupportedMemoryClocks(1, &count, nil),
		NVML_ERROR_INSUFFICIENT_SIZE)
	want("count", count, uint32(3))
	want("SupportedMemoryClocks", l.DeviceGetSupportedMemoryClocks(1, &count, clocks), NVML_SUCCESS)
	want("clocks", clocks, []uint32{100, 200, 300, 0})
	count = 5 // more than the slice has
	want("SupportedMemoryClocks of too many", l.DeviceGetSupportedMemoryClocks(1, &count, clocks),
		NVML_ERROR_INVALID_ARGUMENT)

	res := l.DeviceGetUUID(1, name)
	function, driver := res.Missing()
	want("a function that the library lacks", function, "nvmlDeviceGetUUID")
	want("the driver that has it", driver, 535)
	want("once more", l.DeviceGetUUID(1, name), res)
	want("it is unsupported", errors.Is(res, errors.ErrUnsupported), true)
	want("Has", []bool{l.Has("nvmlInit_v2"), l.Has("nvmlDeviceGetUUID"), l.Has("nvmlNo"), l.Has("")},
		[]bool{true, false, false, false})
	want("a Library of nothing", new(Library).Shutdown(), missing(symShutdown))
}

// TestNoAllocation checks that getters of numbers allocate nothing. The portable engine has its frames on the heap: for
// it only the results are checked.
func TestNoAllocation(t *testing.T) {
	l := New(fakeLibrary(t))
	for name, call := range map[string]func() Return{
		"a number": func() Return { var power uint32; return l.DeviceGetPowerUsage(1, &power) },
		"a struct": func() Return {
			temp := Temperature{Version: TemperatureV1Version}
			return l.DeviceGetTemperatureV(1, &temp)
		},
		"a text": func() Return {
			var name [NVML_DEVICE_NAME_V2_BUFFER_SIZE]byte
			return l.DeviceGetName(1, name[:])
		},
		"several numbers": func() Return { var v [2]FieldValue; return l.DeviceGetFieldValues(1, v[:]) },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if call() != NVML_SUCCESS {
				t.Error("the call has failed")
			}
		}); n != 0 && ccall.Engine != "purego" {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// noting is a library of which every function is the same C function, which notes its words.
type noting struct{ function uintptr }

func (n noting) Symbol(string) (uintptr, error) { return n.function, nil }

// TestCallsReachC makes every call with different numbers. C must receive them and the addresses in their order.
func TestCallsReachC(t *testing.T) {
	lib := fakeLibrary(t)
	note, err := lib.Symbol("note")
	look, err2 := lib.Symbol("look")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	l := New(noting{note})
	methods := reflect.TypeFor[Software]()
	for i := range methods.NumMethod() {
		m := methods.Method(i)
		if m.Name == "ErrorString" { // its result is an address
			continue
		}
		args, want := arguments(m.Type)
		if res := reflect.ValueOf(l).MethodByName(m.Name).Call(args)[0].Interface(); res != NVML_SUCCESS {
			t.Errorf("%s returned %v", m.Name, res)
		}
		f := struct {
			ccall.Head
			to    unsafe.Pointer
			_     [5]uintptr
			words [6]uint64
		}{Head: ccall.Head{Fn: look}}
		f.to = unsafe.Pointer(&f.words)
		ccall.Call6(unsafe.Pointer(&f), ccall.Hot, nil)
		rest := want
		for _, w := range f.words {
			if len(rest) > 0 && w == rest[0] {
				rest = rest[1:]
			}
		}
		if len(rest) > 0 {
			t.Errorf("%s: C received %#x, which does not have %#x in this order", m.Name, f.words, want)
		}
	}
}

// arguments returns arguments for a method, and those of its words that are numbers, or addresses of variables.
func arguments(typ reflect.Type) (args []reflect.Value, want []uint64) {
	for i := range typ.NumIn() {
		v := reflect.New(typ.In(i)).Elem()
		number := uint64(0x41 + i)
		switch v.Kind() {
		case reflect.Int32:
			v.SetInt(-int64(number)) // not sign-extended
			number = uint64(uint32(-int64(number)))
		case reflect.Uint8, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
			if bits := v.Type().Bits(); bits > 8 {
				number |= number << (bits - 8)
			}
			v.SetUint(number)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 3, 3))
			number = uint64(v.Pointer())
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			number = uint64(v.Pointer())
		case reflect.String:
			args = append(args, v)
			continue
		}
		args, want = append(args, v), append(want, number)
	}
	return args, want
}

// TestRealLibrary calls NVIDIA's libraries of older drivers, on a machine without a GPU.
func TestRealLibrary(t *testing.T) {
	paths := os.Getenv("PURECU_TEST_NVML")
	if paths == "" {
		t.Skip("PURECU_TEST_NVML is not set")
	}
	for path := range strings.SplitSeq(paths, ":") {
		lib, err := loader.OpenLibrary(loader.NVML, path)
		if err != nil {
			t.Error(err)
			continue
		}
		l := New(lib)
		if res := l.InitV2(); res != NVML_ERROR_DRIVER_NOT_LOADED {
			t.Errorf("%s: InitV2 returned %v", path, res)
		}
		if text := l.ErrorString(NVML_ERROR_DRIVER_NOT_LOADED); text != "Driver Not Loaded" {
			t.Errorf("%s: the text is %q", path, text)
		}
		var count uint32
		if res := l.DeviceGetCountV2(&count); res != NVML_ERROR_UNINITIALIZED {
			t.Errorf("%s: DeviceGetCountV2 returned %v", path, res)
		}
		place := slices.IndexFunc(releases[:], func(release int) bool {
			return strings.Contains(path, strconv.Itoa(release))
		})
		version := make([]byte, NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE)
		if res := l.SystemGetNVMLVersion(version); res != NVML_SUCCESS ||
			!strings.Contains(string(version), strconv.Itoa(releases[place])) {
			t.Errorf("%s: the version is %s (%v)", path, version, res)
		}
		if res := l.DeviceGetTemperatureV(0, &Temperature{}); res != missing(symDeviceGetTemperatureV) {
			t.Errorf("%s: DeviceGetTemperatureV returned %v", path, res)
		}
		for i, name := range strings.Fields(symbolNames) {
			if has, want := l.Has("nvml"+name), int(symbolDrivers[i]-'0') <= place; has != want {
				t.Errorf("%s has nvml%s: %v, want %v", path, name, has, want)
			}
		}
	}
}

// TestGPUCalls asks the driver of a machine with a GPU, and changes nothing.
func TestGPUCalls(t *testing.T) {
	if os.Getenv("PURECU_TEST_GPU") == "" {
		t.Skip("PURECU_TEST_GPU is not set")
	}
	l, err := Open("")
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, res Return) {
		t.Helper()
		if res != NVML_SUCCESS {
			t.Errorf("%s: %v", what, res)
		}
	}
	check("InitV2", l.InitV2())
	defer l.Shutdown()
	var count uint32
	check("DeviceGetCountV2", l.DeviceGetCountV2(&count))
	for i := range count {
		var device Device
		check("DeviceGetHandleByIndexV2", l.DeviceGetHandleByIndexV2(i, &device))
		name, uuid := make([]byte, NVML_DEVICE_NAME_V2_BUFFER_SIZE), make([]byte, NVML_DEVICE_UUID_V2_BUFFER_SIZE)
		check("DeviceGetName", l.DeviceGetName(device, name))
		check("DeviceGetUUID", l.DeviceGetUUID(device, uuid))
		var power uint32
		check("DeviceGetPowerUsage", l.DeviceGetPowerUsage(device, &power))
		temp := Temperature{Version: TemperatureV1Version, SensorType: NVML_TEMPERATURE_GPU}
		check("DeviceGetTemperatureV", l.DeviceGetTemperatureV(device, &temp))
		memory := MemoryV2{Version: MemoryV2Version}
		check("DeviceGetMemoryInfoV2", l.DeviceGetMemoryInfoV2(device, &memory))
		values := []FieldValue{{FieldId: NVML_FI_DEV_POWER_INSTANT}}
		check("DeviceGetFieldValues", l.DeviceGetFieldValues(device, values))
		var same Device
		id, _, _ := strings.Cut(string(uuid), "\x00")
		check("DeviceGetHandleByUUID", l.DeviceGetHandleByUUID(id, &same))
		if same != device || power < 10_000 || temp.Temperature < 10 || memory.Total < memory.Used ||
			values[0].NvmlReturn != NVML_SUCCESS {
			t.Errorf("device %d: %#x, %d mW, %d °C, %+v, %+v", i, same, power, temp.Temperature, memory, values[0])
		}
		t.Logf("%s %s: %d mW, %d °C, %d of %d bytes", bytes.Trim(name, "\x00"), id, power, temp.Temperature,
			memory.Used, memory.Total)
	}
	if count == 0 {
		t.Error("there is no GPU")
	}
}
