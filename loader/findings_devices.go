package loader

import (
	"fmt"
	"slices"
	"strings"
)

// This file judges the device files: which are needed, and why they cannot be opened.

// gpuFile and a number are the name of a GPU's device file.
const gpuFile = "/dev/nvidia"

// isGPU reports whether a device file is that of a GPU.
func isGPU(name string) bool {
	number, ok := strings.CutPrefix(name, gpuFile)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// anyFile reports whether there is a device file for which ok is true.
func (j *judge) anyFile(ok func(d *DeviceFile) bool) bool {
	return slices.ContainsFunc(j.Devices, func(d DeviceFile) bool { return ok(&d) })
}

// present reports whether there is any device file at all.
func (j *judge) present() bool {
	return j.anyFile(func(d *DeviceFile) bool { return d.Access != Missing })
}

// gpuOpens reports whether a GPU could be opened. If so, its driver is in order.
func (j *judge) gpuOpens() bool {
	return j.anyFile(func(d *DeviceFile) bool { return isGPU(d.Path) && d.Access == Granted })
}

// files judges the device files.
func (j *judge) files() {
	if j.explained {
		return
	}
	// CUDA needs one GPU, and no files for displays and tools. With several GPUs, a broken one can
	// keep CUDA from using the others. On a Jetson any file can, because the files for GPUs may be
	// the display's.
	needed := func(d *DeviceFile) (Severity, bool) {
		other := j.gpuOpens()
		switch broken := d.Access != Missing && d.Access != Denied && d.Access != Forbidden; {
		case !other && (j.Jetson || isGPU(d.Path)):
			return Fault, true
		case other && (j.Jetson || isGPU(d.Path) && broken):
			return j.suspect(), true
		}
		return Fault, d.Path == gpuFile+"ctl" || d.Path == gpuFile+"-uvm" || d.Path == "/dev/dxg"
	}
	for _, access := range []Access{NoDriver, Broken, Forbidden, Denied, Missing, Failed} {
		which := map[Severity][]DeviceFile{}
		for _, d := range j.Devices {
			if severity, is := needed(&d); is && d.Access == access {
				which[severity] = append(which[severity], d)
			}
		}
		for _, severity := range []Severity{Fault, Warning} {
			if len(which[severity]) > 0 {
				j.inaccessible(severity, access, which[severity])
			}
		}
	}
}

// inaccessible adds what follows from device files that cannot be opened. All of them have the same
// severity and access.
func (j *judge) inaccessible(severity Severity, access Access, which []DeviceFile) {
	var names []string
	for _, d := range which {
		names = append(names, d.Path)
	}
	list := strings.Join(names, ", ")
	first := which[0]
	uvm := slices.Equal(names, []string{gpuFile + "-uvm"})
	switch access {
	case NoDriver:
		fix := "sudo modprobe nvidia"
		if uvm {
			fix = "sudo modprobe nvidia-uvm"
		}
		switch {
		case j.Jetson:
			fix = jetsonModule
		case j.WSL:
			fix = stopWSL
		case j.Kernel.Loaded && !slices.ContainsFunc(which, func(d DeviceFile) bool { return !isGPU(d.Path) }):
			j.add(severity, "there is no GPU behind "+list,
				"the kernel's module is loaded, and opening fails: "+first.Error, j.onHost(kernelLog))
			return
		case j.Kernel.Loaded && !uvm:
			fix = kernelLog
		}
		j.add(severity, "there is no driver behind "+list, "opening it fails: "+first.Error, j.onHost(fix))
	case Broken:
		title := "the GPU does not answer"
		if j.gpuOpens() {
			title = list + " does not answer"
		}
		j.add(severity, title, "opening "+list+" fails: "+first.Error+"; the kernel's log says why",
			j.onHost(kernelLog))
	case Forbidden:
		detail := "the permissions of " + list + " allow it, and opening fails: " + first.Error + "; "
		switch {
		case j.slurm():
			j.add(severity, "this job was not given a GPU", detail+"the job has no right to it", askSlurm)
		case j.Container != "":
			j.add(severity, "this container has lost its right to use the GPU",
				detail+"systemctl daemon-reload on the host takes such rights from containers that are running",
				j.restart())
		default:
			j.add(severity, "this process has no right to use the GPU",
				detail+"the unit that systemd runs it in needs one",
				`sudo systemctl set-property UNIT "DeviceAllow=char-nvidia* rw"`)
		}
	case Denied:
		j.denied(severity, list, first)
	case Missing:
		switch {
		case j.initialised(): // cuInit created them, or needs none
		case j.Jetson:
			j.add(severity, "there is no "+list, "the kernel's module for the built-in GPU creates it",
				j.onHost(jetsonModule))
		case j.Container != "":
			j.add(severity, "this container was given only a part of the device files", "there is no "+list, j.grant())
		case j.Kernel.Helper && j.Init == nil:
			j.add(Note, "the driver will create "+list,
				"nothing has used the GPU since the machine was started, and nvidia-modprobe is installed", "")
		case uvm:
			j.add(severity, "there is no "+list,
				"CUDA needs the kernel's module nvidia-uvm, which other users of the GPU do without"+j.helper(),
				j.withHelper("sudo nvidia-modprobe -u -c 0"))
		default:
			j.add(severity, "there is no "+list,
				"these device files have not been created since the machine was started"+j.helper(), j.createFiles())
		}
	default:
		j.add(severity, "opening "+list+" fails", first.Error, j.onHost(kernelLog))
	}
}

// helper returns why the driver does not create device files for this user.
func (j *judge) helper() string {
	switch {
	case !j.Kernel.HelperInstalled:
		return "; the driver does it with nvidia-modprobe, which is not installed"
	case !j.Kernel.Helper:
		return "; the driver does it with nvidia-modprobe, which is installed without the right to (it is not " +
			"setuid root)"
	}
	return ""
}

// denied adds what follows from device files that this user may not open, because of their
// permissions or of a security module.
func (j *judge) denied(severity Severity, list string, d DeviceFile) {
	detail := fmt.Sprintf("%s is %s, of user %d and group %d", d.Path, d.Mode, d.UID, d.GID)
	if d.Group != "" {
		detail += " (" + d.Group + ")"
	}
	detail += fmt.Sprintf(", and this is user %d", j.UID)
	allows := func(first int) bool { return len(d.Mode) == len("crw-rw-rw-") && d.Mode[first:first+2] == "rw" }
	if allows(7) {
		fix := "sudo dmesg | grep -i -e avc: -e apparmor # says what denied it"
		if j.Container != "" {
			fix = "let every container use devices, as far as SELinux goes, on the host: sudo setsebool -P " +
				"container_use_devices 1"
		}
		j.add(severity, "a security policy keeps this process from opening "+list, detail+": the permissions allow it",
			fix)
		return
	}
	fix := j.onHost("sudo chmod a+rw " + strings.ReplaceAll(list, ",", "") +
		" # for every user, until the machine is restarted")
	switch {
	case !allows(4) || d.GID == 0:
	case j.Container == "" && d.Group != "":
		fix = "sudo usermod -aG " + d.Group + ` "$USER" # adds you to the group, from your next login on`
	case j.Container == "docker":
		fix = j.grantWith(fmt.Sprintf("--group-add %d", d.GID))
	case j.Container == "podman": // without root it knows only the groups of its user
		fix = j.grantWith("--group-add keep-groups")
	}
	j.add(severity, "this user may not open "+list, detail, fix)
}
