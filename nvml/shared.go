package nvml

import (
	"fmt"
	"math"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// checkNumber returns an error if n, which what names, is not one that C's unsigned int can have.
func (o *object) checkNumber(op, what string, n int) error {
	if o != nil && (n < 0 || n > math.MaxUint32) {
		return o.invalid(op, fmt.Sprintf("the %s is %d: the first has number 0", what, n))
	}
	return nil
}

// Utilization says which share of a time a GPU was busy.
type Utilization struct {
	// GPU is the share in which a kernel ran. It does not say how much of the GPU the kernels filled.
	GPU Percent
	// Memory is the share in which the GPU's memory was read or written.
	Memory Percent
}

// AccountingStats says how a process has used a GPU.
type AccountingStats struct {
	// Utilization is the share of the process's life in which the GPU and its memory were busy. It counts only if
	// UtilizationKnown is true.
	Utilization      Utilization
	UtilizationKnown bool
	// MaxMemory is the most memory that the process had at a time, in bytes, or 0 if it is unknown.
	MaxMemory uint64
	// Start is when the process began.
	Start time.Time
	// Time is how long the process used the GPU. It is 0 while the process runs.
	Time    time.Duration
	Running bool
	// Samples is the number of samples that Utilization is the mean of, and GPUSum and MemorySum are the sums of their
	// percentages. They are 0 if the driver does not say them. Unverified: no driver has confirmed them.
	Samples           uint32
	GPUSum, MemorySum uint64
}

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

func encoderSession(s raw.EncoderSessionInfo) EncoderSession {
	return EncoderSession{s.SessionId, s.Pid, uint32(s.VgpuInstance), s.CodecType, int(s.HResolution), int(s.VResolution),
		int(s.AverageFps), time.Duration(s.AverageLatency) * time.Microsecond}
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

func fbcSession(s raw.FBCSessionInfo) FBCSession {
	return FBCSession{s.SessionId, s.Pid, uint32(s.VgpuInstance), int(s.DisplayOrdinal), s.SessionType,
		FBCFlags(s.SessionFlags), int(s.HMaxResolution), int(s.VMaxResolution), int(s.HResolution), int(s.VResolution),
		int(s.AverageFPS), time.Duration(s.AverageLatency) * time.Microsecond}
}
