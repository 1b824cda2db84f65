package nvml

import (
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// EncoderSession is the use of a GPU's video encoder by a program.
type EncoderSession struct {
	ID, PID uint32
	// VGPU is the number of the virtual GPU that the program runs on, or 0 if there is none.
	VGPU          uint32
	Type          EncoderType
	Width, Height int
	// FPS and Latency are means: of the images in a second, and of the time for an image.
	FPS     int
	Latency time.Duration
}

// EncoderSessions returns the uses of the GPU's video encoders (nvmlDeviceGetEncoderSessions).
func (d *Device) EncoderSessions() ([]EncoderSession, error) {
	return get(d.obj(), "nvmlDeviceGetEncoderSessions", func(l *raw.Library, h uint64) ([]EncoderSession, raw.Return) {
		all, r := list(func(n *uint32, infos []raw.EncoderSessionInfo) raw.Return {
			return l.DeviceGetEncoderSessions(raw.Device(h), n, infos)
		})
		return each(all, encoderSession), r
	})
}

func encoderSession(s raw.EncoderSessionInfo) EncoderSession {
	return EncoderSession{s.SessionId, s.Pid, uint32(s.VgpuInstance), s.CodecType, int(s.HResolution), int(s.VResolution),
		int(s.AverageFps), time.Duration(s.AverageLatency) * time.Microsecond}
}

// FBCStats returns the number of captures of screens, and the means of their images in a second and of the time for an
// image (nvmlDeviceGetFBCStats).
func (d *Device) FBCStats() (sessions, fps int, latency time.Duration, err error) {
	w, err := d.obj().call("nvmlDeviceGetFBCStats", words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var s raw.FBCStats
		r := l.DeviceGetFBCStats(raw.Device(w.a), &s)
		return words{a: uint64(s.SessionsCount), b: uint64(s.AverageFPS), c: uint64(s.AverageLatency)}, r
	})
	return int(w.a), int(w.b), time.Duration(w.c) * time.Microsecond, err
}

// FBCSession is the capture of a screen by a program.
type FBCSession struct {
	ID, PID uint32
	// VGPU is the number of the virtual GPU that the program runs on, or 0 if there is none.
	VGPU    uint32
	Display int // the number of the screen
	Type    FBCSessionType
	Flags   FBCFlags
	// MaxWidth and MaxHeight are the largest size that can be captured, and Width and Height the one that is.
	MaxWidth, MaxHeight, Width, Height int
	// FPS and Latency are means: of the new images in a second, and of the time for one. They are 0 before the first
	// image.
	FPS     int
	Latency time.Duration
}

// FBCSessions returns the captures of screens (nvmlDeviceGetFBCSessions).
func (d *Device) FBCSessions() ([]FBCSession, error) {
	return get(d.obj(), "nvmlDeviceGetFBCSessions", func(l *raw.Library, h uint64) ([]FBCSession, raw.Return) {
		all, r := list(func(n *uint32, infos []raw.FBCSessionInfo) raw.Return {
			return l.DeviceGetFBCSessions(raw.Device(h), n, infos)
		})
		return each(all, fbcSession), r
	})
}

func fbcSession(s raw.FBCSessionInfo) FBCSession {
	return FBCSession{s.SessionId, s.Pid, uint32(s.VgpuInstance), int(s.DisplayOrdinal), s.SessionType,
		FBCFlags(s.SessionFlags), int(s.HMaxResolution), int(s.VMaxResolution), int(s.HResolution), int(s.VResolution),
		int(s.AverageFPS), time.Duration(s.AverageLatency) * time.Microsecond}
}
