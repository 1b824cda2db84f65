package nvmlentries

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/internal/simnvml"
	"github.com/purecu/purecu/nvml/raw"
)

// An argument has a text, from which a row is found again, and makes a new value for each call.
type argument struct {
	text  string
	value func(m *machine) reflect.Value
}

// A call is a method with its arguments. The method is one of raw.Software.
type call struct {
	method string
	args   []argument
}

// texts returns the texts of the arguments.
func (c call) texts() []string {
	list := make([]string, len(c.args))
	for i, a := range c.args {
		list[i] = a.text
	}
	return list
}

// String returns the call as a row has it.
func (c call) String() string { return c.method + "\t" + strings.Join(c.texts(), " ") }

// wrong is the memory that a handle leads to which the library has not made.
var wrong [1 << 16]byte

// fixed returns an argument that is the same for each call.
func fixed(text string, v reflect.Value) argument {
	return argument{text, func(*machine) reflect.Value { return v }}
}

// number returns an argument of an integer type.
func number(t reflect.Type, n uint64) argument {
	v := reflect.New(t).Elem()
	if v.CanInt() {
		v.SetInt(int64(int32(n)))
		return fixed(strconv.FormatInt(v.Int(), 10), v)
	}
	v.SetUint(n)
	return fixed(strconv.FormatUint(v.Uint(), 10), v)
}

// other is the number that stands for all that no row has.
const other = simnvml.Other

// room is how many elements a slice has that is long enough.
const room = 512

// inputs are the values to try of members that a function reads of the struct that it sets.
var inputs = map[reflect.Type][]any{
	reflect.TypeFor[raw.Temperature]():       {raw.Temperature{SensorType: 0}, raw.Temperature{SensorType: other}},
	reflect.TypeFor[raw.FanSpeedInfo]():      {raw.FanSpeedInfo{Fan: 0}, raw.FanSpeedInfo{Fan: other}},
	reflect.TypeFor[raw.CoolerInfo]():        {raw.CoolerInfo{Index: 0}, raw.CoolerInfo{Index: other}},
	reflect.TypeFor[raw.AccountingStatsV2](): {raw.AccountingStatsV2{Pid: 0}, raw.AccountingStatsV2{Pid: 1}},
	reflect.TypeFor[raw.PowerSmoothingProfile](): {raw.PowerSmoothingProfile{ProfileId: 0},
		raw.PowerSmoothingProfile{ProfileId: other}},
	reflect.TypeFor[raw.ProcessDetailList](): {raw.ProcessDetailList{Mode: 0}, raw.ProcessDetailList{Mode: 1},
		raw.ProcessDetailList{Mode: 2}, raw.ProcessDetailList{Mode: other}},
	reflect.TypeFor[raw.ClockOffset](): clockOffsets(),
}

func clockOffsets() (list []any) {
	for _, kind := range []raw.ClockType{0, 1, 2, 3, other} {
		for _, state := range []raw.Pstates{0, 1, 2, 8, 15, 32, other} {
			list = append(list, raw.ClockOffset{Type: kind, Pstate: state})
		}
	}
	return list
}

// pointer returns an argument that leads to a new variable, whose version is set, and whose members are those of init.
func pointer(text string, init reflect.Value, version uint32) argument {
	return argument{text, func(*machine) reflect.Value {
		p := reflect.New(init.Type())
		p.Elem().Set(init)
		if version != 0 {
			p.Elem().FieldByName("Version").SetUint(uint64(version))
		}
		return p
	}}
}

