package cu

import (
	"errors"
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
func (r Result) Remedy() string {
	switch r {
	case ResultInvalidValue:
		return "check the arguments: the message names the one that is wrong, if it was found before the driver was asked"
	case ResultInvalidHandle:
		return "the objects do not fit the call: an event and the stream that it is recorded on must be of one context, " +
			"and the time between events takes two that are timed and recorded"
	case ResultProfilerDisabled, ResultProfilerNotInitialized, ResultProfilerAlreadyStarted, ResultProfilerAlreadyStopped:
		return "only calls that control a profiler give it: leave starting and stopping to one side, the tool or the program"
	case ResultContextAlreadyCurrent:
		return "no current driver gives it: update the driver"
	case ResultMapFailed:
		return "what another process, or a graphics API, shares cannot be mapped: it is gone, or of another machine or container"
	case ResultUnmapFailed, ResultArrayIsMapped, ResultAlreadyMapped, ResultNotMapped, ResultNotMappedAsArray, ResultNotMappedAsPointer, ResultAlreadyAcquired:
		return "resources that are shared with a graphics API are mapped, used and unmapped in this order, each once"
	case ResultInvalidGraphicsContext:
		return "make the graphics API's context current on the thread, in gpu.Do"
	case ResultUnsupportedExecAffinity:
		return "ask for a number of multiprocessors that the device and MPS allow, or for none"
	case ResultUnsupportedDevsideSync:
		return "kernels must not call cudaDeviceSynchronize any more: compile them without it"
	case ResultIllegalState:
		return "the object is not in a state for this call: see the C function's documentation for what has to come before"
	case ResultLossyQuery:
		return "what was asked for cannot be said with this call: ask with its newer interface"
	case ResultLaunchIncompatibleTexturing:
		return "set the texture references up as the kernel was compiled for, or use texture objects"
	case ResultHostMemoryAlreadyRegistered:
		return "unregister the memory first; what AllocHost returns is registered already"
	case ResultHostMemoryNotRegistered:
		return "register the memory first, or take it from AllocHost"
	case ResultPeerAccessAlreadyEnabled, ResultPeerAccessNotEnabled:
		return "EnablePeerAccess and DisablePeerAccess take this for success; code that calls the driver itself should too"
	case ResultTensorMemoryLeak:
		return "the kernel must free all tensor memory that it allocates before it ends"
	case ResultCDPNotSupported, ResultCDPVersionMismatch:
		return "kernels that launch kernels need one version of that interface, and no MPS: compile everything with one toolkit"
	case ResultGraphExecUpdateFailure:
		return "the graphs differ too much: instantiate the new one"
	case ResultExternalDevice:
		return "a device that shares a semaphore or memory with the GPU failed: look there"
	case ResultInvalidClusterSize:
		return "choose a cluster that the device can schedule: ask cuOccupancyMaxPotentialClusterSize"
	case ResultFunctionNotLoaded:
		return "load the kernel first: ask for one of its attributes, or unset CUDA_MODULE_LOADING"
	case ResultInvalidResourceType, ResultInvalidResourceConfiguration:
		return "split the device's resources the way that cuDevSmResourceSplitByCount allows"
	case ResultKeyRotation:
		return "the GPU's encryption keys changed in an unexpected way (confidential computing): start the process again"
	case ResultOutOfMemory:
		return "close memory that is no longer needed; nvidia-smi shows which processes hold the rest"
	case ResultNotInitialized:
		return "open the driver with cu.Open before calling its functions"
	case ResultDeinitialized:
		return "the process is exiting: stop using the GPU before main returns"
	case ResultStubLibrary:
		return "the library is the CUDA toolkit's stub, for linking only: take the toolkit's stubs folder off LD_LIBRARY_PATH"
	case ResultCallRequiresNewerDriver:
		return "update the NVIDIA driver"
	case ResultDeviceUnavailable:
		return "while a context is opened: another process holds the GPU in exclusive mode, so wait, or end that process; in an open context: " +
			"the driver has lost the GPU, so start the process again, and see nvidia-smi, and dmesg for Xid messages"
	case ResultNoDevice:
		return "check that nvidia-smi lists a GPU, that CUDA_VISIBLE_DEVICES does not hide it, and that a container was started with it; cuprobe doctor does all of that"
	case ResultInvalidDevice:
		return "ask DeviceCount how many there are; CUDA_VISIBLE_DEVICES may hide some"
	case ResultDeviceNotLicensed:
		return "the virtual GPU has no license: ask its administrator"
	case ResultInvalidImage, ResultInvalidSource:
		return "the image is neither PTX nor a cubin or fatbin that this driver reads: check what was passed, and that it is whole"
	case ResultInvalidContext:
		return "no context is current on the thread, or it was destroyed: make the call in gpu.Do"
	case ResultNoBinaryForGPU:
		return "the code was compiled for other GPUs: add this one's compute capability, or PTX, when it is built"
	case ResultECCUncorrectable:
		return "the GPU's memory is damaged or was hit: see nvidia-smi -q -d ECC, reset or drain the GPU"
	case ResultUnsupportedLimit:
		return "this device has no such limit"
	case ResultContextAlreadyInUse:
		return "the GPU is in exclusive mode and another thread or process has it"
	case ResultPeerAccessUnsupported:
		return "ask Device.CanAccessPeer first; copies between the devices work all the same"
	case ResultInvalidPTX:
		return "the compiler's log in this error says which line of the PTX it refuses; ptxas says the same at build time"
	case ResultNVLinkUncorrectable, ResultContained:
		return "the link between GPUs failed: see dmesg for Xid messages, reset or drain the GPU"
	case ResultJITCompilerNotFound:
		return "libnvidia-ptxjitcompiler.so.1 is missing: install the whole driver (in a container: NVIDIA_DRIVER_CAPABILITIES must hold compute), or load a cubin"
	case ResultUnsupportedPTXVersion:
		return "the PTX is newer than the driver: update the driver, or lower .version in the PTX or compile with an older toolkit"
	case ResultJITCompilationDisabled:
		return "CUDA_DISABLE_PTX_JIT is set: unset it, or load a cubin for this GPU"
	case ResultFileNotFound:
		return "check the path"
	case ResultSharedObjectSymbolNotFound, ResultSharedObjectInitFailed:
		return "parts of the driver do not fit together: reinstall it"
	case ResultOperatingSystem:
		return "the kernel refused something: see dmesg, ulimit -l, ulimit -u and the permissions of /dev/nvidia*"
	case ResultNotFound:
		return "check the name; C++ names are mangled unless they are declared extern \"C\""
	case ResultNotReady:
		return "this is not an error: the work is pending"
	case ResultIllegalAddress, ResultMisalignedAddress, ResultInvalidAddressSpace, ResultInvalidPC, ResultIllegalInstruction,
		ResultHardwareStackError, ResultLaunchFailed, ResultAssert:
		return "a kernel went wrong: run the program under compute-sanitizer to see which one, and where"
	case ResultLaunchOutOfResources:
		return "the block has too many threads for the registers or shared memory that the kernel needs: ask SuggestBlockSize"
	case ResultLaunchTimeout:
		return "a kernel ran for longer than the display's watchdog allows: make it shorter, or use a GPU without a display"
	case ResultPrimaryContextActive:
		return "set the flags before the primary context is retained"
	case ResultContextIsDestroyed:
		return "other code in the process destroyed or reset the context (cuCtxDestroy, cuDevicePrimaryCtxReset, cudaDeviceReset), " +
			"which nothing in it survives: keep that code from it, or open a new Context after it"
	case ResultTooManyPeers:
		return "disable peer access that is no longer needed"
	case ResultCooperativeLaunchTooLarge:
		return "launch at most MaxActiveBlocks times the number of multiprocessors"
	case ResultNotPermitted:
		return "the operation is not allowed here: functions that a stream calls on the host must not wait for what comes after them, " +
			"and in C must not make, launch or free anything; other operations need privileges"
	case ResultNotSupported:
		return "this device, platform or driver does not have it"
	case ResultSystemNotReady:
		return "the system's services are not up: start nvidia-fabricmanager on NVSwitch machines, and nvidia-persistenced"
	case ResultSystemDriverMismatch:
		return "the kernel module and libcuda.so.1 are of different versions: reboot after a driver update; in a container, use the host's library"
	case ResultCompatNotSupportedOnDevice:
		return "the compatibility package is for data-centre GPUs only: take it off LD_LIBRARY_PATH"
	case ResultMPSConnectionFailed, ResultMPSRPCFailure, ResultMPSServerNotReady:
		return "look after the MPS daemon: start it, or unset CUDA_MPS_PIPE_DIRECTORY"
	case ResultMPSMaxClientsReached, ResultMPSMaxConnectionsReached:
		return "too many processes share the GPU through MPS: stop some"
	case ResultMPSClientTerminated:
		return "another MPS client's error ended this one too: start the process again"
	case ResultStreamCaptureUnsupported:
		return "while a stream is being captured this call is refused: always if it is about that stream, in global mode from any thread, " +
			"in thread-local mode from the thread that captures; make it before or after the capture, or, if it is about something else, capture in relaxed mode"
	case ResultStreamCaptureInvalidated:
		return "an earlier call has spoilt the capture: end it, and look at that call's error"
	case ResultStreamCaptureMerge:
		return "two captures cannot become one: let streams wait only for events of their own capture"
	case ResultStreamCaptureUnmatched:
		return "end a capture on the stream that it was begun on"
	case ResultStreamCaptureUnjoined:
		return "let the stream that the capture began on wait for every stream that joined, before the capture ends"
	case ResultStreamCaptureIsolation:
		return "work in a capture cannot wait for work outside: record the event in the capture, or wait with WaitExternal"
	case ResultStreamCaptureImplicit:
		return "the legacy default stream cannot take part: use non-blocking streams"
	case ResultCapturedEvent:
		return "the event's newest record is part of a capture, so it has no status and no time of its own: " +
			"record it with RecordExternal, or ask after recording it outside the capture"
	case ResultStreamCaptureWrongThread:
		return "the capture has ended, and there is no graph: end it on the thread that began it"
	case ResultTimeout:
		return "ask again, or with more time"
	case ResultUnknown:
		return "the driver does not say what: see dmesg for Xid messages; if other calls fail with it too, start the process again, " +
			"and if that does not help, reload the kernel modules or reboot"
	}
	return ""
}
