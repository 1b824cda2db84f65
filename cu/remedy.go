package cu

import (
	"errors"
	"slices"
	"strings"

	"github.com/purecu/purecu/driver"
)

// docs is the page with a section on each error: a file of this module. After the module's
// publication it will be the page's URL, and [Error.Doc] will return URLs.
const docs = "docs/errors.md"

// mistakes are the errors with their own section on the page, and the names of the sections.
func mistakes() []struct {
	err  error
	name string
} {
	return []struct {
		err  error
		name string
	}{
		{ErrNoDriver, "ErrNoDriver"},
		{ErrNoDevice, "ErrNoDevice"},
		{ErrClosed, "ErrClosed"},
		{ErrNil, "ErrNil"},
		{ErrDriverMismatch, "ErrDriverMismatch"},
		{ErrDeviceMismatch, "ErrDeviceMismatch"},
		{ErrContextMismatch, "ErrContextMismatch"},
		{ErrNotTimed, "ErrNotTimed"},
		{ErrNotRecorded, "ErrNotRecorded"},
		{ErrNoCurrentStream, "ErrNoCurrentStream"},
		{ErrReleased, "ErrReleased"},
		{ErrNotInterprocess, "ErrNotInterprocess"},
		{ErrImported, "ErrImported"},
		{ErrSameProcess, "ErrSameProcess"},
		{ErrContextPoisoned, "ErrContextPoisoned"},
		{ErrDeviceLost, "ErrDeviceLost"},
		{errors.ErrUnsupported, "Unsupported"},
	}
}

// Doc returns the section of this module's documentation that explains the error, such as
// "docs/errors.md#errnotrecorded".
func (e *Error) Doc() string {
	if e == nil {
		return docs
	}
	for _, m := range mistakes() {
		if errors.Is(e.Err, m.err) {
			return docs + "#" + strings.ToLower(m.name)
		}
	}
	if name := strings.ToLower(e.Result.Name()); name != "" && e.Result != ResultSuccess {
		return docs + "#" + name
	}
	return docs
}

// missingHint returns the remedy for a function that the driver lacks.
func missingHint(m *driver.MissingError) string {
	switch {
	case m.Since == 0:
		return "check the name"
	case m.Software:
		return "do not use the function, or use NVIDIA's driver"
	case m.Driver < m.Since:
		return "update the NVIDIA driver"
	}
	return "reinstall the NVIDIA driver"
}

// Remedy returns the remedy for a result, in one or two sentences. It is "" for success and for a
// code that this package does not know.
func Remedy(r Result) string {
	for _, e := range remedies {
		if slices.Contains(e.of, r) {
			return e.text
		}
	}
	return ""
}

// remedyFor returns the remedy for a result of the C function op. It may be more precise than
// Remedy.
func remedyFor(op string, r Result) string {
	for _, c := range callRemedies {
		if c.result == r && slices.Contains(c.ops, op) {
			return c.text
		}
	}
	return Remedy(r)
}

