package loader

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file judges what cuInit returned, and the variable that hides GPUs from it.

// hidden judges CUDA_VISIBLE_DEVICES.
func (j *judge) hidden() {
	v, set := j.Environment["CUDA_VISIBLE_DEVICES"]
	if !set {
		return
	}
	// The driver uses the entries before the first invalid one.
	first, _, _ := strings.Cut(v, ",")
	first = strings.TrimSpace(first)
	var gpus int
	for _, d := range j.Devices {
		if isGPU(d.Path) && d.Access != Missing {
			gpus++
		}
	}
	var why string
	n, err := strconv.Atoi(first)
	switch {
	case strings.TrimSpace(v) == "":
		why = "it is set, and empty"
	case strings.HasPrefix(first, "GPU-"), strings.HasPrefix(first, "MIG-"):
		return
	case err != nil:
		why = fmt.Sprintf("%q is neither the number nor the UUID of a GPU", first)
	case n < 0:
		why = fmt.Sprintf("%s is not the number of a GPU, and the driver ignores the entries after it", first)
	case gpus > 0 && n >= gpus:
		why = fmt.Sprintf("there is no GPU %d: they are counted from 0, and there are %d", n, gpus)
	default:
		return
	}
	title := "CUDA_VISIBLE_DEVICES hides every GPU"
	if j.slurm() {
		title = "this job was not given a GPU"
		why += "; Slurm sets it for a job's GPUs, and so for none"
		if j.explained {
			return
		}
	}
	detail := fmt.Sprintf("CUDA_VISIBLE_DEVICES is %q: %s", v, why)
	if slices.ContainsFunc(j.list, func(f Finding) bool { return f.Severity == Fault && f.Title == title }) {
		return
	}
	j.add(Fault, title, detail, j.show())
}

// show returns how to make GPUs visible that CUDA_VISIBLE_DEVICES hides. It never unsets the
// variable where Slurm or Kubernetes assigns GPUs with it.
func (j *judge) show() string {
	switch {
	case j.slurm():
		return askSlurm
	case j.Container == "kubernetes":
		return "take CUDA_VISIBLE_DEVICES out of the pod's spec, and of its image; " + j.grant()
	}
	return j.unset("CUDA_VISIBLE_DEVICES")
}

// init judges the result of cuInit. If cuInit failed, the first fault is the most likely reason.
// Without a fault, only the meaning of the result is known.
func (j *judge) init() {
	if j.Init == nil || j.Init.Code == 0 {
		return
	}
	m := initMeaning(j.Init.Code)
	title := "cuInit failed with " + j.Init.String()
	detail, fix := m.text, j.initFix()
	if i := slices.IndexFunc(j.list, func(f Finding) bool { return f.Severity == Fault }); i >= 0 {
		detail, fix = m.text+"; most likely because "+j.list[i].Title, j.list[i].Fix
	}
	j.add(Fault, title, detail, fix)
}

// meaning is the name and the meaning of a result of cuInit.
type meaning struct{ name, text string }

// These results of cuInit say something about the machine.
const (
	initNotInitialized    = 3
	initStub              = stubLibrary
	initDeviceUnavailable = 46
	initNoDevice          = 100
	initInvalidDevice     = 101
	initNotSupported      = 801
	initNotReady          = 802
	initMismatch          = 803
	initNoCompat          = 804
	initUnknown           = 999
)

// initMeaning returns what a result of cuInit means.
func initMeaning(code int32) meaning {
	switch code {
	case 0:
		return meaning{"CUDA_SUCCESS", ""}
	case initNotInitialized:
		return meaning{"CUDA_ERROR_NOT_INITIALIZED",
			"the driver could not set up a GPU: its device files or its memory are not accessible, or the process was " +
				"forked from one that uses CUDA"}
	case initStub:
		return meaning{"CUDA_ERROR_STUB_LIBRARY", "the library is the CUDA toolkit's stub, which is for linking only"}
	case initDeviceUnavailable:
		return meaning{"CUDA_ERROR_DEVICE_UNAVAILABLE",
			"the GPU is in a mode in which only one process, or none, may use it"}
	case initNoDevice:
		return meaning{"CUDA_ERROR_NO_DEVICE", "the driver sees no GPU that it may use"}
	case initInvalidDevice:
		return meaning{"CUDA_ERROR_INVALID_DEVICE",
			"one of the GPUs that the driver was given to use is not one for it: by CUDA_VISIBLE_DEVICES, or because " +
				"of the mode that it is in"}
	case initNotSupported:
		return meaning{"CUDA_ERROR_NOT_SUPPORTED",
			"the library does not support this GPU or this system: it may be another kind's, such as a server's on a " +
				"Jetson"}
	case initNotReady:
		return meaning{"CUDA_ERROR_SYSTEM_NOT_READY",
			"the GPUs are connected by NVSwitch, and the service that sets it up, the fabric manager, is not running " +
				"or not done; or, in confidential computing, the GPUs have not been set ready"}
	case initMismatch:
		return meaning{"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
			"the versions of the library and of the kernel's module do not match"}
	case initNoCompat:
		return meaning{"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
			"the library is newer than the kernel's module, and forward compatibility is for data center GPUs only"}
	case initUnknown:
		return meaning{"CUDA_ERROR_UNKNOWN", "the driver does not say; often nvidia-uvm is not loaded, or does not " +
			"work any more after the machine has slept"}
	}
	return meaning{"", "this package does not know the code"}
}

// initFix returns the remedy if cuInit failed and no fault explains it.
func (j *judge) initFix() string {
	if j.windows() {
		switch {
		case j.Init.Code == initDeviceUnavailable:
			return "nvidia-smi # shows who uses the GPU"
		case j.Init.Code == initInvalidDevice && j.Environment["CUDA_VISIBLE_DEVICES"] != "":
			return j.show()
		}
		return "restart Windows; if that does not help, install NVIDIA's driver for Windows again"
	}
	switch j.Init.Code {
	case initStub:
		return j.discard()
	case initDeviceUnavailable:
		return j.onHost("nvidia-smi # shows who uses the GPU; to let several use it at a time: sudo nvidia-smi " +
			"--compute-mode=DEFAULT")
	case initInvalidDevice:
		if j.Environment["CUDA_VISIBLE_DEVICES"] != "" {
			return j.show()
		}
	case initNotReady:
		return j.onHost("sudo systemctl enable --now nvidia-fabricmanager")
	case initMismatch:
		if j.Container != "" {
			return j.restart()
		}
		return reboot
	case initNoCompat:
		if j.compatible() {
			return j.discard()
		}
		return j.onHost(reboot)
	case initUnknown:
		return j.onHost("end all that uses the GPU, then: sudo modprobe -r nvidia-uvm && sudo modprobe nvidia-uvm")
	}
	return j.onHost(kernelLog)
}
