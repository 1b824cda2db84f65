package nvmlentries

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/purecu/purecu/internal/simnvml"
	"github.com/purecu/purecu/nvml/raw"
)

// machine is an NVML that is initialized, with an object of each kind that can be had without changing anything.
type machine struct {
	lib     *raw.Library
	device  raw.Device
	set     raw.EventSet
	samples [2]raw.GpmSample
	private map[string]string // what a recording must not tell, with what is in its place
}

// newMachine initializes the library.
func newMachine(lib *raw.Library, wait func(time.Duration)) (*machine, error) {
	m := &machine{lib: lib, private: map[string]string{}}
	if r := lib.InitV2(); r != raw.NVML_SUCCESS {
		return nil, r
	}
	if r := lib.DeviceGetHandleByIndexV2(0, &m.device); r != raw.NVML_SUCCESS {
		return nil, r
	}
	if r := lib.EventSetCreate(&m.set); r != raw.NVML_SUCCESS {
		return nil, r
	}
	for i := range m.samples {
		if r := lib.GpmSampleAlloc(&m.samples[i]); r != raw.NVML_SUCCESS {
			return nil, r
		}
		if r := lib.GpmSampleGet(m.device, m.samples[i]); r != raw.NVML_SUCCESS {
			return nil, r
		}
		wait(200 * time.Millisecond)
	}
	for _, get := range []func(raw.Device, []byte) raw.Return{lib.DeviceGetUUID, lib.DeviceGetSerial} {
		text := make([]byte, 96)
		if get(m.device, text) == raw.NVML_SUCCESS {
			s := strings.TrimRight(string(text), "\x00")
			m.private[strings.TrimPrefix(s, "GPU-")] = strings.Map(func(r rune) rune {
				if r == '-' || r == 'G' {
					return r
				}
				return '0'
			}, strings.TrimPrefix(s, "GPU-"))
		}
	}
	return m, nil
}

// ask makes a call, and returns its result and what it set.
func (m *machine) ask(c call) string {
	args := make([]reflect.Value, len(c.args))
	before := make([]string, len(c.args))
	for i, a := range c.args {
		args[i] = a.value(m)
		before[i] = m.out(args[i])
	}
	r := reflect.ValueOf(m.lib).MethodByName(c.method).Call(args)[0].Interface().(raw.Return)
	row := []string{resultText(r)}
	for i := range args {
		if args[i].Kind() != reflect.Pointer && args[i].Kind() != reflect.Slice {
			continue
		}
		if after := m.out(args[i]); after == before[i] {
			row = append(row, "-")
		} else {
			row = append(row, after)
		}
	}
	for len(row) > 1 && row[len(row)-1] == "-" {
		row = row[:len(row)-1]
	}
	text := strings.Join(row, "\t")
	for secret, zeros := range m.private {
		text = strings.ReplaceAll(text, secret, zeros)
	}
	return text
}

// resultText returns a result as rows have it.
func resultText(r raw.Return) string {
	if name, _ := r.Missing(); name != "" {
		return "missing"
	}
	return fmt.Sprint(int32(r))
}

// out returns the text of what an argument leads to, without addresses and times.
func (m *machine) out(v reflect.Value) string {
	switch {
	case v.Kind() != reflect.Pointer && v.Kind() != reflect.Slice || v.IsNil():
		return ""
	case v.Kind() == reflect.Pointer:
		v = v.Elem()
	}
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	if v.Kind() == reflect.Slice {
		c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		reflect.Copy(c, v)
	}
	m.scrub(c)
	return simnvml.Text(c)
}

// unstable are the members that differ from call to call.
var unstable = []string{"Timestamp", "LatencyUsec", "TimeStamp", "ReferenceTime"}

// scrub sets addresses, times, and what the caller has set to zero, and handles of the device to 1.
func (m *machine) scrub(v reflect.Value) {
	switch v.Kind() {
	case reflect.Uintptr:
		if v.Type() == reflect.TypeFor[raw.Device]() && v.Uint() == uint64(m.device) {
			v.SetUint(1)
			return
		}
		v.SetZero()
	case reflect.UnsafePointer, reflect.Pointer:
		v.SetZero()
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; slices.Contains(unstable, name) || name == "FieldId" || name == "ScopeId" {
				v.Field(i).SetZero()
			}
			if v.Field(i).CanSet() {
				m.scrub(v.Field(i))
			}
		}
	case reflect.Array, reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.Struct, reflect.Uintptr, reflect.UnsafePointer, reflect.Pointer:
			for i := range v.Len() {
				m.scrub(v.Index(i))
			}
		}
	}
}
