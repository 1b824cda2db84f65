// Package cusim is a CUDA driver written in Go. Programs that use package cu, and their tests, run
// on it without a GPU.
//
//	drv, err := cu.Open(cu.WithSoftware(cusim.New()))
//
// It is a driver, not a mock. Streams execute their work in order, for a modelled time. Memory has
// real bytes. Results, states and errors are those of an H200. Where NVIDIA's driver would crash,
// this driver returns the documented code and records a [Misuse].
//
// Time is the machine's time. With [VirtualTime] it is a time that only the test advances: then no
// work completes by itself, and a thousand seconds pass at once.
//
// [Driver.NVML] is an NVML for the same devices, for programs that use package nvml. Its GPUs can be
// lost, hang and report errors.
//
// A device is an H200. [Profile] makes it another GPU, such as a T4 or a B200.
//
// This package creates and controls a driver. The driver's functions, such as cuEventRecord, are
// the methods of [Driver.Software].
package cusim
