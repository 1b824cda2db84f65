package nvml

import (
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// EncoderSessions returns the uses of video encoders by the virtual machine (nvmlVgpuInstanceGetEncoderSessions).
func (v *VGPU) EncoderSessions() ([]EncoderSession, error) {
	const op = "nvmlVgpuInstanceGetEncoderSessions"
	return get(v.obj(), op, func(l *raw.Library, h uint64) ([]EncoderSession, raw.Return) {
		all, r := list(func(n *uint32, infos []raw.EncoderSessionInfo) raw.Return {
			return l.VgpuInstanceGetEncoderSessions(raw.VgpuInstance(h), n, infos)
		})
		return each(all, encoderSession), r
	})
}

// FBCStats returns the number of captures of screens in the virtual machine, and the means of their images in a second
// and of the time for an image (nvmlVgpuInstanceGetFBCStats).
func (v *VGPU) FBCStats() (sessions, fps int, latency time.Duration, err error) {
	w, err := v.obj().call("nvmlVgpuInstanceGetFBCStats", words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var s raw.FBCStats
		r := l.VgpuInstanceGetFBCStats(raw.VgpuInstance(w.a), &s)
		return words{a: uint64(s.SessionsCount), b: uint64(s.AverageFPS), c: uint64(s.AverageLatency)}, r
	})
	return int(w.a), int(w.b), time.Duration(w.c) * time.Microsecond, err
}

// FBCSessions returns the captures of screens in the virtual machine (nvmlVgpuInstanceGetFBCSessions).
func (v *VGPU) FBCSessions() ([]FBCSession, error) {
	const op = "nvmlVgpuInstanceGetFBCSessions"
	return get(v.obj(), op, func(l *raw.Library, h uint64) ([]FBCSession, raw.Return) {
		all, r := list(func(n *uint32, infos []raw.FBCSessionInfo) raw.Return {
			return l.VgpuInstanceGetFBCSessions(raw.VgpuInstance(h), n, infos)
		})
		return each(all, fbcSession), r
	})
}

// AccountingStats returns how a process in the virtual machine uses the virtual GPU, or has used it until it ended
// (nvmlVgpuInstanceGetAccountingStats). [VGPU.AccountingPIDs] lists the processes. The error matches [ErrNotFound] if
// there is nothing about the process.
func (v *VGPU) AccountingStats(pid uint32) (AccountingStats, error) {
	const op = "nvmlVgpuInstanceGetAccountingStats"
	return get(v.obj(), op, func(l *raw.Library, h uint64) (AccountingStats, raw.Return) {
		var s raw.AccountingStats
		r := l.VgpuInstanceGetAccountingStats(raw.VgpuInstance(h), pid, &s)
		a := AccountingStats{Start: sinceEpoch(s.StartTime), Time: time.Duration(s.Time) * time.Millisecond,
			Running: truth(s.IsRunning), MaxMemory: known(s.MaxMemoryUsage)}
		const unknown = 1<<32 - 1
		if s.GpuUtilization != unknown && s.MemoryUtilization != unknown {
			a.Utilization = Utilization{GPU: Percent(s.GpuUtilization), Memory: Percent(s.MemoryUtilization)}
			a.UtilizationKnown = true
		}
		return a, r
	})
}
