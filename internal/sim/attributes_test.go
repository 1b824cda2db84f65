package sim

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
)

// TestDeviceAttributes compares the attributes of devices with those that were recorded on GPUs, except for features
// that this driver does not have.
func TestDeviceAttributes(t *testing.T) {
	for _, name := range []string{"H100", "H200"} {
		t.Run(name, func(t *testing.T) { testAttributes(t, name) })
	}
}

// TestTensorMapAttribute checks that a device that has maps of tensors says so, and no other one.
func TestTensorMapAttribute(t *testing.T) {
	for name, want := range map[string]int32{"A100": 0, "H200": 1} {
		gpus, err := profile.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		const has = driver.CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED
		if got, res := newLab(t, GPUs(gpus)).DeviceGetAttribute(nil, has, 0); got != want || res != ok {
			t.Errorf("%s: %d, %v; want %d", name, got, res, want)
		}
	}
}

func testAttributes(t *testing.T, name string) {
	text, err := os.ReadFile("testdata/attributes-" + strings.ToLower(name) + ".tsv")
	gpus, err2 := profile.Parse(name)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	differs := map[int32]int32{
		driver.CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:    0x3b,
		driver.CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: 0,
	}
	differs[driver.CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES] = 0
	if canShareMemory { // but not by fabric handles
		const types = driver.CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES
		differs[types] = driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	} else {
		differs[driver.CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED] = 0
	}
	r := newLab(t, GPUs(gpus))
	recorded := map[int32]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(fields) != 3 || fields[1] != "0" {
			continue
		}
		number, err1 := strconv.ParseInt(fields[0], 10, 32)
		value, err2 := strconv.ParseInt(fields[2], 10, 32)
		if err1 != nil || err2 != nil {
			t.Fatalf("%q: %v, %v", line, err1, err2)
		}
		a, want := int32(number), int32(value)
		recorded[a] = true
		if v, is := differs[a]; is {
			want = v
		}
		if missing[a] {
			if want == 0 {
				t.Errorf("attribute %d is 0 on a GPU, too", a)
			}
			want = 0
		}
		got, res := r.DeviceGetAttribute(nil, a, 0)
		if res != ok || got != want {
			t.Errorf("attribute %d: %d, %v; want %d", a, got, res, want)
		}
	}
	for a := int32(-1); a < 300; a++ {
		want := driver.ResultInvalidValue
		if recorded[a] {
			want = ok
		}
		if _, res := r.DeviceGetAttribute(nil, a, 0); res != want {
			t.Errorf("attribute %d: %v, want %v", a, res, want)
		}
	}
	source, err1 := os.ReadFile("attributes.go")
	page, err2 := os.ReadFile("../../docs/testing.md")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for _, m := range regexp.MustCompile(`CU_DEVICE_ATTRIBUTE_(\w+): *true`).FindAllSubmatch(source, -1) {
		if !bytes.Contains(page, []byte("`"+string(m[1])+"`")) {
			t.Errorf("docs/testing.md does not say that %s is 0", m[1])
		}
	}
	r.want("attribute that is set", ok, func() driver.Result {
		d := New(DeviceAttribute(driver.CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1))
		d.Init(nil, 0)
		v, res := d.DeviceGetAttribute(nil, driver.CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0)
		if v != 1 {
			t.Errorf("an attribute that was set to 1 is %d", v)
		}
		return res
	}())
}