// pointers returns the arguments for a variable that a function sets.
func pointers(t reflect.Type, isCount bool) (good, bad []argument) {
	bad = append(bad, fixed("nil", reflect.Zero(reflect.PointerTo(t))))
	if isCount {
		for _, n := range []uint64{room, 0, 1} {
			v := reflect.New(t).Elem()
			v.SetUint(n)
			good = append(good, pointer("="+strconv.FormatUint(n, 10), v, 0))
		}
		return good, bad
	}
	version := simnvml.Version(t)
	if list := inputs[t]; list != nil {
		for _, init := range list {
			good = append(good, pointer("*"+simnvml.Inputs(reflect.ValueOf(init)), reflect.ValueOf(init), version))
		}
	} else if t == reflect.TypeFor[raw.GpmMetricsGet]() {
		good = metrics()
	} else {
		good = append(good, pointer("*", reflect.Zero(t), version))
	}
	if version != 0 {
		for _, v := range []uint32{0, version + 1<<24, version + 4} {
			bad = append(bad, argument{fmt.Sprintf("v%x", v), func(*machine) reflect.Value {
				p := reflect.New(t)
				p.Elem().FieldByName("Version").SetUint(uint64(v))
				return p
			}})
		}
	}
	return good, bad
}

// metrics returns the arguments of GpmMetricsGet.
func metrics() (list []argument) {
	for id := range uint32(340) {
		g := raw.GpmMetricsGet{Version: 1, NumMetrics: 1}
		g.Metrics[0].MetricId = id
		list = append(list, argument{"*" + simnvml.Inputs(reflect.ValueOf(g)), func(m *machine) reflect.Value {
			g := g
			g.Sample1, g.Sample2 = m.samples[0], m.samples[1]
			return reflect.ValueOf(&g)
		}})
	}
	return list
}

// fieldValues returns the arguments of DeviceGetFieldValues.
func fieldValues() (list []argument) {
	for id := range uint32(330) {
		for _, scope := range []uint32{0, 1, 2, 17, 18} {
			text := fmt.Sprintf("[{FieldId:%d ScopeId:%d}]", id, scope)
			list = append(list, argument{text, func(*machine) reflect.Value {
				return reflect.ValueOf([]raw.FieldValue{{FieldId: id, ScopeId: scope}})
			}})
		}
	}
	return list
}

// handles are the types of objects, with where the machine has one.
var handles = map[reflect.Type]func(m *machine) uintptr{
	reflect.TypeFor[raw.Device]():          func(m *machine) uintptr { return uintptr(m.device) },
	reflect.TypeFor[raw.EventSet]():        func(m *machine) uintptr { return uintptr(m.set) },
	reflect.TypeFor[raw.GpmSample]():       func(m *machine) uintptr { return uintptr(m.samples[0]) },
	reflect.TypeFor[raw.Unit]():            nil,
	reflect.TypeFor[raw.GpuInstance]():     nil,
	reflect.TypeFor[raw.ComputeInstance](): nil,
}

// changes are the words in the names of functions that change something. They are called with wrong handles and NULL.
var changes = regexp.MustCompile(`Set[A-Z]|^Set|Reset|Clear|Create|Destroy|Modify|Remove|Inject|Freeze|Update|` +
	`Activate|Discover|Unlock|Force|ReadWrite|PRM|Free|Register|EventSet`)

// arguments returns what to try for parameter i: good[0] is the usual one.
func arguments(method reflect.Method, i int) (good, bad []argument) {
	t := method.Type.In(i)
	if make, ok := handles[t]; ok {
		bad = []argument{number(t, 0), fixed("wrong", reflect.ValueOf(reflect.ValueOf(&wrong).Pointer()).Convert(t))}
		bad[0].text = "null"
		if make != nil {
			good = []argument{{strings.ToLower(t.Name()),
				func(m *machine) reflect.Value { return reflect.ValueOf(make(m)).Convert(t) }}}
		}
		return good, bad
	}
	switch t.Kind() {
	case reflect.String:
		for _, s := range []string{"", "wrong"} {
			good = append(good, fixed(strconv.Quote(s), reflect.ValueOf(s)))
		}
		return good, nil
	case reflect.Pointer:
		return pointers(t.Elem(), t.Elem().Kind() == reflect.Uint32 && hasSlice(method))
	case reflect.Slice:
		if method.Name == "DeviceGetFieldValues" {
			good = fieldValues()
		}
		for _, n := range []int{room, 0, 1, 8} {
			if n == room && t == reflect.TypeFor[[]raw.FieldValue]() {
				continue
			}
			good = append(good, argument{"#" + strconv.Itoa(n),
				func(*machine) reflect.Value { return reflect.MakeSlice(t, n, n) }})
		}
		return good, nil
	}
	switch {
	case method.Name == "DeviceGetP2PStatus", t == reflect.TypeFor[raw.Return]():
		return []argument{number(t, 0), number(t, 1), number(t, 2), number(t, 3), number(t, 4), number(t, 5), number(t,
			other)}, nil
	case t.Kind() == reflect.Uint64:
		return []argument{number(t, 0)}, nil
	case t == reflect.TypeFor[raw.VgpuInstance](), t == reflect.TypeFor[raw.VgpuTypeId]():
		return []argument{number(t, other), number(t, 0)}, nil
	}
	for n := range [...]uint64{0, 32, 20, 9}[numbers(method)] {
		good = append(good, number(t, n))
	}
	return append(good, number(t, other), number(t, 0xffffffff)), nil
}

