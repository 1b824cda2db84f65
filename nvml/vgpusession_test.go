package nvml_test

import (
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// sessionFake is a virtual GPU that encodes and captures.
type sessionFake struct{ base }

func (sessionFake) VgpuInstanceGetEncoderSessions(v raw.VgpuInstance, n *uint32,
	list []raw.EncoderSessionInfo) raw.Return {
	return fillList(n, list, raw.EncoderSessionInfo{SessionId: 1, Pid: 2, VgpuInstance: v,
		CodecType:   raw.NVML_ENCODER_QUERY_HEVC,
		HResolution: 3, VResolution: 4, AverageFps: 5, AverageLatency: 6})
}

func (sessionFake) VgpuInstanceGetFBCStats(v raw.VgpuInstance, s *raw.FBCStats) raw.Return {
	*s = raw.FBCStats{SessionsCount: 1, AverageFPS: 2, AverageLatency: 3}
	return raw.NVML_SUCCESS
}

func (sessionFake) VgpuInstanceGetFBCSessions(v raw.VgpuInstance, n *uint32, list []raw.FBCSessionInfo) raw.Return {
	return fillList(n, list, raw.FBCSessionInfo{SessionId: 1, Pid: 2, VgpuInstance: v, DisplayOrdinal: 3,
		SessionType: raw.NVML_FBC_SESSION_TYPE_CUDA, SessionFlags: 4, HMaxResolution: 5, VMaxResolution: 6, HResolution: 7,
		VResolution: 8, AverageFPS: 9, AverageLatency: 10})
}

func (sessionFake) VgpuInstanceGetAccountingStats(v raw.VgpuInstance, pid uint32, s *raw.AccountingStats) raw.Return {
	switch pid {
	case 1:
		*s = raw.AccountingStats{GpuUtilization: 10, MemoryUtilization: 20, MaxMemoryUsage: 30, Time: 40, StartTime: stamp}
	case 2:
		*s = raw.AccountingStats{GpuUtilization: 1<<32 - 1, MemoryUtilization: 1<<32 - 1, MaxMemoryUsage: 1<<64 - 1,
			IsRunning: 1}
	default:
		return raw.NVML_ERROR_NOT_FOUND
	}
	return raw.NVML_SUCCESS
}

func TestVGPUSessions(t *testing.T) {
	v := open(t, sessionFake{}).VGPU(7)
	equal(t, "the encoders", []nvml.EncoderSession{{ID: 1, PID: 2, VGPU: 7, Type: nvml.EncoderHEVC, Width: 3, Height: 4,
		FPS:     5,
		Latency: 6 * time.Microsecond}})(v.EncoderSessions())
	equal(t, "the captures", []nvml.FBCSession{{ID: 1, PID: 2, VGPU: 7, Display: 3,
		Type: raw.NVML_FBC_SESSION_TYPE_CUDA, Flags: 4,
		MaxWidth: 5, MaxHeight: 6, Width: 7, Height: 8, FPS: 9, Latency: 10 * time.Microsecond}})(v.FBCSessions())
	if n, fps, latency, err := v.FBCStats(); n != 1 || fps != 2 || latency != 3*time.Microsecond || err != nil {
		t.Errorf("%d, %d, %v (%v)", n, fps, latency, err)
	}
	equal(t, "the statistics", nvml.AccountingStats{Utilization: nvml.Utilization{GPU: 10, Memory: 20},
		UtilizationKnown: true,
		MaxMemory:        30, Time: 40 * time.Millisecond, Start: time.UnixMicro(stamp)})(v.AccountingStats(1))
	equal(t, "the statistics of a running process", nvml.AccountingStats{Running: true})(v.AccountingStats(2))
	_, err := v.AccountingStats(3)
	fails(t, "another process", err, nvml.ErrNotFound)
}
