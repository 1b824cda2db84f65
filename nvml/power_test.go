package nvml_test

import (
	"errors"
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// powerGPU has the fields of power whose numbers it has a value for, of the GPU.
type powerGPU struct {
	basis
	fields map[nvml.FieldID]uint32
	result raw.Return
	limit  raw.PowerValueV2
	mode   uint32
}

func (g *powerGPU) DeviceGetFieldValues(_ raw.Device, values []raw.FieldValue) raw.Return {
	for i := range values {
		v, has := g.fields[nvml.FieldID(values[i].FieldId)]
		if !has || values[i].ScopeId != uint32(nvml.PowerScopeGPU) {
			values[i].NvmlReturn = g.result
			continue
		}
		values[i].ValueType = raw.NVML_VALUE_TYPE_UNSIGNED_INT
		*values[i].Value.UiVal() = v
	}
	return raw.NVML_SUCCESS
}

func (g *powerGPU) DeviceSetPowerManagementLimitV2(_ raw.Device, p *raw.PowerValueV2) raw.Return {
	g.limit = *p
	return raw.NVML_SUCCESS
}

func (g *powerGPU) DeviceGetPowerMizerModeV1(_ raw.Device, m *raw.DevicePowerMizerModesV1) raw.Return {
	*m = raw.DevicePowerMizerModesV1{CurrentMode: g.mode, SupportedPowerMizerModes: 0xb}
	return raw.NVML_SUCCESS
}

func (g *powerGPU) DeviceSetPowerMizerModeV1(_ raw.Device, m *raw.DevicePowerMizerModesV1) raw.Return {
	g.mode = m.Mode
	return raw.NVML_SUCCESS
}

func TestPowerOfScopes(t *testing.T) {
	g := &powerGPU{result: raw.NVML_ERROR_NOT_SUPPORTED, fields: map[nvml.FieldID]uint32{nvml.FieldPowerAverage: 81_410,
		nvml.FieldPowerCurrentLimit: 700_000, nvml.FieldPowerMinLimit: 200_000, nvml.FieldPowerMaxLimit: 700_001,
		nvml.FieldPowerDefaultLimit: 700_002, nvml.FieldPowerRequestedLimit: 700_003}}
	d := deviceOf(t, g)
	wants(t, nvml.PowerLimits{Current: 700_000, Requested: 700_003, Default: 700_002, Least: 200_000, Most: 700_001})(
		d.PowerLimitsOf(nvml.PowerScopeGPU))
	if average, instant, err := d.PowerUsageOf(nvml.PowerScopeGPU); average != 81_410 || instant != 0 || err != nil {
		t.Errorf("the power is %v and %v (%v)", average, instant, err)
	}
	_, err := d.PowerLimitsOf(nvml.PowerScopeModule)
	isError(t, err, errors.ErrUnsupported)
	g.result = raw.NVML_ERROR_GPU_IS_LOST
	_, _, err = d.PowerUsageOf(nvml.PowerScopeGPU)
	isError(t, err, nvml.ErrGPULost)
	err = d.SetPowerLimitOf(nvml.PowerScopeModule, 400_000)
	if err != nil || g.limit != (raw.PowerValueV2{Version: raw.PowerValueV2Version, PowerScope: 1, PowerValueMw: 400_000}) {
		t.Errorf("the limit is %+v (%v)", g.limit, err)
	}
}

func TestPowerMizer(t *testing.T) {
	d := deviceOf(t, &powerGPU{})
	if err := d.SetPowerMizer(nvml.PowerMizerPreferMaximumPerformance); err != nil {
		t.Error(err)
	}
	wants(t, nvml.PowerMizer{Mode: nvml.PowerMizerPreferMaximumPerformance, Supported: []nvml.PowerMizerMode{
		nvml.PowerMizerAdaptive, nvml.PowerMizerPreferMaximumPerformance, nvml.PowerMizerPreferConsistentPerformance}})(
		d.PowerMizer())
}
