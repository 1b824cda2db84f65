package simnvml

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/nvml/raw"
)

// Other is the number in a row that stands for all numbers that no row has.
const Other = 1000

// otherField is the number of a field that stands for all that no row has.
const otherField = "[{FieldId:329 ScopeId:0}]"

// General returns lists of texts of arguments that are ever more general. A row stands for all calls of which it is the
// first in this order.
func General(args []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		args := slices.Clone(args)
		for i := len(args) - 1; i >= 0; i-- {
			for _, text := range generalized(args[i]) {
				args[i] = text
				if !yield(args) {
					return
				}
			}
		}
	}
}

// generalized returns the more general texts of one argument.
func generalized(text string) (list []string) {
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		list = append(list, strconv.Itoa(Other))
	}
	if strings.HasPrefix(text, "v") { // one wrong version stands for all
		list = append(list, "v0")
	}
	if strings.HasPrefix(text, "[{FieldId:") {
		id, _, _ := strings.Cut(text, " ")
		list = append(list, id+" ScopeId:0}]", otherField)
	}
	return slices.DeleteFunc(list, func(s string) bool { return s == text })
}

// inputs are the members that a function reads of the struct that it sets.
var inputs = map[reflect.Type][]string{
	reflect.TypeFor[raw.Temperature]():           {"SensorType"},
	reflect.TypeFor[raw.FanSpeedInfo]():          {"Fan"},
	reflect.TypeFor[raw.CoolerInfo]():            {"Index"},
	reflect.TypeFor[raw.AccountingStatsV2]():     {"Pid"},
	reflect.TypeFor[raw.PowerSmoothingProfile](): {"ProfileId"},
	reflect.TypeFor[raw.ProcessDetailList]():     {"Mode"}, // its length is the model's
	reflect.TypeFor[raw.ClockOffset]():           {"Type", "Pstate"},
	reflect.TypeFor[raw.GpmMetricsGet]():         {"NumMetrics", "Metrics"},
}

// Inputs returns the text of the members of a struct that a function reads, or "" if all are zero.
func Inputs(v reflect.Value) string {
	var list []string
	for _, name := range inputs[v.Type()] {
		if f := v.FieldByName(name); !f.IsZero() {
			list = append(list, fmt.Sprintf("%s:%s", name, Text(f)))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "{" + strings.Join(list, " ") + "}"
}

// earlier are the versions of structs that begin like the newest one, and that a driver takes, too.
var earlier = map[reflect.Type]uint64{
	reflect.TypeFor[raw.GpuFabricInfoV]():    raw.GpuFabricInfoV2Version,
	reflect.TypeFor[raw.NvLinkInfo]():        raw.NvLinkInfoV1Version,
	reflect.TypeFor[raw.VgpuPlacementList](): raw.VgpuPlacementListV1Version,
}

// takes reports whether a function takes the version that a struct has.
func takes(v reflect.Value) bool {
	given := v.Field(0).Uint()
	return given == uint64(Version(v.Type())) || given != 0 && given == earlier[v.Type()]
}

// Version returns the version of a struct that its caller sets, or 0 if it has none.
func Version(t reflect.Type) uint32 {
	if t.Kind() != reflect.Struct || t.NumField() == 0 || t.Field(0).Name != "Version" {
		return 0
	}
	switch t {
	case reflect.TypeFor[raw.GpmMetricsGet](), reflect.TypeFor[raw.GpmSupport]():
		return 1
	case reflect.TypeFor[raw.VgpuMetadata](), reflect.TypeFor[raw.VgpuPgpuMetadata]():
		return 0
	}
	_, n := cutVersion(t.Name())
	return uint32(t.Size()) | uint32(max(n, 1))<<24
}
