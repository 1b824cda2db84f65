// Package interop lets CUDA use memory and semaphores of other APIs, such as Vulkan and D3D12.
//
//	mem, err := interop.ImportMem(gpu, interop.MemHandle{Type: interop.MemOpaqueFD, Handle: fd}, size)
//	h := interop.SemaphoreHandle{Type: interop.SemaphoreTimelineFD, Handle: semFD}
//	sem, err := interop.ImportSemaphore(gpu, h)
//	err = interop.Wait(s, sem.At(1)) // until the other API has written the memory
//	err = kernel.Launch(s, cfg, cu.Ptr(mem))
//	err = interop.Signal(s, sem.At(2)) // the other API may continue
//	err = s.Synchronize()
//	err = sem.Close()
//	err = mem.Close()
//
// Here fd and semFD are descriptors of files that the other API has exported. examples/vulkan is a whole program.
// Graphs signal semaphores, and wait for them, by nodes: see graph.ExternalSignal and graph.ExternalWait.
//
// # Where to begin
//
//   - Memory: [MemType], [MemHandle], [ImportMem]. It becomes a [cu.DeviceMem].
//   - Semaphores: [SemaphoreType], [SemaphoreHandle], [ImportSemaphore], [Semaphore.At], [Signal], [Wait].
//   - EGL: [NewEventFromEGLSync], which refuses.
package interop
