package nvml

import "github.com/purecu/purecu/nvml/raw"

// MarginTemperature returns by how much the GPU is cooler than the temperature at which it becomes slower
// (nvmlDeviceGetMarginTemperature). It is less than 0 if the GPU is too hot.
func (d *Device) MarginTemperature() (Celsius, error) {
	const op = "nvmlDeviceGetMarginTemperature"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		t := raw.MarginTemperature{Version: raw.MarginTemperatureV1Version}
		r := l.DeviceGetMarginTemperature(raw.Device(w.a), &t)
		return words{a: uint64(t.MarginTemperature)}, r
	})
	return Celsius(w.a), err
}

// SetTemperatureThreshold sets the temperature at which something happens (nvmlDeviceSetTemperatureThreshold). It needs
// root. Most thresholds cannot be set; ThresholdAcousticCurr is one that can.
func (d *Device) SetTemperatureThreshold(t TemperatureThreshold, at Celsius) error {
	const op = "nvmlDeviceSetTemperatureThreshold"
	_, err := d.obj().call(op, words{b: uint64(t), c: uint64(at)}, func(l *raw.Library, w words) (words, raw.Return) {
		at := int32(w.c)
		return words{}, l.DeviceSetTemperatureThreshold(raw.Device(w.a), raw.TemperatureThresholds(w.b), &at)
	})
	return err
}

// ThermalSensor is a sensor of temperature.
type ThermalSensor struct {
	Controller ThermalController
	Target     ThermalTarget
	// Least and Most are the temperatures that the sensor can measure.
	Least, Most Celsius
	Current     Celsius
}

// ThermalSensors returns what the sensors measure that have a number, of which the first is 0
// (nvmlDeviceGetThermalSettings). The number 15 stands for all sensors.
func (d *Device) ThermalSensors(number int) ([]ThermalSensor, error) {
	const op = "nvmlDeviceGetThermalSettings"
	o := d.obj()
	if err := o.checkNumber(op, "sensor", number); err != nil {
		return nil, err
	}
	return get(o, op, func(l *raw.Library, h uint64) ([]ThermalSensor, raw.Return) {
		var s raw.GpuThermalSettings
		r := l.DeviceGetThermalSettings(raw.Device(h), uint32(number), &s)
		return each(s.Sensor[:min(int(s.Count), len(s.Sensor))], func(s raw.GpuThermalSettingsSensor) ThermalSensor {
			return ThermalSensor{s.Controller, s.Target, Celsius(s.DefaultMinTemp), Celsius(s.DefaultMaxTemp),
				Celsius(s.CurrentTemp)}
		}), r
	})
}
