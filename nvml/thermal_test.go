package nvml_test

import (
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// hotGPU has sensors and fans.
type hotGPU struct {
	basis
	threshold int32
}

func (g *hotGPU) DeviceGetMarginTemperature(_ raw.Device, t *raw.MarginTemperature) raw.Return {
	if t.Version != raw.MarginTemperatureV1Version {
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	}
	t.MarginTemperature = -2
	return raw.NVML_SUCCESS
}

func (g *hotGPU) DeviceSetTemperatureThreshold(_ raw.Device, t raw.TemperatureThresholds, at *int32) raw.Return {
	if t != raw.NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	g.threshold = *at
	return raw.NVML_SUCCESS
}

func (g *hotGPU) DeviceGetThermalSettings(_ raw.Device, sensor uint32, s *raw.GpuThermalSettings) raw.Return {
	s.Count = 5 // more than there can be
	s.Sensor[0] = raw.GpuThermalSettingsSensor{Controller: -1, DefaultMinTemp: -256, DefaultMaxTemp: 255, CurrentTemp: 36,
		Target: raw.ThermalTarget(sensor)}
	return raw.NVML_SUCCESS
}

func (g *hotGPU) DeviceGetFanSpeedRPM(_ raw.Device, f *raw.FanSpeedInfo) raw.Return {
	if f.Version != raw.FanSpeedInfoV1Version || f.Fan != 1 {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	f.Speed = 1800
	return raw.NVML_SUCCESS
}

func (g *hotGPU) DeviceGetCoolerInfo(_ raw.Device, c *raw.CoolerInfo) raw.Return {
	if c.Version != raw.CoolerInfoV1Version || c.Index != 1 {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	c.SignalType, c.Target = raw.NVML_THERMAL_COOLER_SIGNAL_VARIABLE, raw.NVML_THERMAL_COOLER_TARGET_GPU_RELATED
	return raw.NVML_SUCCESS
}

func TestThermal(t *testing.T) {
	g := &hotGPU{}
	d := deviceOf(t, g)
	wants(t, nvml.Celsius(-2))(d.MarginTemperature())
	if err := d.SetTemperatureThreshold(nvml.ThresholdAcousticCurr, -7); err != nil || g.threshold != -7 {
		t.Errorf("the threshold is %d (%v)", g.threshold, err)
	}
	isError(t, d.SetTemperatureThreshold(nvml.ThresholdShutdown, 90), nvml.ErrInvalidArgument)
	all, err := d.ThermalSensors(15)
	if err != nil || len(all) != 3 || all[0] != (nvml.ThermalSensor{Controller: nvml.ControllerUnknown,
		Target: nvml.ThermalTargetAll, Least: -256, Most: 255, Current: 36}) {
		t.Errorf("the sensors are %v (%v)", all, err)
	}
	_, err = d.ThermalSensors(-1)
	isError(t, err, nvml.ErrInvalidArgument)
}

func TestFans(t *testing.T) {
	d := deviceOf(t, &hotGPU{})
	wants(t, 1800)(d.FanRPM(1))
	wants(t, nvml.Cooler{Control: nvml.CoolerVariable, Target: nvml.CoolerTargetGPURelated})(d.Cooler(1))
	for _, fan := range []int{0, -1, 1<<32 + 1} {
		_, err := d.FanRPM(fan)
		isError(t, err, nvml.ErrInvalidArgument)
		_, err = d.Cooler(fan)
		isError(t, err, nvml.ErrInvalidArgument)
	}
}
