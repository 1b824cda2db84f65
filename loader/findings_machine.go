package loader

import (
	"fmt"
	"slices"
	"strings"
)

// This file judges the machine: WSL, the GPU, the container and the kernel's module.

// wsl judges the Windows Subsystem for Linux, whose driver comes from Windows.
func (j *judge) wsl() {
	if !j.WSL || j.Container != "" {
		return
	}
	switch {
	case j.explained:
	case !j.present():
		j.explain("WSL has no GPU here", "there is no /dev/dxg: this is WSL 1, or a Windows that gives WSL no GPU",
			"wsl.exe --update # and then "+stopWSL)
	case j.Library == nil:
		j.explain("NVIDIA's driver is not installed in Windows",
			"Windows puts the driver's library into /usr/lib/wsl/lib, and there is none that could be loaded",
			"install NVIDIA's driver in Windows, then "+stopWSL)
	case !strings.HasPrefix(j.Library.Path, "/usr/lib/wsl/") && j.Library.Release != "":
		j.add(Fault, "a Linux driver is installed inside WSL, where it cannot work",
			j.Library.Path+" was taken; in WSL the driver is the one in /usr/lib/wsl/lib, which comes from Windows",
			j.remove(j.Library.Path))
	}
}

// stopWSL restarts WSL. It is a sentence because it also ends other programs in WSL.
const stopWSL = "stop all of WSL, this shell too: wsl.exe --shutdown"

// hardware judges whether there is a GPU, and which driver is bound to it.
func (j *judge) hardware() {
	if j.explained || j.WSL || j.Jetson || !j.PCIKnown || j.gpuOpens() {
		return
	}
	if len(j.GPUs) == 0 && j.Kernel.Loaded {
		j.explain("the GPU is no longer on the PCI bus",
			"the kernel has NVIDIA's module, which loads only where there is a GPU, and none of the devices in "+
				"/sys/bus/pci/devices is one: it fell off the bus (the kernel's log has Xid 79 then), lost its "+
				"power, or was taken out",
			j.onHost(kernelLog+" # and then switch the machine off and on again"))
		return
	}
	if len(j.GPUs) == 0 {
		hasDriver := func(d *DeviceFile) bool { return isGPU(d.Path) && d.Access != Missing && d.Access != NoDriver }
		if !j.anyFile(hasDriver) {
			j.explain("this machine has no NVIDIA GPU",
				"none of the devices on the PCI bus (/sys/bus/pci/devices) is one", j.elsewhere())
		}
		return
	}
	all := func(driver string) bool {
		return !slices.ContainsFunc(j.GPUs, func(g PCIDevice) bool { return g.Driver != driver })
	}
	switch {
	case all("nouveau") && j.Library == nil:
		j.explain("the GPU is driven by nouveau, which has no CUDA, and NVIDIA's driver is not installed",
			j.address()+" is bound to nouveau", j.onHost(j.install()))
	case all("nouveau"):
		j.explain("the GPU is driven by nouveau, which has no CUDA",
			j.address()+" is bound to nouveau, in place of NVIDIA's module", j.onHost(j.withoutNouveau()))
	case all("vfio-pci"):
		j.explain("the GPU is reserved for virtual machines", j.address()+" is bound to vfio-pci",
			"run the program in the virtual machine that has the GPU")
	}
}

// address returns the address of the first GPU.
func (j *judge) address() string { return "the PCI device " + j.GPUs[0].Address }

// container judges whether a container was given GPUs.
func (j *judge) container() {
	if j.explained || j.Container == "" {
		return
	}
	if !j.present() {
		detail := "there are no device files of a GPU"
		switch visible, set := j.Environment["NVIDIA_VISIBLE_DEVICES"]; {
		case set && (visible == "" || visible == "void" || visible == "none"):
			detail += fmt.Sprintf(", and NVIDIA_VISIBLE_DEVICES is %q", visible)
		case set:
			detail += fmt.Sprintf("; NVIDIA_VISIBLE_DEVICES is %q, which only NVIDIA's container runtime heeds",
				visible)
		case j.Kernel.Loaded:
			detail += ", though the host has NVIDIA's driver"
		case len(j.GPUs) > 0:
			detail += ", though the host has a GPU"
		}
		j.explain("this container was started without GPUs", detail, j.grant())
		return
	}
	c, set := j.Environment["NVIDIA_DRIVER_CAPABILITIES"]
	has := func(s string) bool { return slices.Contains(strings.Split(c, ","), s) }
	if j.Library == nil && set && c != "" && !has("compute") && !has("all") {
		const change = "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
		fix := "start the container with " + change
		switch j.Container {
		case "docker":
			fix = j.grantWith("-e " + change)
		case "kubernetes":
			fix = `add to the container's spec: env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: "compute,utility"}]`
		case "podman", "apptainer": // their own options mount the library in spite of it
			return
		}
		j.explain("this container was started without the driver's CUDA library",
			fmt.Sprintf("NVIDIA_DRIVER_CAPABILITIES is %q, and compute is not in it", c), fix)
	}
}

// module judges the driver's module in the kernel.
func (j *judge) module() {
	if j.WSL || j.Jetson {
		return
	}
	if !j.explained && !j.initialised() && len(j.GPUs) > 0 && !j.gpuOpens() &&
		!slices.ContainsFunc(j.GPUs, func(g PCIDevice) bool { return g.Driver == "nvidia" }) {
		if j.Kernel.Loaded {
			j.explain("NVIDIA's kernel module does not drive the GPU",
				"the module is loaded, and "+j.address()+" is not bound to it: the module may be too old or too new "+
					"for this GPU, or of the wrong flavor", j.onHost(kernelLog))
		} else {
			j.explain("NVIDIA's kernel module is not loaded",
				"there is a GPU, and no /sys/module/nvidia. If loading it fails, it was not built for this kernel, as "+
					"happens after the kernel was updated (see dkms status), or Secure Boot refuses it (see mokutil "+
					"--sb-state)",
				j.onHost("sudo modprobe nvidia"))
		}
	}
	if l := j.Library; l != nil && l.Release != "" && j.Kernel.Release != "" && l.Release != j.Kernel.Release &&
		!j.compatible() {
		detail := fmt.Sprintf("%s is of version %s, and the kernel's module of %s: one of the two was updated and the "+
			"other is still in use", l.Path, l.Release, j.Kernel.Release)
		fix := reboot
		if j.Container != "" {
			fix = j.restart()
		}
		j.add(Fault, "the driver's library and its kernel module are of different versions", detail, fix)
	}
}

// kernelLog shows what the driver wrote to the kernel's log.
const kernelLog = "sudo dmesg | grep -e NVRM -e Xid"