// numbers counts the parameters that are small numbers, such as an enumeration or an index.
func numbers(method reflect.Method) (n int) {
	for i := range method.Type.NumIn() {
		switch t := method.Type.In(i); t.Kind() {
		case reflect.Int32, reflect.Uint32:
			if t != reflect.TypeFor[raw.VgpuInstance]() && t != reflect.TypeFor[raw.VgpuTypeId]() {
				n++
			}
		}
	}
	return n
}

func hasSlice(method reflect.Method) bool {
	for i := range method.Type.NumIn() {
		if method.Type.In(i).Kind() == reflect.Slice {
			return true
		}
	}
	return false
}

// calls returns the calls that are made of a method.
func calls(method reflect.Method) (list []call) {
	n := method.Type.NumIn()
	good, bad := make([][]argument, n), make([][]argument, n)
	usual := make([]argument, n)
	canWork := !changes.MatchString(method.Name)
	for i := range n {
		good[i], bad[i] = arguments(method, i)
		if len(good[i]) == 0 { // there is no such object
			canWork = false
			good[i] = bad[i][:1]
		}
		usual[i] = good[i][0]
	}
	if canWork {
		isBuffer := func(i int) bool {
			k := method.Type.In(i).Kind()
			return k == reflect.Slice && method.Name != "DeviceGetFieldValues" || k == reflect.Pointer && good[i][0].text != "*"
		}
		for _, buffers := range []bool{false, true} { // first all numbers, then all buffers
			products(method.Type.NumIn(), func(i int) []argument {
				if isBuffer(i) == buffers {
					return good[i]
				}
				return good[i][:1]
			}, func(args []argument) {
				if c := (call{method.Name, args}); !buffers || c.String() != list[0].String() {
					list = append(list, c)
				}
			})
		}
	}
	for i := range n {
		isHandle := handles[method.Type.In(i)] != nil || len(good[i]) > 0 && good[i][0].text == "null"
		if !canWork && !isHandle {
			continue // NULL for what is set, beside a handle that works, could change something
		}
		for _, b := range bad[i] {
			args := slices.Clone(usual)
			args[i] = b
			list = append(list, call{method.Name, args})
		}
	}
	return list
}

// products calls f with all that can be chosen for n arguments.
func products(n int, choices func(i int) []argument, f func([]argument)) {
	args := make([]argument, n)
	var from func(i int)
	from = func(i int) {
		if i == n {
			f(slices.Clone(args))
			return
		}
		for _, a := range choices(i) {
			args[i] = a
			from(i + 1)
		}
	}
	from(0)
}

// allCalls returns the calls of all methods, in their order.
func allCalls() (list []call) {
	t := reflect.TypeFor[raw.Software]()
	for i := range t.NumMethod() {
		m := t.Method(i)
		switch m.Name {
		case "Init", "InitV2", "InitWithFlags", "Shutdown", "ErrorString", "SystemEventSetWait":
			continue // TestStates has them
		case "EventSetWait", "EventSetWaitV2":
			continue // it would wait
		}
		list = append(list, calls(m)...)
	}
	return list
}

// callsIn returns the calls of a phase: all, or one of each method.
func callsIn(phase string) []call {
	list := allCalls()
	if phase == initialized {
		return list
	}
	return slices.CompactFunc(list, func(a, b call) bool { return a.method == b.method })
}
