package nvml

import (
	"fmt"

	"github.com/purecu/purecu/nvml/raw"
)

// FabricCondition says whether something is the case.
type FabricCondition uint8

// The values of FabricCondition.
const (
	FabricUnknown FabricCondition = iota // the driver does not say it
	FabricYes
	FabricNo
)

// String returns "unknown", "yes" or "no".
func (c FabricCondition) String() string {
	switch c {
	case FabricYes:
		return "yes"
	case FabricNo:
		return "no"
	}
	return "unknown"
}

// Fabric says how a GPU is connected to the fabric of NVLinks of several machines.
type Fabric struct {
	State FabricState
	// Err is the result of joining the fabric. It counts only if State is FabricCompleted, and is nil otherwise.
	Err error
	// Cluster is the UUID of the cluster, without a prefix, or "" if there is none. GPUs with the same Cluster and the
	// same Clique can reach each other.
	Cluster string
	Clique  uint32
	// Health and what follows is unknown to older drivers.
	Health                FabricHealth
	DegradedBandwidth     FabricCondition
	RouteRecovery         FabricCondition // a route is being repaired
	RouteUnhealthy        FabricCondition
	AccessTimeoutRecovery FabricCondition // the GPU recovers from an access without an answer
	// PartitionAssigned is unverified: no driver has confirmed it.
	PartitionAssigned FabricCondition
	Configuration     FabricConfiguration
}

// Fabric returns how the GPU is connected to the fabric of NVLinks (nvmlDeviceGetGpuFabricInfoV, and
// nvmlDeviceGetGpuFabricInfo for older drivers). Only GPUs since Hopper have this.
func (d *Device) Fabric() (Fabric, error) {
	return get(d.obj(), "nvmlDeviceGetGpuFabricInfoV", func(l *raw.Library, h uint64) (Fabric, raw.Return) {
		f := raw.GpuFabricInfoV{Version: raw.GpuFabricInfoV3Version}
		r := l.DeviceGetGpuFabricInfoV(raw.Device(h), &f)
		if r == raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH {
			f = raw.GpuFabricInfoV{Version: raw.GpuFabricInfoV2Version} // which is the beginning of the newer one
			r = l.DeviceGetGpuFabricInfoV(raw.Device(h), &f)
		}
		if lacks(r) {
			var older raw.GpuFabricInfo
			r = l.DeviceGetGpuFabricInfo(raw.Device(h), &older)
			f = raw.GpuFabricInfoV{ClusterUuid: older.ClusterUuid, Status: older.Status, CliqueId: older.CliqueId,
				State: older.State}
		}
		return fabricOf(f), r
	})
}

func fabricOf(f raw.GpuFabricInfoV) Fabric {
	condition := func(shift int) FabricCondition { return FabricCondition(f.HealthMask >> shift & 3) }
	fabric := Fabric{
		State: f.State, Clique: f.CliqueId, Health: FabricHealth(f.HealthSummary),
		DegradedBandwidth:     condition(raw.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW),
		RouteRecovery:         condition(raw.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY),
		RouteUnhealthy:        condition(raw.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY),
		AccessTimeoutRecovery: condition(raw.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY),
		PartitionAssigned:     condition(raw.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_PARTITION_ASSIGNED),
		Configuration: FabricConfiguration(f.HealthMask >> raw.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION &
			raw.NVML_GPU_FABRIC_HEALTH_MASK_WIDTH_INCORRECT_CONFIGURATION),
	}
	if f.State == FabricCompleted && f.Status != raw.NVML_SUCCESS {
		fabric.Err = f.Status
	}
	if u := f.ClusterUuid; u != [16]uint8{} {
		fabric.Cluster = fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
	}
	return fabric
}
