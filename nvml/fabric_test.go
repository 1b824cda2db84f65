package nvml_test

import (
	"errors"
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// fabricGPU is connected to a fabric, of which the driver knows what its version says.
type fabricGPU struct {
	basis
	version uint32
	status  raw.Return
}

var cluster = [16]uint8{0x12, 0x34, 15: 0xff}

func (g fabricGPU) DeviceGetGpuFabricInfoV(_ raw.Device, f *raw.GpuFabricInfoV) raw.Return {
	if g.version == 1 {
		return raw.Unimplemented{}.DeviceGetGpuFabricInfoV(0, f)
	}
	if f.Version>>24 > g.version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	f.ClusterUuid, f.Status, f.CliqueId, f.State = cluster, g.status, 9, raw.NVML_GPU_FABRIC_STATE_COMPLETED
	f.HealthMask = 1 | 2<<2 | 1<<4 | 0<<6 | 4<<8 | 2<<12
	if g.version == 3 {
		f.HealthSummary = raw.NVML_GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY
	}
	return raw.NVML_SUCCESS
}

func (g fabricGPU) DeviceGetGpuFabricInfo(_ raw.Device, f *raw.GpuFabricInfo) raw.Return {
	f.ClusterUuid, f.Status, f.CliqueId, f.State = cluster, g.status, 9, raw.NVML_GPU_FABRIC_STATE_IN_PROGRESS
	return raw.NVML_SUCCESS
}

func TestFabric(t *testing.T) {
	const uuid = "12340000-0000-0000-0000-0000000000ff"
	want := nvml.Fabric{State: nvml.FabricCompleted, Cluster: uuid, Clique: 9, DegradedBandwidth: nvml.FabricYes,
		RouteRecovery: nvml.FabricNo, RouteUnhealthy: nvml.FabricYes, PartitionAssigned: nvml.FabricNo,
		Configuration: nvml.FabricConfigurationNoPartition}
	wants(t, want)(deviceOf(t, fabricGPU{version: 2}).Fabric())
	want.Health = nvml.FabricHealthUnhealthy
	wants(t, want)(deviceOf(t, fabricGPU{version: 3}).Fabric())
	wants(t, nvml.Fabric{State: nvml.FabricInProgress, Cluster: uuid, Clique: 9})(
		deviceOf(t, fabricGPU{version: 1, status: raw.NVML_ERROR_UNKNOWN}).Fabric())
	f, err := deviceOf(t, fabricGPU{version: 3, status: raw.NVML_ERROR_UNKNOWN}).Fabric()
	if err != nil || !errors.Is(f.Err, raw.NVML_ERROR_UNKNOWN) {
		t.Errorf("the fabric is %v (%v)", f, err)
	}
	if text := want.DegradedBandwidth.String() + want.RouteRecovery.String() + want.AccessTimeoutRecovery.String(); text !=
		"yesnounknown" {
		t.Errorf("the conditions are %s", text)
	}
}
