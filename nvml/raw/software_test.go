package raw

import "testing"

// soft is an NVML in Go.
type soft struct {
	Unimplemented
	kept *uint32
}

func (s *soft) DeviceGetPowerUsage(device Device, power *uint32) Return {
	if power == nil {
		return NVML_ERROR_INVALID_ARGUMENT
	}
	*power += uint32(device)
	s.kept = power
	return NVML_SUCCESS
}

func (s *soft) DeviceGetSupportedMemoryClocks(device Device, count *uint32, clocksMHz []uint32) Return {
	*count = uint32(copy(clocksMHz, []uint32{1, 2}))
	return NVML_SUCCESS
}

func TestSoftware(t *testing.T) {
	l := NewSoftware(&soft{})
	power := uint32(5)
	if res := l.DeviceGetPowerUsage(7, &power); res != NVML_SUCCESS || power != 12 {
		t.Errorf("the power is %d (%v)", power, res)
	}
	if res := l.DeviceGetPowerUsage(7, nil); res != NVML_ERROR_INVALID_ARGUMENT {
		t.Error(res)
	}
	clocks, count := make([]uint32, 3), uint32(3)
	if res := l.DeviceGetSupportedMemoryClocks(7, &count, clocks); res != NVML_SUCCESS || count != 2 || clocks[1] != 2 {
		t.Errorf("%d clocks: %d (%v)", count, clocks, res)
	}
	if res := l.DeviceGetHandleByUUID("x", new(Device)); res != missing(symDeviceGetHandleByUUID) {
		t.Error(res)
	}
	if text := l.ErrorString(NVML_ERROR_IN_USE); text != "the GPU is in use" || !l.Has("nvmlShutdown") {
		t.Errorf("the text is %q", text)
	}
	var _ Software = l // so that one can be in place of the other
}
