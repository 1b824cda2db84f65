package raw

import (
	"reflect"
	"strconv"
	"testing"
	"unsafe"
)

// A layout is what C makes of a struct or a union, in bytes.
type layout struct {
	name        string
	typ         reflect.Type
	size, align uintptr
	fields      []span
}

// A span is where a field is.
type span struct{ offset, size uintptr }

// TestLayouts compares the structs with C's. ULong has four bytes on Windows, as C has it there.
func TestLayouts(t *testing.T) {
	if len(layouts) < 140 {
		t.Fatalf("there are only %d structs", len(layouts))
	}
	for _, l := range layouts {
		if l.typ.Size() != l.size || uintptr(l.typ.Align()) != l.align {
			t.Errorf("%s has %d bytes and is aligned to %d, and in C %d to %d", l.name, l.typ.Size(), l.typ.Align(),
				l.size, l.align)
		}
		if l.fields == nil {
			continue
		}
		if l.typ.NumField() != len(l.fields) {
			t.Errorf("%s has %d fields, and in C %d", l.name, l.typ.NumField(), len(l.fields))
			continue
		}
		for i, want := range l.fields {
			if f := l.typ.Field(i); f.Offset != want.offset || f.Type.Size() != want.size {
				t.Errorf("%s: field %s has %d bytes at %d, and in C %d at %d", l.name, f.Name, f.Type.Size(), f.Offset,
					want.size, want.offset)
			}
		}
	}
}

// TestVersions compares the values of the member Version with the sizes of structs.
func TestVersions(t *testing.T) {
	for got, size := range map[uint32]uintptr{
		MemoryV2Version:        unsafe.Sizeof(MemoryV2{}) | 2<<24,
		TemperatureV1Version:   unsafe.Sizeof(Temperature{}) | 1<<24,
		GpuFabricInfoV3Version: unsafe.Sizeof(GpuFabricInfoV{}) | 3<<24,
		PlatformInfoV2Version:  unsafe.Sizeof(PlatformInfo{}) | 2<<24,
	} {
		if uintptr(got) != size {
			t.Errorf("the version is %#x, want %#x", got, size)
		}
	}
}

// TestUnions stores members of unions, and finds them where C has them.
func TestUnions(t *testing.T) {
	var v Value
	*v.DVal() = 1.5
	if *v.UllVal() != 0x3ff8<<48 || v[0] != 0x3ff8<<48 {
		t.Errorf("the value is %#x", v)
	}
	var p PRMTLVV1
	p.InData()[0] = 7
	if p.OutData()[0] != 7 || uintptr(unsafe.Pointer(p.InData()))-uintptr(unsafe.Pointer(&p)) != 8 {
		t.Errorf("the data are %v", p)
	}
}

// TestNames checks the names and texts of constants and results.
func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		NVML_THERMAL_TARGET_UNKNOWN.String():           "NVML_THERMAL_TARGET_UNKNOWN",
		NVML_TEMPERATURE_GPU.String():                  "NVML_TEMPERATURE_GPU",
		TemperatureSensors(77).String():                "77",
		NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED.String(): "NVML_P2P_STATUS_CHIPSET_NOT_SUPPORED", // the first of two
		NVML_ERROR_GPU_IS_LOST.Error():                 "NVML_ERROR_GPU_IS_LOST (15): the GPU is lost",
		NVML_SUCCESS.Name():                            "NVML_SUCCESS",
		NVML_ERROR_UNKNOWN.Text():                      "an internal error of the driver",
		Return(500).Error():                            "nvmlReturn_t 500",
		Return(500).String():                           "500",
		missing(symInitV2).Error():                     "the library of NVML lacks nvmlInit_v2, which driver 535 has",
		missing(symDeviceGetBBXTimeDataV1).Error():     "the library of NVML lacks nvmlDeviceGetBBXTimeData_v1, which needs a driver that is newer than 580",
		missing(numSymbols - 1).Error():                "the library of NVML lacks nvmlVgpuTypeGetResolution, which driver 535 has",
		missing(numSymbols).String():                   strconv.Itoa(-1 - numSymbols),
		NotCalled.Error():                              "NVML was not called: the thread for the call could not be created",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
