package cu

import (
	"errors"
	"slices"
	"strings"

	"github.com/purecu/purecu/driver"
)

// docs is the page that has a section on every error: a file of this module. Once the module is
// published it becomes the page's URL, and [Error.Doc] returns URLs.
const docs = "docs/errors.md"

// mistakes are the errors that have a section of their own, by its name.
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

// Doc returns where this module's documentation explains the error: a file of the module, and
// the section in it, such as "docs/errors.md#errnotrecorded".
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

// missingHint says what to do about a function that the driver does not have.
func missingHint(m *driver.MissingError) string {
	switch {
	case m.Since == 0:
		return "check the name"
	case m.Software:
		return "do without, or use NVIDIA's driver"
	case m.Driver < m.Since:
		return "update the NVIDIA driver"
	}
	return "reinstall the NVIDIA driver"
}

// Remedy returns what to do about a result, in a sentence or two, or "" for a
// code that this package does not know, and for success.
func Remedy(r Result) string {
	for _, e := range remedies {
		if slices.Contains(e.of, r) {
			return e.text
		}
	}
	return ""
}

// remedyFor says what to do about a result of a function, by its name in C: more than Remedy does, where
// it is known.
func remedyFor(op string, r Result) string {
	for _, c := range callRemedies {
		if c.result == r && slices.Contains(c.ops, op) {
			return c.text
		}
	}
	return Remedy(r)
}

// callRemedies say what to do about a result of some functions, where that is not what others need.
var callRemedies = [...]struct {
	result Result
	ops    []string
	text   string
}{
	{ResultInvalidValue, []string{"cuEventQuery", "cuEventSynchronize", "cuEventElapsedTime"},
		"the event's newest record was part of a capture that has ended, so it marks nothing any more: " +
			"record it again, or use RecordExternal in the capture"},
	{ResultInvalidValue, []string{"cuStreamWaitEvent"},
		"the event's newest record was part of a capture that has ended, and marks nothing any more; " +
			"or WaitExternal was used on a stream that is not being captured"},
	{ResultDeviceUnavailable, []string{"cuDevicePrimaryCtxRetain", "cuCtxCreate", "cuGreenCtxCreate"},
		"the device is busy: another process holds it in exclusive mode (nvidia-smi -q -d COMPUTE shows the mode): " +
			"end that process, or set the mode to Default, and open the context again"},
	{ResultMapFailed, []string{openIPCOp},
		"the bytes are no event's, or it cannot be reached from here: pass on what Event.IPCHandle has " +
			"returned, unchanged, " +
			"and open it while the event is there, on the machine, and in the container, where it was created"},
	{ResultNotSupported, []string{openIPCOp, getIPCOp}, noIPCHint},
	{ResultIllegalState, []string{"cuEventRecordWithFlags"},
		"RecordExternal is for streams that are being captured: use Record"},
	{ResultIllegalState, []string{"cuStreamBeginCapture", beginToGraphOp},
		"the stream is part of a capture already, and captures do not nest: let that one end first, or " +
			"capture another stream"},
	{ResultIllegalState, []string{endCaptureOp},
		"somebody else has ended the capture: leave that to Capture, which ends what it has begun"},
	{
		ResultStreamCaptureUnsupported,
		[]string{
			"cuCtxSynchronize",
			"cuCtxRecordEvent",
			"cuCtxWaitEvent",
			"cuGreenCtxRecordEvent",
			"cuGreenCtxWaitEvent",
		},
		"no mode allows this while a stream of the context is being captured: make the call before or after " +
			"the capture",
	},
	{ResultStreamCaptureUnsupported, []string{"cuGraphLaunch", "cuGraphUpload"},
		"a graph does not become part of another one: launch it on a stream that is not being captured"},
	{ResultStreamCaptureImplicit, []string{"cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemsetD8"},
		"this call is ordered with the legacy default stream, which cannot take part in a capture: use " +
			"Stream.Copy or Stream.Memset, " +
			"or make the call before or after the capture"},
}

