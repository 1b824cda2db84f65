// Package cusim is a CUDA driver written in Go: programs that use package cu, and
// their tests, run on it without a GPU.
//
//	drv, err := cu.Open(cu.WithSoftware(cusim.New()))
//
// It is a driver, not a mock. Streams execute what is enqueued on them in order, as
// far as events and barriers allow, for a modelled time; memory has real bytes;
// results, states and errors are those of an H200. Where NVIDIA's driver would
// crash, this one returns the documented code and keeps a [Misuse].
//
// Time is the machine's, or, with [VirtualTime], stands still until the test moves
// it: then nothing that is pending completes by itself, and a thousand seconds pass
// in an instant.
//
// This package makes a driver and controls it. The functions of the driver, such as
// cuEventRecord, are those of [Driver.Software].
package cusim
