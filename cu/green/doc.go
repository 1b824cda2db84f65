// Package green gives a part of a device's multiprocessors its own streams, so that their kernels run only there: a
// green context.
//
//	all, err := green.DeviceSMs(dev)
//	parts, rest, err := all.Split(16) // parts of at least 16 multiprocessors
//	small, err := green.New(gpu, parts[0])
//	s, err := small.NewStream(0)
//	err = kernel.Launch(s, cfg, args...) // runs on these multiprocessors only
//	err = s.Close()
//	err = small.Close()
//
// Memory, modules and events are those of the primary context gpu. The package needs a driver for CUDA 12.5. Otherwise
// the errors match [errors.ErrUnsupported].
//
// # Where to begin
//
//   - Multiprocessors: [DeviceSMs], [StreamSMs], [SMResource.Split], and [SMResource.SplitGroups] with an [SMGroup] for
//     each part.
//   - Green contexts: [New], [Context.NewStream], [Context.SMs]. [Context.RecordEvent] and [Context.WaitEvent] are
//     about all streams of one.
//   - Work queues (CUDA 13.1): [DeviceQueues], [NewWithQueues], [Context.Queues].
package green
