package cu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/purecu/purecu/driver"
)

// LaunchAttributes are attributes of launches, made by [LaunchWith]. They never change. Launches may
// share them, also at the same time. nil stands for no attributes.
type LaunchAttributes struct {
	// list is what the driver gets. Its first entry makes a launch cooperative, and others omit it. It is
	// empty in the zero value.
	list []driver.LaunchAttribute
	// cluster is the size of the clusters in blocks, or all 0.
	cluster [3]uint32
	// onlyLaunches names an attribute that nodes of graphs cannot have, or is "".
	onlyLaunches string
	err          error // the mistake in an attribute
}

// LaunchAttribute is an attribute of a launch, such as the size of clusters: see [LaunchWith]. The
// zero value has no effect.
type LaunchAttribute struct {
	id    int32
	value driver.LaunchAttributeValue
	err   error
}

// attributeKind is what is known about a kind of attributes.
type attributeKind struct {
	name    string // of the function that makes it
	since   int    // the CUDA version
	onNodes bool   // nodes of graphs can have it
}

// attributeKinds are the kinds of attributes of launches, by their IDs.
var attributeKinds = [...]attributeKind{
	driver.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:                 {"LaunchAccessWindow", 11060, true},
	driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE:                          {"LaunchCooperative", 11060, true},
	driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:                    {"LaunchCluster", 11080, true},
	driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: {"LaunchClusterScheduling", 11080, true},
	driver.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:    {"LaunchProgrammatic", 11080, false},
	driver.CU_LAUNCH_ATTRIBUTE_PRIORITY:                             {"LaunchPriority", 11070, true},
	driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:                  {"LaunchMemSyncDomainMap", 12000, true},
	driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:                      {"LaunchMemSyncDomain", 12000, true},
	driver.CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:          {"LaunchPreferredCluster", 12080, false},
	driver.CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:     {"LaunchSharedMemCarveout", 12050, true},
	driver.CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:       {"LaunchNVLinkUtilization", 13000, true},
}

// words returns an attribute whose value consists of 32-bit words.
func words(id int32, list ...uint32) LaunchAttribute {
	a := LaunchAttribute{id: id}
	for i, w := range list {
		binary.LittleEndian.PutUint32(a.value[4*i:], w)
	}
	return a
}

// window returns the attribute of an access policy window.
func window(addr uint64, size uint64, ratio float32, hit, miss int32) LaunchAttribute {
	return words(driver.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, uint32(addr), uint32(addr>>32),
		uint32(size), uint32(size>>32), math.Float32bits(ratio), uint32(hit), uint32(miss))
}

// withAttributes combines attributes. The last one of a kind counts.
func withAttributes(attrs []LaunchAttribute) *LaunchAttributes {
	all := &LaunchAttributes{list: append(make([]driver.LaunchAttribute, 0, 1+len(attrs)), onlyCooperative...)}
	for _, a := range attrs {
		if a.err != nil {
			all.err = a.err
		}
		if a.id == driver.CU_LAUNCH_ATTRIBUTE_IGNORE {
			continue
		}
		if k := attributeKinds[a.id]; !k.onNodes {
			all.onlyLaunches = k.name
		}
		if a.id == driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION {
			w := func(i int) uint32 { return binary.LittleEndian.Uint32(a.value[4*i:]) }
			all.cluster = [3]uint32{w(0), w(1), w(2)}
		}
		all.set(driver.LaunchAttribute{ID: a.id, Value: a.value})
	}
	return all
}

// onlyCooperative is the list of attributes that were made of none.
var onlyCooperative = []driver.LaunchAttribute{{ID: driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
	Value: words(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1).value}}

// set adds an attribute, or replaces the one of its kind.
func (l *LaunchAttributes) set(a driver.LaunchAttribute) {
	for i := 1; i < len(l.list); i++ {
		if l.list[i].ID == a.ID {
			l.list[i] = a
			return
		}
	}
	l.list = append(l.list, a)
}

// of returns the attributes of a launch.
func (l *LaunchAttributes) of(cooperative bool) []driver.LaunchAttribute {
	if l == nil {
		return nil
	}
	list := l.list
	if len(list) == 0 {
		list = onlyCooperative
	}
	if cooperative {
		return list
	}
	return list[1:]
}

// equal reports whether both have the same attributes.
func (l *LaunchAttributes) equal(other *LaunchAttributes) bool {
	a, b := l.of(false), other.of(false)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if v := other.value(a[i].ID); v == nil || *v != a[i].Value {
			return false
		}
	}
	return true
}

// value returns the value of an attribute, or nil if it is not there.
func (l *LaunchAttributes) value(id int32) *driver.LaunchAttributeValue {
	list := l.of(false)
	for i := range list {
		if list[i].ID == id {
			return &list[i].Value
		}
	}
	return nil
}

// wrong says what is wrong with the attributes for a grid and a version of the driver, or returns "".
func (l *LaunchAttributes) wrong(grid [3]uint32, version int) (detail string, res driver.Result) {
	if c := l.cluster; c[0] != 0 && (grid[0]%c[0] != 0 || grid[1]%c[1] != 0 || grid[2]%c[2] != 0) {
		return fmt.Sprintf("a grid of %d x %d x %d blocks cannot be divided into clusters of %d x %d x %d: "+
				"make each dimension of Grid a multiple of the cluster's", grid[0], grid[1], grid[2], c[0], c[1], c[2]),
			driver.ResultInvalidClusterSize
	}
	for _, a := range l.of(false) {
		if k := attributeKinds[a.ID]; version < k.since {
			return fmt.Sprintf("%s needs a driver for CUDA %v, and this one is for CUDA %v: update the driver",
				k.name, driver.Version(k.since), driver.Version(version)), driver.ResultNotSupported
		}
	}
	return "", driver.ResultSuccess
}

// unset returns the value of an attribute as it is on a node without the attribute.
func unset(id int32) *driver.LaunchAttributeValue {
	v := new(driver.LaunchAttributeValue)
	if id == driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP {
		v[1] = 1 // each logical domain has its own
	}
	return v
}

// cooperativeValue returns the value of the attribute that makes a launch cooperative.
func cooperativeValue(is bool) *driver.LaunchAttributeValue {
	v := new(driver.LaunchAttributeValue)
	if is {
		v[0] = 1
	}
	return v
}
