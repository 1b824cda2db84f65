// Package initresult has what the results of cuInit mean, for the errors of package cu and for the
// reports of package loader. Other functions mean something else by the same results.
package initresult

// Doctor is the command that finds out why CUDA does not work. Users of the module have it without
// installing anything.
const Doctor = "go run github.com/purecu/purecu/cmd/cuprobe doctor"

// See is the end of errors that the doctor can explain.
const See = "to find the cause, run: " + Doctor

// Settings is the command that shows what configures the software driver.
const Settings = "env | grep -e ^CUSIM_ -e ^CUDA_VISIBLE_DEVICES -e ^CUDA_DEVICE_ORDER"

// These results say something about the machine.
const (
	OutOfMemory       = 2
	NotInitialized    = 3
	StubLibrary       = 34
	DeviceUnavailable = 46
	NoDevice          = 100
	InvalidDevice     = 101
	OperatingSystem   = 304
	NotFound          = 500
	NotSupported      = 801
	NotReady          = 802
	Mismatch          = 803
	NoCompat          = 804
	Unknown           = 999
)

// Of returns the name of a result, and what it means. Both are "" if cuInit is not known to return it.
func Of(code int32) (name, text string) {
	switch code {
	case OutOfMemory:
		return "CUDA_ERROR_OUT_OF_MEMORY",
			"the process has too little memory, address space (ulimit -v), threads (ulimit -u) or descriptors " +
				"(ulimit -n)"
	case NotInitialized:
		return "CUDA_ERROR_NOT_INITIALIZED",
			"the driver could not set up a GPU: its device files or its memory are not accessible, or the process " +
				"was forked from one that uses CUDA"
	case StubLibrary:
		return "CUDA_ERROR_STUB_LIBRARY", "the library is the CUDA toolkit's stub, which is for linking only"
	case DeviceUnavailable:
		return "CUDA_ERROR_DEVICE_UNAVAILABLE",
			"the GPU is in a mode in which only one process, or none, may use it"
	case NoDevice:
		return "CUDA_ERROR_NO_DEVICE", "the driver sees no GPU that it may use"
	case InvalidDevice:
		return "CUDA_ERROR_INVALID_DEVICE",
			"one of the GPUs that the driver was given to use is not one for it: by CUDA_VISIBLE_DEVICES, or because " +
				"of the mode that it is in"
	case OperatingSystem:
		return "CUDA_ERROR_OPERATING_SYSTEM",
			"the system's kernel refused a request: a filter of system calls (seccomp) or a security module forbids " +
				"it, a device file (/dev/nvidia*) is missing or not accessible, or a limit is too low (ulimit -u, -v)"
	case NotFound:
		return "CUDA_ERROR_NOT_FOUND",
			"the library and other parts of the driver do not fit each other, as in a container in WSL after " +
				"Windows' driver was updated"
	case NotSupported:
		return "CUDA_ERROR_NOT_SUPPORTED",
			"the library does not support this GPU or this system: it may be another kind's, such as a server's on a " +
				"Jetson"
	case NotReady:
		return "CUDA_ERROR_SYSTEM_NOT_READY",
			"the GPUs are connected by NVSwitch, and the service that sets it up, the fabric manager, is not running " +
				"or not done; or, in confidential computing, the GPUs have not been set ready"
	case Mismatch:
		return "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
			"the versions of the library and of the kernel's module do not match"
	case NoCompat:
		return "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
			"the library is newer than the kernel's module, and forward compatibility is for data center GPUs only"
	case Unknown:
		return "CUDA_ERROR_UNKNOWN", "the driver does not say; often nvidia-uvm is not loaded, or does not " +
			"work any more after the machine has slept"
	}
	return "", ""
}

// OfSoftware returns what a result of the software driver's cuInit means, and what to do.
func OfSoftware(code int32) string {
	switch code {
	case OutOfMemory:
		return "the process lacks memory, address space (ulimit -v), threads (ulimit -u) or descriptors (ulimit -n)"
	case NoDevice:
		return "the software driver has no device: ask for some with cusim.Devices or CUSIM_DEVICES, and check that " +
			"CUDA_VISIBLE_DEVICES does not hide them"
	case InvalidDevice:
		return "CUDA_VISIBLE_DEVICES names a device twice, or CUDA_DEVICE_ORDER is neither PCI_BUS_ID nor FASTEST_FIRST"
	case OperatingSystem:
		return "the process lacks threads (ulimit -u) or descriptors (ulimit -n), or a filter of system calls " +
			"(seccomp) forbids them"
	case Unknown:
		return "a variable CUSIM_… is wrong: standard error says which; or the software driver was told to return " +
			"this result: see cusim.Faults"
	}
	text := "the software driver was told to return this result: see cusim.Faults, and the variables CUSIM_…"
	if _, meaning := Of(code); meaning != "" {
		text += "; NVIDIA's driver returns it when " + meaning
	}
	return text
}
