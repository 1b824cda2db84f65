package nvml_test

import (
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// encoderGPU encodes, and captures its screen.
type encoderGPU struct{ basis }

func (encoderGPU) DeviceGetEncoderStats(_ raw.Device, sessions, fps, latency *uint32) raw.Return {
	*sessions, *fps, *latency = 1, 60, 1500
	return raw.NVML_SUCCESS
}

func (encoderGPU) DeviceGetEncoderSessions(_ raw.Device, n *uint32, infos []raw.EncoderSessionInfo) raw.Return {
	*n = 1
	if infos != nil {
		infos[0] = raw.EncoderSessionInfo{SessionId: 1, Pid: 2, VgpuInstance: 3, CodecType: raw.NVML_ENCODER_QUERY_AV1,
			HResolution: 1920, VResolution: 1080, AverageFps: 60, AverageLatency: 1500}
	}
	return raw.NVML_SUCCESS
}

func (encoderGPU) DeviceGetFBCStats(_ raw.Device, s *raw.FBCStats) raw.Return {
	*s = raw.FBCStats{SessionsCount: 1, AverageFPS: 60, AverageLatency: 1500}
	return raw.NVML_SUCCESS
}

func (encoderGPU) DeviceGetFBCSessions(_ raw.Device, n *uint32, infos []raw.FBCSessionInfo) raw.Return {
	*n = 1
	if infos != nil {
		infos[0] = raw.FBCSessionInfo{SessionId: 1, Pid: 2, VgpuInstance: 3, DisplayOrdinal: 4,
			SessionType: raw.NVML_FBC_SESSION_TYPE_CUDA, SessionFlags: raw.NVML_NVFBC_SESSION_FLAG_DIFFMAP_ENABLED,
			HMaxResolution: 4096, VMaxResolution: 4095, HResolution: 1920, VResolution: 1080, AverageFPS: 60, AverageLatency: 1500}
	}
	return raw.NVML_SUCCESS
}

func TestSessions(t *testing.T) {
	d := deviceOf(t, encoderGPU{})
	latency := 1500 * time.Microsecond
	for _, stats := range []func() (int, int, time.Duration, error){d.EncoderStats, d.FBCStats} {
		if n, fps, l, err := stats(); n != 1 || fps != 60 || l != latency || err != nil {
			t.Errorf("there are %d sessions with %d images and %v (%v)", n, fps, l, err)
		}
	}
	wants(t, []nvml.EncoderSession{{ID: 1, PID: 2, VGPU: 3, Type: nvml.EncoderAV1, Width: 1920, Height: 1080, FPS: 60,
		Latency: latency}})(d.EncoderSessions())
	wants(t, []nvml.FBCSession{{ID: 1, PID: 2, VGPU: 3, Display: 4, Type: nvml.FBCCUDA, Flags: nvml.FBCFlagDifferenceMapEnabled,
		MaxWidth: 4096, MaxHeight: 4095, Width: 1920, Height: 1080, FPS: 60, Latency: latency}})(d.FBCSessions())
}
