package nvml

import (
	"reflect"
	"strings"
	"testing"

	"github.com/purecu/purecu/nvml/raw"
)

// handLayouts are those of methods that are not generated.
var handLayouts = [][2]reflect.Type{
	{reflect.TypeFor[FieldValue](), reflect.TypeFor[raw.FieldValue]()},
	{reflect.TypeFor[Hostname_v1](), reflect.TypeFor[raw.HostnameV1]()},
	{reflect.TypeFor[NvLinkUtilizationControl](), reflect.TypeFor[raw.NvLinkUtilizationControl]()},
	{reflect.TypeFor[PRMCounterList_v1](), reflect.TypeFor[raw.PRMCounterListV1]()},
	{reflect.TypeFor[PRMCounter_v1](), reflect.TypeFor[raw.PRMCounterV1]()},
	{reflect.TypeFor[ProcessDetailList](), reflect.TypeFor[raw.ProcessDetailList]()},
	{reflect.TypeFor[ProcessDetail_v1](), reflect.TypeFor[raw.ProcessDetailV1]()},
	{reflect.TypeFor[ProcessInfo](), reflect.TypeFor[raw.ProcessInfo]()},
	{reflect.TypeFor[ProcessInfo_v1](), reflect.TypeFor[raw.ProcessInfoV1]()},
	{reflect.TypeFor[ProcessInfo_v2](), reflect.TypeFor[raw.ProcessInfoV2]()},
	{reflect.TypeFor[ProcessUtilizationSample](), reflect.TypeFor[raw.ProcessUtilizationSample]()},
	{reflect.TypeFor[Sample](), reflect.TypeFor[raw.Sample]()},
	{reflect.TypeFor[VgpuPgpuCompatibility](), reflect.TypeFor[raw.VgpuPgpuCompatibility]()},
	{reflect.TypeFor[WorkloadPowerProfileUpdateProfiles_v1](),
		reflect.TypeFor[raw.WorkloadPowerProfileUpdateProfilesV1]()},
	{reflect.TypeFor[nvmlVgpuMetadata](), reflect.TypeFor[raw.VgpuMetadata]()},
	{reflect.TypeFor[nvmlVgpuPgpuMetadata](), reflect.TypeFor[raw.VgpuPgpuMetadata]()},
	{reflect.TypeFor[GpmMetric](), reflect.TypeFor[raw.GpmMetric]()},
}

// TestLayouts compares the structs of this package with those of package raw to which their addresses are converted.
func TestLayouts(t *testing.T) {
	for _, pair := range append(handLayouts, layouts...) {
		ours, theirs := pair[0], pair[1]
		if ours.Size() != theirs.Size() {
			t.Errorf("%v has %d bytes, and %v %d", ours, ours.Size(), theirs, theirs.Size())
		}
		if theirs.Kind() != reflect.Struct {
			continue
		}
		for i, j := 0, 0; i < ours.NumField() && j < theirs.NumField(); i, j = i+1, j+1 {
			f, g := ours.Field(i), theirs.Field(j)
			if f.Name == "Pad_cgo_0" {
				j--
				continue
			}
			union := strings.HasSuffix(g.Name, "Union") // its members have other names
			if f.Name != g.Name && !union || f.Offset != g.Offset || f.Type.Size() != g.Type.Size() {
				t.Errorf("%v.%s is at %d, of %d bytes, and %v.%s at %d, of %d", ours, f.Name, f.Offset, f.Type.Size(),
					theirs, g.Name, g.Offset, g.Type.Size())
			}
		}
	}
	if len(layouts) < 100 {
		t.Errorf("only %d structs were compared", len(layouts))
	}
}
