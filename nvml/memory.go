package nvml

import "github.com/purecu/purecu/nvml/raw"

// Memory says how much of a memory is in use, in bytes.
type Memory struct {
	Total uint64
	// Reserved is what the driver and the firmware keep for themselves. It is 0 if the driver does not say it: then
	// Used includes it.
	Reserved uint64
	Free     uint64
	Used     uint64
}

// Memory returns how much of the GPU's memory is in use (nvmlDeviceGetMemoryInfo_v2, and nvmlDeviceGetMemoryInfo for
// older drivers). A GPU in MIG mode returns the sum of its MIG devices, for which root is needed; each MIG device
// returns its own. A GPU that shares the memory of the machine has none.
func (d *Device) Memory() (Memory, error) {
	const op = "nvmlDeviceGetMemoryInfo_v2"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		m := raw.MemoryV2{Version: raw.MemoryV2Version}
		r := l.DeviceGetMemoryInfoV2(raw.Device(w.a), &m)
		if !lacks(r) {
			return words{m.Total, m.Reserved, m.Free, m.Used}, r
		}
		var older raw.Memory
		r = l.DeviceGetMemoryInfo(raw.Device(w.a), &older)
		return words{a: older.Total, c: older.Free, d: older.Used}, r
	})
	return Memory{w.a, w.b, w.c, w.d}, err
}

// BAR1Memory returns how much of the addresses is in use through which the processor and other devices on PCIe reach
// the GPU's memory (nvmlDeviceGetBAR1MemoryInfo).
func (d *Device) BAR1Memory() (Memory, error) {
	const op = "nvmlDeviceGetBAR1MemoryInfo"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var m raw.BAR1Memory
		r := l.DeviceGetBAR1MemoryInfo(raw.Device(w.a), &m)
		return words{a: m.Bar1Total, c: m.Bar1Free, d: m.Bar1Used}, r
	})
	return Memory{w.a, w.b, w.c, w.d}, err
}

// DRAMEncryption reports whether the GPU's memory is encrypted now, and after the machine restarts
// (nvmlDeviceGetDramEncryptionMode). Only GPUs since Blackwell can do this.
func (d *Device) DRAMEncryption() (current, pending bool, err error) {
	const op = "nvmlDeviceGetDramEncryptionMode"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		now := raw.DramEncryptionInfo{Version: raw.DramEncryptionInfoV1Version}
		next := now
		r := l.DeviceGetDramEncryptionMode(raw.Device(w.a), &now, &next)
		return words{a: uint64(now.EncryptionState), b: uint64(next.EncryptionState)}, r
	})
	return w.a != 0, w.b != 0, err
}

// SetDRAMEncryption says whether the GPU's memory is encrypted after the machine restarts
// (nvmlDeviceSetDramEncryptionMode). It needs root.
func (d *Device) SetDRAMEncryption(on bool) error {
	const op = "nvmlDeviceSetDramEncryptionMode"
	_, err := d.obj().call(op, words{b: number[uint64](on)}, func(l *raw.Library, w words) (words, raw.Return) {
		mode := raw.DramEncryptionInfo{Version: raw.DramEncryptionInfoV1Version, EncryptionState: raw.EnableState(w.b)}
		return words{}, l.DeviceSetDramEncryptionMode(raw.Device(w.a), &mode)
	})
	return err
}