// remedies say what to do about results.
var remedies = [...]struct {
	of   []Result
	text string
}{
	{[]Result{ResultInvalidValue},
		"check the arguments: the message names the one that is wrong, if it was found before the driver was asked"},
	{[]Result{ResultInvalidHandle},
		"the objects do not fit the call: an event and the stream that it is recorded on must be of one context, " +
			"and the time between events takes two that are timed and recorded"},
	{
		[]Result{
			ResultProfilerDisabled,
			ResultProfilerNotInitialized,
			ResultProfilerAlreadyStarted,
			ResultProfilerAlreadyStopped,
		},
		"only calls that control a profiler give it: leave starting and stopping to one side, the tool or the program",
	},
	{[]Result{ResultContextAlreadyCurrent},
		"no current driver gives it: update the driver"},
	{[]Result{ResultMapFailed},
		"what another process, or a graphics API, shares cannot be mapped: it is gone, or of another machine " +
			"or container"},
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
		"resources that are shared with a graphics API are mapped, used and unmapped in this order, each once",
	},
	{[]Result{ResultInvalidGraphicsContext},
		"make the graphics API's context current on the thread, in gpu.Do"},
	{[]Result{ResultUnsupportedExecAffinity},
		"ask for a number of multiprocessors that the device and MPS allow, or for none"},
	{[]Result{ResultUnsupportedDevsideSync},
		"kernels must not call cudaDeviceSynchronize any more: compile them without it"},
	{[]Result{ResultIllegalState},
		"the object is not in a state for this call: see the C function's documentation for what has to come before"},
	{[]Result{ResultLossyQuery},
		"what was asked for cannot be said with this call: ask with its newer interface"},
	{[]Result{ResultLaunchIncompatibleTexturing},
		"set the texture references up as the kernel was compiled for, or use texture objects"},
	{[]Result{ResultHostMemoryAlreadyRegistered},
		"unregister the memory first; what AllocHost returns is registered already"},
	{[]Result{ResultHostMemoryNotRegistered},
		"register the memory first, or take it from AllocHost"},
	{[]Result{ResultPeerAccessAlreadyEnabled, ResultPeerAccessNotEnabled},
		"EnablePeerAccess and DisablePeerAccess take this for success; code that calls the driver itself should too"},
	{[]Result{ResultTensorMemoryLeak},
		"the kernel must free all tensor memory that it allocates before it ends"},
	{[]Result{ResultCDPNotSupported, ResultCDPVersionMismatch},
		"kernels that launch kernels need one version of that interface, and no MPS: compile everything with " +
			"one toolkit"},
	{[]Result{ResultGraphExecUpdateFailure},
		"the graphs differ too much: instantiate the new one"},
	{[]Result{ResultExternalDevice},
		"a device that shares a semaphore or memory with the GPU failed: look there"},
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
		"the library is the CUDA toolkit's stub, for linking only: take the toolkit's stubs folder off " +
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
		"ask DeviceCount how many there are; CUDA_VISIBLE_DEVICES may hide some"},
	{[]Result{ResultDeviceNotLicensed},
		"the virtual GPU has no license: ask its administrator"},
	{[]Result{ResultInvalidImage, ResultInvalidSource},
		"the image is neither PTX nor a cubin or fatbin that this driver reads: check what was passed, and " +
			"that it is whole"},
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
		"ask Device.CanAccessPeer first; copies between the devices work all the same"},
	{[]Result{ResultInvalidPTX},
		"the compiler's log in this error says which line of the PTX it refuses; ptxas says the same at build time"},
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
		"parts of the driver do not fit together: reinstall it"},
	{[]Result{ResultOperatingSystem},
		"the kernel refused something: see dmesg, ulimit -l, ulimit -u and the permissions of /dev/nvidia*"},
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
		"a kernel went wrong: run the program under compute-sanitizer to see which one, and where",
	},
	{[]Result{ResultLaunchOutOfResources},
		"the block has too many threads for the registers or shared memory that the kernel needs: ask " +
			"SuggestBlockSize"},
	{[]Result{ResultLaunchTimeout},
		"a kernel ran for longer than the display's watchdog allows: make it shorter, or use a GPU without a display"},
	{[]Result{ResultPrimaryContextActive},
		"set the flags before the primary context is retained"},
	{[]Result{ResultContextIsDestroyed},
		"other code in the process destroyed or reset the context (cuCtxDestroy, cuDevicePrimaryCtxReset, " +
			"cudaDeviceReset), " +
			"which nothing in it survives: keep that code from it, or open a new Context after it"},
	{[]Result{ResultTooManyPeers},
		"disable peer access that is no longer needed"},
	{[]Result{ResultCooperativeLaunchTooLarge},
		"launch at most MaxActiveBlocks times the number of multiprocessors"},
	{[]Result{ResultNotPermitted},
		"the operation is not allowed here: functions that a stream calls on the host must not wait for what " +
			"comes after them, " +
			"and in C must not make, launch or free anything; other operations need privileges"},
	{[]Result{ResultNotSupported},
		"this device, platform or driver does not have it"},
	{[]Result{ResultSystemNotReady},
		"the system's services are not up: start nvidia-fabricmanager on NVSwitch machines, and nvidia-persistenced"},
	{[]Result{ResultSystemDriverMismatch},
		"the kernel module and libcuda.so.1 are of different versions: reboot after a driver update; in a " +
			"container, use the host's library"},
	{[]Result{ResultCompatNotSupportedOnDevice},
		"the compatibility package is for data-centre GPUs only: take it off LD_LIBRARY_PATH"},
	{[]Result{ResultMPSConnectionFailed, ResultMPSRPCFailure, ResultMPSServerNotReady},
		"look after the MPS daemon: start it, or unset CUDA_MPS_PIPE_DIRECTORY"},
	{[]Result{ResultMPSMaxClientsReached, ResultMPSMaxConnectionsReached},
		"too many processes share the GPU through MPS: stop some"},
	{[]Result{ResultMPSClientTerminated},
		"another MPS client's error ended this one too: start the process again"},
	{[]Result{ResultStreamCaptureUnsupported},
		"while a stream is being captured this call is refused: always if it is about that stream, in global " +
			"mode from any thread, " +
			"in thread-local mode from the thread that captures; make it before or after the capture, or, if it " +
			"is about something else, capture in relaxed mode"},
	{[]Result{ResultStreamCaptureInvalidated},
		"an earlier call has invalidated the capture: end it, and look at that call's error"},
	{[]Result{ResultStreamCaptureMerge},
		"two captures cannot become one: let streams wait only for events of their own capture"},
	{[]Result{ResultStreamCaptureUnmatched},
		"end a capture on the stream that it was begun on"},
	{[]Result{ResultStreamCaptureUnjoined},
		"let the stream that the capture began on wait for every stream that joined, before the capture ends"},
	{[]Result{ResultStreamCaptureIsolation},
		"work in a capture cannot wait for work outside: record the event in the capture, or wait with WaitExternal"},
	{[]Result{ResultStreamCaptureImplicit},
		"the legacy default stream cannot take part: use non-blocking streams"},
	{[]Result{ResultCapturedEvent},
		"the event's newest record is part of a capture, so it has no status and no time of its own: " +
			"record it with RecordExternal, or ask after recording it outside the capture"},
	{[]Result{ResultStreamCaptureWrongThread},
		"the capture has ended, and there is no graph: end it on the thread that began it"},
	{[]Result{ResultTimeout},
		"ask again, or with more time"},
	{[]Result{ResultUnknown},
		"the driver does not say what: see dmesg for Xid messages; if other calls fail with it too, start " +
			"the process again, " +
			"and if that does not help, reload the kernel modules or reboot"},
}
