package loader

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/internal/initresult"
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
	_, meaning := initMeaning(j.Init.Code)
	title := "cuInit failed with " + j.Init.String()
	detail, fix := meaning, j.initFix()
	if i := slices.IndexFunc(j.list, func(f Finding) bool { return f.Severity == Fault }); i >= 0 {
		detail, fix = meaning+"; most likely because "+j.list[i].Title, j.list[i].Fix
	}
	j.add(Fault, title, detail, fix)
}

// initMeaning returns the name of a result of cuInit, and what it means.
func initMeaning(code int32) (name, text string) {
	name, text = initresult.Of(code)
	switch {
	case code == 0:
		name = "CUDA_SUCCESS"
	case text == "":
		text = "this package does not know the code"
	}
	return name, text
}

// initFix returns the remedy if cuInit failed and no fault explains it.
func (j *judge) initFix() string {
	if j.windows() {
		switch {
		case j.Init.Code == initresult.DeviceUnavailable:
			return "nvidia-smi # shows who uses the GPU"
		case j.Init.Code == initresult.InvalidDevice && j.Environment["CUDA_VISIBLE_DEVICES"] != "":
			return j.show()
		}
		return "restart Windows; if that does not help, install NVIDIA's driver for Windows again"
	}
	switch j.Init.Code {
	case initresult.StubLibrary:
		return j.discard()
	case initresult.DeviceUnavailable:
		return j.onHost("nvidia-smi # shows who uses the GPU; to let several use it at a time: sudo nvidia-smi " +
			"--compute-mode=DEFAULT")
	case initresult.InvalidDevice:
		if j.Environment["CUDA_VISIBLE_DEVICES"] != "" {
			return j.show()
		}
	case initresult.NotReady:
		return j.onHost("sudo systemctl enable --now nvidia-fabricmanager")
	case initresult.Mismatch:
		if j.Container != "" {
			return j.restart()
		}
		return reboot
	case initresult.NoCompat:
		if j.compatible() {
			return j.discard()
		}
		return j.onHost(reboot)
	case initresult.Unknown:
		return j.onHost("end all that uses the GPU, then: sudo modprobe -r nvidia-uvm && sudo modprobe nvidia-uvm")
	}
	return j.onHost(kernelLog)
}
