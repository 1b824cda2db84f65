// Package remedy has the remedies for the results of the driver: short texts that say what to do.
//
// The texts name functions and options of package cu, whose errors contain them. The package itself
// knows results, and names of C functions, and nothing else.
package remedy

import (
	"slices"

	"github.com/purecu/purecu/driver"
)

// Of returns the remedy for a result, in one or two sentences. It is "" for success and for an
// unknown code.
func Of(r driver.Result) string {
	for _, e := range general {
		if slices.Contains(e.of, r) {
			return e.text
		}
	}
	return ""
}

// OfCall returns the remedy for a result of the C function op. It may be more precise than Of.
func OfCall(op string, r driver.Result) string {
	for _, c := range ofCalls {
		if c.result == r && slices.Contains(c.ops, op) {
			return c.text
		}
	}
	return Of(r)
}

// OfMissing returns the remedy for a function that the driver lacks.
func OfMissing(m *driver.MissingError) string {
	switch {
	case m.Since == 0:
		return "check the name"
	case m.Software && m.Driver < m.Since:
		return "use a newer version of the software driver (cusim.Version), or NVIDIA's driver"
	case m.Software:
		return "do not use the function, or use NVIDIA's driver"
	case m.Driver < m.Since:
		return "update the NVIDIA driver"
	}
	return "reinstall the NVIDIA driver"
}

// ofCalls are remedies for a result of some functions, where the general remedy does not help.
var ofCalls = [...]struct {
	result driver.Result
	ops    []string
	text   string
}{
	{driver.ResultInvalidValue, []string{"cuEventQuery", "cuEventSynchronize", "cuEventElapsedTime"},
		"the event's newest record was part of a capture that has ended, so the event has no status: " +
			"record it again, or use RecordExternal in the capture"},
	{driver.ResultInvalidValue, []string{"cuStreamWaitEvent"},
		"the event's newest record was part of a capture that has ended, so the event has no status; " +
			"or the flag WaitExternal was used on a stream that is not being captured"},
	{driver.ResultDeviceUnavailable, []string{"cuDevicePrimaryCtxRetain", "cuCtxCreate", "cuGreenCtxCreate"},
		"the device is busy: another process holds it in exclusive mode (nvidia-smi -q -d COMPUTE shows the mode): " +
			"end that process, or set the mode to Default, and open the context again"},
	{driver.ResultMapFailed, []string{"cuIpcOpenEventHandle"},
		"the bytes are not an event's handle, or the event is not accessible: pass the bytes of " +
			"Event.IPCHandle unchanged, and open them while the event exists, on the same machine and in the " +
			"same container"},
	{driver.ResultNotSupported, []string{"cuIpcOpenEventHandle", "cuIpcGetEventHandle"},
		"this device or system cannot share events between processes: " +
			"check Device.Attribute(DeviceAttributeIPCEventSupported) before"},
	{driver.ResultInvalidValue, []string{"cuIpcOpenMemHandle"},
		"the bytes are not a handle of memory, or the memory is not accessible: pass the bytes of " +
			"DeviceMem.IPCHandle unchanged, and open them while the memory is allocated, on the same machine and in " +
			"the same container"},
	{driver.ResultInvalidHandle, []string{"cuIpcOpenMemHandle"},
		"another context of the device has memory of that process open, or the bytes were changed on the way: " +
			"open it in that context, or close it there before"},
	{driver.ResultNotSupported, []string{"cuIpcOpenMemHandle", "cuIpcGetMemHandle"},
		"this device or system cannot share memory of cuMemAlloc between processes: share a pool (MemPool.Export) or " +
			"physical memory (PhysicalMem.Export), or copy the memory through the host"},
	{driver.ResultUnknown, []string{
		"cuImportExternalMemory", "cuImportExternalSemaphore", "cuMemImportFromShareableHandle",
		"cuMemPoolImportFromShareableHandle",
	}, "the driver does not know the handle: pass an open one, of the same GPU (Device.UUID) and of the kind that " +
		"the call imports"},
	{driver.ResultNotSupported, []string{"cuImportExternalMemory", "cuImportExternalSemaphore"},
		"the driver imports no handles of this type on this system: use a file descriptor on Linux, and an NT handle " +
			"on Windows"},
	{driver.ResultIllegalState, []string{"cuEventRecordWithFlags"},
		"RecordExternal is for streams that are being captured: use Record"},
	{driver.ResultIllegalState, []string{"cuStreamBeginCapture", "cuStreamBeginCaptureToGraph"},
		"the stream is part of a capture already: end that capture first, or capture another stream"},
	{driver.ResultIllegalState, []string{
		"cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint", "cuCheckpointProcessRestore",
		"cuCheckpointProcessUnlock",
	}, "the process is in another state: lock, checkpoint, restore and unlock it in this order; " +
		"Process.State says how far it is"},
	{driver.ResultInvalidValue, []string{"cuCheckpointProcessRestore"},
		"the process does not exist, or the GPUs do not fit: map every GPU that the process was checkpointed on " +
			"(Device.UUID), each to another one, of the same chip (Device.Name) and with enough memory"},
	{driver.ResultInvalidValue, []string{"cuMemPoolCreate"},
		"the driver refuses the options: in MemPoolOptions, choose a device or a NUMA node that exists as Location, " +
			"and a MaxSize that the memory has"},
	{driver.ResultInvalidValue, []string{"cuMemPoolExportToShareableHandle"},
		"the pool is of this process only: create it with MemPoolOptions.Shareable"},
	{driver.ResultInvalidResourceConfiguration, []string{"cuDevSmResourceSplit"},
		"the GPU has no such groups of multiprocessors: ask for fewer of them, for a Count of 0, for a smaller " +
			"Coscheduled, or for Backfill"},
	{driver.ResultIllegalState, []string{"cuStreamEndCapture"},
		"other code has ended the capture: let Capture end the captures that it begins"},
	{
		driver.ResultStreamCaptureUnsupported,
		[]string{
			"cuCtxSynchronize",
			"cuCtxRecordEvent",
			"cuCtxWaitEvent",
			"cuGreenCtxRecordEvent",
			"cuGreenCtxWaitEvent",
		},
		"this call is not allowed in any mode while a stream of the context is being captured: make the call " +
			"before or after the capture",
	},
	{driver.ResultStreamCaptureUnsupported, []string{"cuGraphLaunch", "cuGraphUpload"},
		"a graph launch cannot be captured: launch the graph on a stream that is not being captured"},
	{driver.ResultStreamCaptureImplicit, []string{"cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemsetD8"},
		"this call is ordered with the legacy default stream, which cannot be captured: use " +
			"Stream.Copy or Stream.Memset, or make the call before or after the capture"},
}

