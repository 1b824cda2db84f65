package nvml

import "github.com/purecu/purecu/nvml/raw"

// Temperature returns what a sensor measures (nvmlDeviceGetTemperatureV, and nvmlDeviceGetTemperature for drivers
// before 580).
func (d *Device) Temperature(sensor TemperatureSensor) (Celsius, error) {
	const op = "nvmlDeviceGetTemperatureV"
	w, err := d.obj().call(op, words{b: uint64(sensor)}, func(l *raw.Library, w words) (words, raw.Return) {
		t := raw.TemperatureV1{Version: raw.TemperatureV1Version, SensorType: raw.TemperatureSensors(w.b)}
		r := l.DeviceGetTemperatureV(raw.Device(w.a), &t)
		if !lacks(r) {
			return words{a: uint64(t.Temperature)}, r
		}
		var older uint32
		r = l.DeviceGetTemperature(raw.Device(w.a), raw.TemperatureSensors(w.b), &older)
		return words{a: uint64(older)}, r
	})
	return Celsius(w.a), err
}