// callRemedies are remedies for a result of some functions, where the general remedy does not help.
var callRemedies = [...]struct {
	result Result
	ops    []string
	text   string
}{
	{ResultInvalidValue, []string{"cuEventQuery", "cuEventSynchronize", "cuEventElapsedTime"},
		"the event's newest record was part of a capture that has ended, so the event has no status: " +
			"record it again, or use RecordExternal in the capture"},
	{ResultInvalidValue, []string{"cuStreamWaitEvent"},
		"the event's newest record was part of a capture that has ended, so the event has no status; " +
			"or WaitExternal was used on a stream that is not being captured"},
	{ResultDeviceUnavailable, []string{"cuDevicePrimaryCtxRetain", "cuCtxCreate", "cuGreenCtxCreate"},
		"the device is busy: another process holds it in exclusive mode (nvidia-smi -q -d COMPUTE shows the mode): " +
			"end that process, or set the mode to Default, and open the context again"},
	{ResultMapFailed, []string{openIPCOp},
		"the bytes are not an event's handle, or the event is not accessible: pass the bytes of " +
			"Event.IPCHandle unchanged, and open them while the event exists, on the same machine and in the " +
			"same container"},
	{ResultNotSupported, []string{openIPCOp, getIPCOp}, noIPCHint},
	{ResultIllegalState, []string{"cuEventRecordWithFlags"},
		"RecordExternal is for streams that are being captured: use Record"},
	{ResultIllegalState, []string{"cuStreamBeginCapture", beginToGraphOp},
		"the stream is part of a capture already: end that capture first, or capture another stream"},
	{ResultIllegalState, []string{endCaptureOp},
		"other code has ended the capture: let Capture end the captures that it begins"},
	{
		ResultStreamCaptureUnsupported,
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
	{ResultStreamCaptureUnsupported, []string{"cuGraphLaunch", "cuGraphUpload"},
		"a graph launch cannot be captured: launch the graph on a stream that is not being captured"},
	{ResultStreamCaptureImplicit, []string{"cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemsetD8"},
		"this call is ordered with the legacy default stream, which cannot be captured: use " +
			"Stream.Copy or Stream.Memset, or make the call before or after the capture"},
}

// remedies are the general remedies.
var remedies = [...]struct {
	of   []Result
	text string
}{
	{[]Result{ResultInvalidValue},
		"check the arguments: the message names the wrong argument if the error was found before the driver call"},
	{[]Result{ResultInvalidHandle},
		"the objects do not fit the call: an event and the stream that it is recorded on must be of one context, " +
			"and a time between events needs two timed, recorded events"},
	{
		[]Result{
			ResultProfilerDisabled,
			ResultProfilerNotInitialized,
			ResultProfilerAlreadyStarted,
			ResultProfilerAlreadyStopped,
		},
		"only calls that control a profiler return this result: start and stop the profiler either in the tool or " +
			"in the program",
	},
	{[]Result{ResultContextAlreadyCurrent},
		"current drivers do not return this result: update the driver"},
	{[]Result{ResultMapFailed},
		"an object shared by another process or a graphics API cannot be mapped: the object no longer exists, or " +
			"is of another machine or container"},
	{
		[]Result{
			ResultUnmapFailed,
			ResultArrayIsMapped,
			ResultAlreadyMapped,
			ResultNotMapped,
			ResultNotMappedAsArray,
			ResultNotMappedAsPointer,
			ResultAlreadyAcquired,
		},
		"map, use and unmap resources that are shared with a graphics API in this order, each once",
	},
	{[]Result{ResultInvalidGraphicsContext},
		"make the graphics API's context current on the thread, in gpu.Do"},
	{[]Result{ResultUnsupportedExecAffinity},
		"request a number of multiprocessors that the device and MPS allow, or no number"},
	{[]Result{ResultUnsupportedDevsideSync},
		"kernels must not call cudaDeviceSynchronize any more: compile them without it"},
	{[]Result{ResultIllegalState},
		"the object is not in a state for this call: the C function's documentation lists the calls that must " +
			"come before"},
	{[]Result{ResultLossyQuery},
		"this function cannot represent the answer: use the newer version of the function"},
	{[]Result{ResultLaunchIncompatibleTexturing},
		"set the texture references up as the kernel was compiled for, or use texture objects"},
	{[]Result{ResultHostMemoryAlreadyRegistered},
		"unregister the memory first; memory of AllocHost is registered already"},
	{[]Result{ResultHostMemoryNotRegistered},
		"register the memory first, or allocate it with AllocHost"},
	{[]Result{ResultPeerAccessAlreadyEnabled, ResultPeerAccessNotEnabled},
		"EnablePeerAccess and DisablePeerAccess treat this result as success: code that calls the driver directly " +
			"should, too"},
	{[]Result{ResultTensorMemoryLeak},
		"the kernel must free all tensor memory that it allocates before it ends"},
	{[]Result{ResultCDPNotSupported, ResultCDPVersionMismatch},
		"kernels that launch kernels need one version of that interface, and no MPS: compile everything with " +
			"one toolkit"},
	{[]Result{ResultGraphExecUpdateFailure},
		"the graphs differ too much: instantiate the new graph"},
	{[]Result{ResultExternalDevice},
		"a device that shares a semaphore or memory with the GPU failed: look for the error of that device"},
	{[]Result{ResultInvalidClusterSize},
		"choose a cluster that the device can schedule: ask cuOccupancyMaxPotentialClusterSize"},
	{[]Result{ResultFunctionNotLoaded},
		"load the kernel first: ask for one of its attributes, or unset CUDA_MODULE_LOADING"},
	{[]Result{ResultInvalidResourceType, ResultInvalidResourceConfiguration},
		"split the device's resources the way that cuDevSmResourceSplitByCount allows"},
	{[]Result{ResultKeyRotation},
		"the GPU's encryption keys changed in an unexpected way (confidential computing): start the process again"},
	{[]Result{ResultOutOfMemory},
		"close memory that is no longer needed; nvidia-smi shows which processes hold the rest"},
	{[]Result{ResultNotInitialized},
		"open the driver with cu.Open before calling its functions"},
	{[]Result{ResultDeinitialized},
		"the process is exiting: stop using the GPU before main returns"},
	{[]Result{ResultStubLibrary},
		"the library is the CUDA toolkit's stub, for linking only: remove the toolkit's stubs folder from " +
			"LD_LIBRARY_PATH"},
	{[]Result{ResultCallRequiresNewerDriver},
		"update the NVIDIA driver"},
	{[]Result{ResultDeviceUnavailable},
		"while a context is opened: another process holds the GPU in exclusive mode, so wait, or end that " +
			"process; in an open context: " +
			"the driver has lost the GPU, so start the process again, and see nvidia-smi, and dmesg for Xid messages"},
	{[]Result{ResultNoDevice},
		"check that nvidia-smi lists a GPU, that CUDA_VISIBLE_DEVICES does not hide it, and that a container " +
			"was started with it; cuprobe doctor does all of that"},
	{[]Result{ResultInvalidDevice},
		"DeviceCount returns the number of devices; CUDA_VISIBLE_DEVICES may hide some"},
	{[]Result{ResultDeviceNotLicensed},
		"the virtual GPU has no license: ask its administrator"},
	{[]Result{ResultInvalidImage, ResultInvalidSource},
		"the image is neither PTX nor a cubin or fatbin that this driver reads: check that it is the right image, " +
			"and complete"},
	{[]Result{ResultInvalidContext},
		"no context is current on the thread, or it was destroyed: make the call in gpu.Do"},
	{[]Result{ResultNoBinaryForGPU},
		"the code was compiled for other GPUs: add this one's compute capability, or PTX, when it is built"},
	{[]Result{ResultECCUncorrectable},
		"the GPU's memory is damaged or was hit: see nvidia-smi -q -d ECC, reset or drain the GPU"},
	{[]Result{ResultUnsupportedLimit},
		"this device has no such limit"},
	{[]Result{ResultContextAlreadyInUse},
		"the GPU is in exclusive mode and another thread or process has it"},
	{[]Result{ResultPeerAccessUnsupported},
		"call Device.CanAccessPeer first; copies between the devices work without peer access"},
	{[]Result{ResultInvalidPTX},
		"the compiler's log in this error names the wrong line of the PTX; ptxas reports the same at build time"},
	{[]Result{ResultNVLinkUncorrectable, ResultContained},
		"the link between GPUs failed: see dmesg for Xid messages, reset or drain the GPU"},
	{[]Result{ResultJITCompilerNotFound},
		"libnvidia-ptxjitcompiler.so.1 is missing: install the whole driver (in a container: " +
			"NVIDIA_DRIVER_CAPABILITIES must hold compute), or load a cubin"},
	{[]Result{ResultUnsupportedPTXVersion},
		"the PTX is newer than the driver: update the driver, or lower .version in the PTX or compile with " +
			"an older toolkit"},
	{[]Result{ResultJITCompilationDisabled},
		"CUDA_DISABLE_PTX_JIT is set: unset it, or load a cubin for this GPU"},
	{[]Result{ResultFileNotFound},
		"check the path"},
	{[]Result{ResultSharedObjectSymbolNotFound, ResultSharedObjectInitFailed},
		"parts of the driver are of different versions: reinstall the driver"},
	{[]Result{ResultOperatingSystem},
		"the system's kernel refused a request: see dmesg, ulimit -l, ulimit -u and the permissions of /dev/nvidia*"},
	{[]Result{ResultNotFound},
		"check the name; C++ names are mangled unless they are declared extern \"C\""},
	{[]Result{ResultNotReady},
		"this is not an error: the work is pending"},
	{
		[]Result{
			ResultIllegalAddress,
			ResultMisalignedAddress,
			ResultInvalidAddressSpace,
			ResultInvalidPC,
			ResultIllegalInstruction,
			ResultHardwareStackError,
			ResultLaunchFailed,
			ResultAssert,
		},
		"a kernel failed: run the program under compute-sanitizer to see which kernel, and where",
	},
	{[]Result{ResultLaunchOutOfResources},
		"the block has too many threads for the registers or shared memory that the kernel needs: ask " +
			"SuggestBlockSize"},
	{[]Result{ResultLaunchTimeout},
		"a kernel ran for longer than the display's watchdog allows: make it shorter, or use a GPU without a display"},
	{[]Result{ResultPrimaryContextActive},
		"set the flags before the primary context is retained"},
	{[]Result{ResultContextIsDestroyed},
		"other code in the process destroyed or reset the context and all objects in it (cuCtxDestroy, " +
			"cuDevicePrimaryCtxReset, cudaDeviceReset): do not call that code, or open a new Context afterwards"},
	{[]Result{ResultTooManyPeers},
		"disable peer access that is no longer needed"},
	{[]Result{ResultCooperativeLaunchTooLarge},
		"launch at most MaxActiveBlocks times the number of multiprocessors"},
	{[]Result{ResultNotPermitted},
		"the operation is not allowed here: host functions of a stream must not wait for work behind them in the " +
			"stream, and in C must not create, launch or free CUDA objects; other operations need privileges"},
	{[]Result{ResultNotSupported},
		"this device, platform or driver does not support the operation"},
	{[]Result{ResultSystemNotReady},
		"services of the system are not running: start nvidia-persistenced, and on NVSwitch machines " +
			"nvidia-fabricmanager"},
	{[]Result{ResultSystemDriverMismatch},
		"the kernel module and libcuda.so.1 are of different versions: reboot after a driver update; in a " +
			"container, use the host's library"},
	{[]Result{ResultCompatNotSupportedOnDevice},
		"the compatibility package is for data-centre GPUs only: remove it from LD_LIBRARY_PATH"},
	{[]Result{ResultMPSConnectionFailed, ResultMPSRPCFailure, ResultMPSServerNotReady},
		"the MPS daemon is not available: start it, or unset CUDA_MPS_PIPE_DIRECTORY"},
	{[]Result{ResultMPSMaxClientsReached, ResultMPSMaxConnectionsReached},
		"too many processes share the GPU through MPS: stop some"},
	{[]Result{ResultMPSClientTerminated},
		"another MPS client's error ended this one too: start the process again"},
	{[]Result{ResultStreamCaptureUnsupported},
		"this call is not allowed for a stream that is being captured; during a capture it is not allowed in global " +
			"mode on any thread, and in thread-local mode on the capturing thread: make the call before or after the " +
			"capture, or, if it is not for that stream, capture in relaxed mode"},
	{[]Result{ResultStreamCaptureInvalidated},
		"an earlier call has invalidated the capture: end it, and look at that call's error"},
	{[]Result{ResultStreamCaptureMerge},
		"two captures cannot be joined: let streams wait only for events of their own capture"},
	{[]Result{ResultStreamCaptureUnmatched},
		"end a capture on the stream that it was begun on"},
	{[]Result{ResultStreamCaptureUnjoined},
		"let the stream that the capture began on wait for every stream that joined, before the capture ends"},
	{[]Result{ResultStreamCaptureIsolation},
		"work in a capture cannot wait for work outside: record the event in the capture, or wait with WaitExternal"},
	{[]Result{ResultStreamCaptureImplicit},
		"the legacy default stream cannot be captured: use non-blocking streams"},
	{[]Result{ResultCapturedEvent},
		"the event's newest record is part of a capture, so the event has no status and no time: " +
			"record it with RecordExternal, or query it after a record outside of the capture"},
	{[]Result{ResultStreamCaptureWrongThread},
		"the capture has ended, and there is no graph: end it on the thread that began it"},
	{[]Result{ResultTimeout},
		"repeat the call, or allow more time"},
	{[]Result{ResultUnknown},
		"the driver gives no reason: see dmesg for Xid messages; if other calls fail with this result, too, start " +
			"the process again, and if that does not help, reload the kernel modules or reboot"},
}