// general are the remedies for results of all other functions.
var general = [...]struct {
	of   []driver.Result
	text string
}{
	{[]driver.Result{driver.ResultInvalidValue},
		"check the arguments: the message names the wrong argument if the error was found before the driver call"},
	{[]driver.Result{driver.ResultInvalidHandle},
		"the objects do not fit the call: an event and the stream that it is recorded on must be of one context, " +
			"and a time between events needs two timed, recorded events"},
	{
		[]driver.Result{
			driver.ResultProfilerDisabled,
			driver.ResultProfilerNotInitialized,
			driver.ResultProfilerAlreadyStarted,
			driver.ResultProfilerAlreadyStopped,
		},
		"only calls that control a profiler return this result: start and stop the profiler either in the tool or " +
			"in the program",
	},
	{[]driver.Result{driver.ResultContextAlreadyCurrent},
		"current drivers do not return this result: update the driver"},
	{[]driver.Result{driver.ResultMapFailed},
		"an object shared by another process or a graphics API cannot be mapped: the object no longer exists, or " +
			"is of another machine or container"},
	{
		[]driver.Result{
			driver.ResultUnmapFailed,
			driver.ResultArrayIsMapped,
			driver.ResultAlreadyMapped,
			driver.ResultNotMapped,
			driver.ResultNotMappedAsArray,
			driver.ResultNotMappedAsPointer,
			driver.ResultAlreadyAcquired,
		},
		"map, use and unmap resources that are shared with a graphics API in this order, each once",
	},
	{[]driver.Result{driver.ResultInvalidGraphicsContext},
		"make the graphics API's context current on the thread, in gpu.Do"},
	{[]driver.Result{driver.ResultUnsupportedExecAffinity},
		"request a number of multiprocessors that the device and MPS allow, or no number"},
	{[]driver.Result{driver.ResultUnsupportedDevsideSync},
		"kernels must not call cudaDeviceSynchronize any more: compile them without it"},
	{[]driver.Result{driver.ResultIllegalState},
		"the object is not in a state for this call: the C function's documentation lists the calls that must " +
			"come before"},
	{[]driver.Result{driver.ResultLossyQuery},
		"this function cannot represent the answer: use the newer version of the function"},
	{[]driver.Result{driver.ResultLaunchIncompatibleTexturing},
		"set the texture references up as the kernel was compiled for, or use texture objects"},
	{[]driver.Result{driver.ResultHostMemoryAlreadyRegistered},
		"unregister the memory first; memory of AllocHost is registered already"},
	{[]driver.Result{driver.ResultHostMemoryNotRegistered},
		"register the memory first, or allocate it with AllocHost"},
	{[]driver.Result{driver.ResultPeerAccessAlreadyEnabled, driver.ResultPeerAccessNotEnabled},
		"EnablePeerAccess and DisablePeerAccess treat this result as success: code that calls the driver directly " +
			"should, too"},
	{[]driver.Result{driver.ResultTensorMemoryLeak},
		"the kernel must free all tensor memory that it allocates before it ends"},
	{[]driver.Result{driver.ResultCDPNotSupported, driver.ResultCDPVersionMismatch},
		"kernels that launch kernels need one version of that interface, and no MPS: compile everything with " +
			"one toolkit"},
	{[]driver.Result{driver.ResultGraphExecUpdateFailure},
		"the graphs differ too much: instantiate the new graph"},
	{[]driver.Result{driver.ResultExternalDevice},
		"a device that shares a semaphore or memory with the GPU failed: look for the error of that device"},
	{[]driver.Result{driver.ResultInvalidClusterSize},
		"choose a cluster that the device can schedule: ask cuOccupancyMaxPotentialClusterSize"},
	{[]driver.Result{driver.ResultFunctionNotLoaded},
		"load the kernel first: ask for one of its attributes, or unset CUDA_MODULE_LOADING"},
	{[]driver.Result{driver.ResultInvalidResourceType, driver.ResultInvalidResourceConfiguration},
		"split the device's resources the way that cuDevSmResourceSplitByCount allows"},
	{[]driver.Result{driver.ResultMulticastResourceFull},
		"align the memory to the recommended granularity of multicast objects, or unbind memory that is no longer " +
			"needed"},
	{[]driver.Result{driver.ResultInsufficientLoaderVersion},
		"update the NVIDIA driver, or compile the code with an older toolkit"},
	{[]driver.Result{driver.ResultFabricNotReady},
		"the fabric between the GPUs is not set up yet: try again later, and check nvidia-fabricmanager"},
	{[]driver.Result{driver.ResultStreamDetached}, "use another stream"},
	{[]driver.Result{driver.ResultGraphRecaptureFailure},
		"enqueue the same operations in the same order as before, or capture a new graph"},
	{[]driver.Result{driver.ResultKeyRotation},
		"the GPU's encryption keys changed in an unexpected way (confidential computing): start the process again"},
	{[]driver.Result{driver.ResultOutOfMemory},
		"close memory that is no longer needed; nvidia-smi shows which processes hold the rest"},
	{[]driver.Result{driver.ResultNotInitialized},
		"open the driver with cu.Open before calling its functions"},
	{[]driver.Result{driver.ResultDeinitialized},
		"the process is exiting: stop using the GPU before main returns"},
	{[]driver.Result{driver.ResultStubLibrary},
		"the library is the CUDA toolkit's stub, for linking only: remove the toolkit's stubs folder from " +
			"LD_LIBRARY_PATH"},
	{[]driver.Result{driver.ResultCallRequiresNewerDriver},
		"update the NVIDIA driver"},
	{[]driver.Result{driver.ResultDeviceUnavailable},
		"while a context is opened: another process holds the GPU in exclusive mode, so wait, or end that " +
			"process; in an open context: " +
			"the driver has lost the GPU, so start the process again, and see nvidia-smi, and dmesg for Xid messages"},
	{[]driver.Result{driver.ResultNoDevice},
		"check that nvidia-smi lists a GPU, that CUDA_VISIBLE_DEVICES does not hide it, and that a container " +
			"was started with it; cuprobe doctor does all of that"},
	{[]driver.Result{driver.ResultInvalidDevice},
		"DeviceCount returns the number of devices; CUDA_VISIBLE_DEVICES may hide some"},
	{[]driver.Result{driver.ResultDeviceNotLicensed},
		"the virtual GPU has no license: ask its administrator"},
	{[]driver.Result{driver.ResultInvalidImage, driver.ResultInvalidSource},
		"the image is neither PTX nor a cubin or fatbin that this driver reads: check that it is the right image, " +
			"and complete"},
	{[]driver.Result{driver.ResultInvalidContext},
		"no context is current on the thread, or it was destroyed: make the call in gpu.Do"},
	{[]driver.Result{driver.ResultNoBinaryForGPU},
		"the code was compiled for other GPUs: add this one's compute capability, or PTX, when it is built"},
	{[]driver.Result{driver.ResultECCUncorrectable},
		"the GPU's memory is damaged or was hit: see nvidia-smi -q -d ECC, reset or drain the GPU"},
	{[]driver.Result{driver.ResultUnsupportedLimit},
		"this device has no such limit"},
	{[]driver.Result{driver.ResultContextAlreadyInUse},
		"the GPU is in exclusive mode and another thread or process has it"},
	{[]driver.Result{driver.ResultPeerAccessUnsupported},
		"call Device.CanAccessPeer first; copies between the devices work without peer access"},
	{[]driver.Result{driver.ResultInvalidPTX},
		"the compiler's log in this error says which line of the PTX is wrong; ptxas reports the same at build time"},
	{[]driver.Result{driver.ResultNVLinkUncorrectable, driver.ResultContained},
		"the link between GPUs failed: see dmesg for Xid messages, reset or drain the GPU"},
	{[]driver.Result{driver.ResultJITCompilerNotFound},
		"libnvidia-ptxjitcompiler.so.1 is missing: install the whole driver (in a container: " +
			"NVIDIA_DRIVER_CAPABILITIES must hold compute), or load a cubin"},
	{[]driver.Result{driver.ResultUnsupportedPTXVersion},
		"the PTX is newer than the driver: update the driver, or lower .version in the PTX or compile with " +
			"an older toolkit"},
	{[]driver.Result{driver.ResultJITCompilationDisabled},
		"CUDA_DISABLE_PTX_JIT is set: unset it, or load a cubin for this GPU"},
	{[]driver.Result{driver.ResultFileNotFound},
		"check the path"},
	{[]driver.Result{driver.ResultSharedObjectSymbolNotFound, driver.ResultSharedObjectInitFailed},
		"parts of the driver are of different versions: reinstall the driver"},
	{[]driver.Result{driver.ResultOperatingSystem},
		"the system's kernel refused a request: see dmesg, ulimit -l, ulimit -u and the permissions of /dev/nvidia*"},
	{[]driver.Result{driver.ResultNotFound},
		"check the name; C++ names are mangled unless they are declared extern \"C\""},
	{[]driver.Result{driver.ResultNotReady},
		"this is not an error: the work is pending"},
	{
		[]driver.Result{
			driver.ResultIllegalAddress,
			driver.ResultMisalignedAddress,
			driver.ResultInvalidAddressSpace,
			driver.ResultInvalidPC,
			driver.ResultIllegalInstruction,
			driver.ResultHardwareStackError,
			driver.ResultLaunchFailed,
			driver.ResultAssert,
		},
		"a kernel failed: run the program under compute-sanitizer to see which kernel, and where",
	},
	{[]driver.Result{driver.ResultLaunchOutOfResources},
		"the block has too many threads for the registers or shared memory that the kernel needs: ask " +
			"SuggestBlockSize"},
	{[]driver.Result{driver.ResultLaunchTimeout},
		"a kernel ran for longer than the display's watchdog allows: make it shorter, or use a GPU without a display"},
	{[]driver.Result{driver.ResultPrimaryContextActive},
		"set the flags before the primary context is retained"},
	{[]driver.Result{driver.ResultContextIsDestroyed},
		"other code in the process destroyed or reset the context and all objects in it (cuCtxDestroy, " +
			"cuDevicePrimaryCtxReset, cudaDeviceReset): do not call that code, or open a new Context afterwards"},
	{[]driver.Result{driver.ResultTooManyPeers},
		"disable peer access that is no longer needed"},
	{[]driver.Result{driver.ResultCooperativeLaunchTooLarge},
		"launch at most MaxActiveBlocks times the number of multiprocessors"},
	{[]driver.Result{driver.ResultNotPermitted},
		"the operation is not allowed here: host functions of a stream must not wait for work behind them in the " +
			"stream, and in C must not create, launch or free CUDA objects; other operations need privileges"},
	{[]driver.Result{driver.ResultNotSupported},
		"this device, platform or driver does not support the operation"},
	{[]driver.Result{driver.ResultSystemNotReady},
		"services of the system are not running: start nvidia-persistenced, and on NVSwitch machines " +
			"nvidia-fabricmanager"},
	{[]driver.Result{driver.ResultSystemDriverMismatch},
		"the kernel module and libcuda.so.1 are of different versions: reboot after a driver update; in a " +
			"container, use the host's library"},
	{[]driver.Result{driver.ResultCompatNotSupportedOnDevice},
		"the compatibility package is for data-centre GPUs only: remove it from LD_LIBRARY_PATH"},
	{[]driver.Result{driver.ResultMPSConnectionFailed, driver.ResultMPSRPCFailure, driver.ResultMPSServerNotReady},
		"the MPS daemon is not available: start it, or unset CUDA_MPS_PIPE_DIRECTORY"},
	{[]driver.Result{driver.ResultMPSMaxClientsReached, driver.ResultMPSMaxConnectionsReached},
		"too many processes share the GPU through MPS: stop some"},
	{[]driver.Result{driver.ResultMPSClientTerminated},
		"another MPS client's error ended this one too: start the process again"},
	{[]driver.Result{driver.ResultStreamCaptureUnsupported},
		"this call is not allowed for a stream that is being captured; during a capture it is not allowed in global " +
			"mode on any thread, and in thread-local mode on the capturing thread: make the call before or after the " +
			"capture, or, if it is not for that stream, capture in relaxed mode"},
	{[]driver.Result{driver.ResultStreamCaptureInvalidated},
		"an earlier call has invalidated the capture: end it, and look at that call's error"},
	{[]driver.Result{driver.ResultStreamCaptureMerge},
		"two captures cannot be joined: let streams wait only for events of their own capture"},
	{[]driver.Result{driver.ResultStreamCaptureUnmatched},
		"end a capture on the stream that it was begun on"},
	{[]driver.Result{driver.ResultStreamCaptureUnjoined},
		"let the stream that the capture began on wait for every stream that joined, before the capture ends"},
	{[]driver.Result{driver.ResultStreamCaptureIsolation},
		"work in a capture cannot wait for work outside: record the event in the capture, " +
			"or wait with the flag WaitExternal"},
	{[]driver.Result{driver.ResultStreamCaptureImplicit},
		"the legacy default stream cannot be captured: use non-blocking streams"},
	{[]driver.Result{driver.ResultCapturedEvent},
		"the event's newest record is part of a capture, so the event has no status and no time: " +
			"record it with RecordExternal, or query it after a record outside of the capture"},
	{[]driver.Result{driver.ResultStreamCaptureWrongThread},
		"the capture has ended, and there is no graph: end it on the thread that began it"},
	{[]driver.Result{driver.ResultTimeout},
		"repeat the call, or allow more time"},
	{[]driver.Result{driver.ResultUnknown},
		"the driver gives no reason: see dmesg for Xid messages; if other calls fail with this result, too, start " +
			"the process again, and if that does not help, reload the kernel modules or reboot"},
}
