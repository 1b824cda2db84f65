package simnvml

import (
	"testing"

	"github.com/purecu/purecu/nvml/raw"
)

// TestVersions checks which versions of structs are taken, of those that have several.
func TestVersions(t *testing.T) {
	const mismatch, unsupported = raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, raw.NVML_ERROR_NOT_SUPPORTED
	b := newBench(t, 1)
	for version, want := range map[uint32]raw.Return{raw.GpuFabricInfoV3Version: 0, raw.GpuFabricInfoV2Version: 0,
		raw.GpuFabricInfoV2Version + 4: mismatch, raw.GpuFabricInfoV3Version + 1<<24: mismatch, 0: mismatch} {
		info := raw.GpuFabricInfoV{Version: version, HealthMask: 7}
		returns(t, b.DeviceGetGpuFabricInfoV(b.gpus[0], &info), want)
		if info.Version != version || (info.HealthMask == 0) != (want == 0) {
			t.Errorf("version %#x: %+v", version, info)
		}
	}
	for version, want := range map[uint32]raw.Return{raw.NvLinkInfoV2Version: unsupported,
		raw.NvLinkInfoV1Version: unsupported, raw.NvLinkInfoV1Version + 4: mismatch} {
		returns(t, b.DeviceGetNvLinkInfo(b.gpus[0], &raw.NvLinkInfo{Version: version}), want)
	}

	var status raw.Return
	succeeds(t, b.DeviceSetMigMode(b.gpus[0], raw.NVML_DEVICE_MIG_ENABLE, &status))
	var instance raw.GpuInstance
	succeeds(t, b.DeviceCreateGpuInstance(b.gpus[0], 19, &instance))
	for version, want := range map[uint32]raw.Return{raw.ComputeInstanceProfileInfoV2Version: 0,
		raw.ComputeInstanceProfileInfoV3Version: 0, 1: raw.NVML_ERROR_INVALID_ARGUMENT} {
		info := raw.ComputeInstanceProfileInfoV2{Version: version}
		returns(t, b.GpuInstanceGetComputeInstanceProfileInfoV(instance, 0, 0, &info), want)
		if (info.SliceCount != 0) != (want == 0) {
			t.Errorf("version %#x: %+v", version, info)
		}
	}
}
