package cu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/launch"
)

// LaunchWith combines attributes for [LaunchConfig]. Make them once, and use them for any number of
// launches: then a launch with attributes allocates nothing. Of several attributes of one kind the
// last one counts. A mistake in an attribute is an error of the launch.
//
// What no attribute sets is as the stream or the kernel has it.
func LaunchWith(attrs ...LaunchAttribute) *LaunchAttributes {
	all := new(LaunchAttributes)
	for _, a := range attrs {
		all.core().Add(driver.LaunchAttribute{ID: a.id, Value: a.value}, a.err)
	}
	return all
}

// LaunchAttributes are attributes of launches, made by [LaunchWith]. They never change. Launches may
// share them, also at the same time. nil stands for no attributes.
type LaunchAttributes struct{ launchAttributesValue }

// launchAttributesValue is an alias, so that the field of LaunchAttributes is not exported.
type launchAttributesValue = core.Value[launch.Attributes]

func (l *LaunchAttributes) core() *launch.Attributes {
	if l == nil {
		return nil
	}
	return core.ValueIn(&l.launchAttributesValue)
}

// LaunchAttribute is an attribute of a launch, such as the size of clusters: see [LaunchWith]. The
// zero value has no effect.
type LaunchAttribute struct {
	id    int32
	value driver.LaunchAttributeValue
	err   error
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

// LaunchCluster groups the blocks of the grid into clusters of this size. The blocks of a cluster run
// at the same time, and can use the shared memory of each other. Each dimension of the grid must be a
// multiple of the cluster's. It needs compute capability 9.0: see [Function.MaxActiveClusters]
// (CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CUDA 11.8).
func LaunchCluster(size Dim3) LaunchAttribute {
	return clusterOf(driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, size)
}

// LaunchPreferredCluster lets the device use larger clusters than [LaunchCluster] says, which must be
// set, too. Each dimension must be a multiple of the cluster's
// (CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, CUDA 12.8).
func LaunchPreferredCluster(size Dim3) LaunchAttribute {
	return clusterOf(driver.CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, size)
}

func clusterOf(id int32, size Dim3) LaunchAttribute {
	n := size.normalize()
	a := words(id, n.X, n.Y, n.Z)
	if n.X == 0 {
		a.err = drivercall.NewError(core.LaunchExOp, nil, ResultInvalidClusterSize, drivercall.ErrInvalid,
			"a cluster has no blocks: X must be at least 1")
	}
	return a
}

// ClusterScheduling says how the clusters of a grid are distributed over the multiprocessors. The
// values are CUDA's.
type ClusterScheduling int32

const (
	// ClusterSchedulingDefault leaves it to the driver: CU_CLUSTER_SCHEDULING_POLICY_DEFAULT.
	ClusterSchedulingDefault ClusterScheduling = driver.CU_CLUSTER_SCHEDULING_POLICY_DEFAULT
	// ClusterSchedulingSpread puts the blocks of a cluster on different multiprocessors:
	// CU_CLUSTER_SCHEDULING_POLICY_SPREAD.
	ClusterSchedulingSpread ClusterScheduling = driver.CU_CLUSTER_SCHEDULING_POLICY_SPREAD
	// ClusterSchedulingLoadBalancing lets the device put each block where there is room:
	// CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING.
	ClusterSchedulingLoadBalancing ClusterScheduling = driver.CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING
)

// LaunchClusterScheduling says how the blocks of clusters are distributed over the multiprocessors
// (CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, CUDA 11.8).
func LaunchClusterScheduling(s ClusterScheduling) LaunchAttribute {
	a := words(driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, uint32(s))
	if s < ClusterSchedulingDefault || s > ClusterSchedulingLoadBalancing {
		a.err = drivercall.BadValue(core.LaunchExOp, nil,
			fmt.Sprintf("there is no cluster scheduling %d: see ClusterScheduling", s))
	}
	return a
}

// LaunchProgrammatic lets the kernel begin before the kernel before it on the stream is done, if that
// one allows it by the PTX instruction griddepcontrol.launch_dependents. Before the kernel uses what
// the other one wrote, it must wait by griddepcontrol.wait; nothing detects a kernel that does not.
// It needs compute capability 9.0 (CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, CUDA 11.8).
func LaunchProgrammatic() LaunchAttribute {
	return words(driver.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1)
}

// LaunchPriority gives the kernel another priority than its stream has; the lowest number is the
// highest priority. See [Context.PriorityRange] (CU_LAUNCH_ATTRIBUTE_PRIORITY, CUDA 11.7).
func LaunchPriority(priority int) LaunchAttribute {
	a := words(driver.CU_LAUNCH_ATTRIBUTE_PRIORITY, uint32(int32(priority)))
	if int(int32(priority)) != priority {
		a.err = drivercall.BadValue(core.LaunchExOp, nil,
			fmt.Sprintf("priority %d does not fit into 32 bits: see Context.PriorityRange", priority))
	}
	return a
}

// LaunchMemSyncDomain chooses the logical domain of the kernel's fences
// (CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, CUDA 12.0).
func LaunchMemSyncDomain(d MemSyncDomain) LaunchAttribute {
	a := words(driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, uint32(d))
	a.err = d.check(core.LaunchExOp)
	return a
}

// LaunchMemSyncDomainMap says which domain of the device stands for each logical domain. The device
// attribute DeviceAttributeMemSyncDomainCount says how many there are
// (CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, CUDA 12.0).
func LaunchMemSyncDomainMap(m MemSyncDomainMap) LaunchAttribute {
	return words(driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, m.word())
}

// LaunchSharedMemCarveout asks for a division of the memory that shared memory and the L1 cache have
// together: percent of it, from 0 to 100, for shared memory. The driver may choose more. It counts
// more than FunctionAttributePreferredSharedMemoryCarveout
// (CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, CUDA 12.5).
func LaunchSharedMemCarveout(percent int) LaunchAttribute {
	a := words(driver.CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, uint32(percent))
	if percent < 0 || percent > 100 {
		a.err = drivercall.BadValue(core.LaunchExOp, nil,
			fmt.Sprintf("%d is not a percentage: shared memory takes 0 to 100 percent", percent))
	}
	return a
}

// LaunchAccessWindow says how the L2 cache treats the kernel's accesses to a part of the memory: see
// [AccessWindow] (CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, CUDA 11.6).
func LaunchAccessWindow(w AccessWindow) LaunchAttribute { return w.attribute(core.LaunchExOp) }

// LaunchNVLinkUtilization asks the driver to distribute the blocks so that they use NVLink well. It
// assumes that all blocks use it equally (CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, CUDA
// 13.0).
func LaunchNVLinkUtilization() LaunchAttribute {
	return words(driver.CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, 1)
}

// AccessProperty says how the L2 cache treats accesses. The values are CUDA's.
type AccessProperty int32

const (
	// AccessNormal is how accesses are treated without a window: CU_ACCESS_PROPERTY_NORMAL.
	AccessNormal AccessProperty = driver.CU_ACCESS_PROPERTY_NORMAL
	// AccessStreaming makes the data leave the cache first: CU_ACCESS_PROPERTY_STREAMING.
	AccessStreaming AccessProperty = driver.CU_ACCESS_PROPERTY_STREAMING
	// AccessPersisting makes the data stay in the part of the cache that LimitPersistingL2CacheSize
	// sets aside: CU_ACCESS_PROPERTY_PERSISTING.
	AccessPersisting AccessProperty = driver.CU_ACCESS_PROPERTY_PERSISTING
)

// AccessWindow says how the L2 cache treats accesses to memory (CUaccessPolicyWindow). The zero value
// is no window. The memory may be closed at any time, and is not kept.
type AccessWindow struct {
	// Memory is the memory. It must not be longer than the device's attribute
	// DeviceAttributeMaxAccessPolicyWindowSize says.
	Memory Memory
	// HitRatio is the part of the memory, from 0 to 1, that gets the property Hit. The driver chooses
	// the part. The rest gets Miss, which cannot be AccessPersisting.
	HitRatio  float32
	Hit, Miss AccessProperty
}

// attribute returns the attribute, which is the same for launches, streams and nodes.
func (w AccessWindow) attribute(op string) LaunchAttribute {
	if w == (AccessWindow{}) {
		return window(0, 0, 0, 0, 0)
	}
	r := regionOf(w.Memory)
	a := LaunchAttribute{id: driver.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW}
	switch {
	case r.Missing(op) != nil:
		a.err = r.Missing(op)
	case r.Check(op) != nil:
		a.err = r.Check(op)
	case !(w.HitRatio >= 0 && w.HitRatio <= 1):
		a.err = drivercall.BadValue(op, nil, fmt.Sprintf("HitRatio is %v: it must be from 0 to 1", w.HitRatio))
	case w.Hit < AccessNormal || w.Hit > AccessPersisting:
		a.err = drivercall.BadValue(op, nil, fmt.Sprintf("there is no access property %d: see AccessProperty", w.Hit))
	case w.Miss < AccessNormal || w.Miss > AccessStreaming:
		a.err = drivercall.BadValue(op, nil, "Miss must be AccessNormal or AccessStreaming")
	default:
		a = window(uint64(r.Addr()), r.Size, w.HitRatio, int32(w.Hit), int32(w.Miss))
	}
	return a
}

// MemSyncDomain is a logical domain of memory synchronization. A fence waits only for the writes of
// kernels of its domain, so kernels in different domains slow each other down less. The values are
// CUDA's.
type MemSyncDomain int32

const (
	// MemSyncDomainDefault is for kernels in general: CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT.
	MemSyncDomainDefault MemSyncDomain = 0
	// MemSyncDomainRemote is for kernels that write to other devices or to host memory:
	// CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE.
	MemSyncDomainRemote MemSyncDomain = 1
)

func (d MemSyncDomain) check(op string) error {
	if d != MemSyncDomainDefault && d != MemSyncDomainRemote {
		return drivercall.BadValue(op, nil, fmt.Sprintf("there is no domain %d: see MemSyncDomain", d))
	}
	return nil
}

// MemSyncDomainMap has the domain of the device for each logical domain (CUlaunchMemSyncDomainMap).
type MemSyncDomainMap struct{ Default, Remote uint8 }

func (m MemSyncDomainMap) word() uint32 { return uint32(m.Default) | uint32(m.Remote)<<8 }
