package launch

import (
	"encoding/binary"
	"fmt"

	"github.com/purecu/purecu/driver"
)

// Attributes are attributes of launches. nil stands for none.
type Attributes struct {
	// list is what the driver gets. Its first entry makes a launch cooperative, and others omit it. It is
	// empty in the zero value.
	list []driver.LaunchAttribute
	// cluster is the size of the clusters in blocks, or all 0.
	cluster [3]uint32
	// onlyLaunches names an attribute that nodes of graphs cannot have, or is "".
	onlyLaunches string
	err          error // the mistake in an attribute
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

// Add adds an attribute, or replaces the one of its kind. err is the mistake in it, or nil.
func (l *Attributes) Add(a driver.LaunchAttribute, err error) {
	if err != nil {
		l.err = err
	}
	if a.ID == driver.CU_LAUNCH_ATTRIBUTE_IGNORE {
		return
	}
	if k := attributeKinds[a.ID]; !k.onNodes {
		l.onlyLaunches = k.name
	}
	if a.ID == driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION {
		for i := range l.cluster {
			l.cluster[i] = binary.LittleEndian.Uint32(a.Value[4*i:])
		}
	}
	if len(l.list) == 0 {
		l.list = append(make([]driver.LaunchAttribute, 0, 4), onlyCooperative[0])
	}
	l.set(a)
}

// OnlyLaunches names an attribute that nodes of graphs cannot have, or returns "".
func (l *Attributes) OnlyLaunches() string { return l.onlyLaunches }

// onlyCooperative is the list of attributes that were made of none.
var onlyCooperative = []driver.LaunchAttribute{{ID: driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
	Value: *CooperativeValue(true)}}

// set adds an attribute, or replaces the one of its kind.
func (l *Attributes) set(a driver.LaunchAttribute) {
	for i := 1; i < len(l.list); i++ {
		if l.list[i].ID == a.ID {
			l.list[i] = a
			return
		}
	}
	l.list = append(l.list, a)
}

// List returns the attributes of a launch.
func (l *Attributes) List(cooperative bool) []driver.LaunchAttribute {
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

// Equal reports whether both have the same attributes.
func (l *Attributes) Equal(other *Attributes) bool {
	a, b := l.List(false), other.List(false)
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
func (l *Attributes) value(id int32) *driver.LaunchAttributeValue {
	list := l.List(false)
	for i := range list {
		if list[i].ID == id {
			return &list[i].Value
		}
	}
	return nil
}

// wrong says what is wrong with the attributes for a grid and a version of the driver, or returns "".
func (l *Attributes) wrong(g Dim, version int) (detail string, res driver.Result) {
	if c := l.cluster; c[0] != 0 && (g.X%c[0] != 0 || g.Y%c[1] != 0 || g.Z%c[2] != 0) {
		return fmt.Sprintf("a grid of %d x %d x %d blocks cannot be divided into clusters of %d x %d x %d: "+
				"make each dimension of Grid a multiple of the cluster's", g.X, g.Y, g.Z, c[0], c[1], c[2]),
			driver.ResultInvalidClusterSize
	}
	for _, a := range l.List(false) {
		if k := attributeKinds[a.ID]; version < k.since {
			return fmt.Sprintf("%s needs a driver for CUDA %v, and this one is for CUDA %v: update the driver",
				k.name, driver.Version(k.since), driver.Version(version)), driver.ResultNotSupported
		}
	}
	return "", driver.ResultSuccess
}

// Unset returns the value of an attribute as it is on a node without the attribute.
func Unset(id int32) *driver.LaunchAttributeValue {
	v := new(driver.LaunchAttributeValue)
	if id == driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP {
		v[1] = 1 // each logical domain has its own
	}
	return v
}

// CooperativeValue returns the value of the attribute that makes a launch cooperative.
func CooperativeValue(is bool) *driver.LaunchAttributeValue {
	v := new(driver.LaunchAttributeValue)
	if is {
		v[0] = 1
	}
	return v
}
