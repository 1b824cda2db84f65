package loader

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// judge returns what follows from the facts of a report. It looks at nothing
// else, so that it can be done again when a fact is added.
func (r *Report) judge() []Finding {
	j := judge{Report: r, list: []Finding{}}
	linux := strings.HasPrefix(r.Platform, "linux/")
	if len(r.Candidates) == 0 || r.Library == nil && !shipped[r.Platform] {
		j.explain("NVIDIA ships no CUDA driver for "+r.Platform, "", "run the program on Linux or Windows, on a machine with an NVIDIA GPU")
	}
	// Causes before their effects.
	j.named()
	if j.Library != nil && j.Library.Simulated { // nothing else of the machine matters to it
		if j.failed() {
			why := initMeaning(j.Init.Code).text + "; the driver is simulated, and does what its environment says"
			j.add(Fault, "cuInit failed with "+j.Init.String(), why, "env | grep CUSIM_")
		}
		return j.list
	}
	if linux {
		j.wsl()
		j.hardware()
		j.container()
		j.glibc()
	}
	j.library()
	if linux {
		j.module()
		j.files()
	}
	j.hidden()
	j.init()
	j.notes()

	if j.initialised() {
		for i := range j.list { // it works, whatever this looks like
			if j.list[i].Severity == Fault {
				j.list[i].Severity = Warning
			}
		}
	}
	order := []Severity{Fault, Warning, Note}
	slices.SortStableFunc(j.list, func(a, b Finding) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
	return j.list
}

// judge is a report on its way to its findings.
type judge struct {
	*Report
	list []Finding
	// explained is set when it is known why there is no GPU, or no library, or
	// no device file here, so that what follows from it is not reported too.
	explained bool
}

func (j *judge) add(s Severity, title, detail, fix string) {
	j.list = append(j.list, Finding{s, title, detail, fix})
}

// explain adds a fault that explains all that is missing.
func (j *judge) explain(title, detail, fix string) {
	j.add(Fault, title, detail, fix)
	j.explained = true
}

// windows reports whether the report is of Windows, where no command is that of
// another system.
func (j *judge) windows() bool { return strings.HasPrefix(j.Platform, "windows/") }

// unset returns how to clear an environment variable.
func (j *judge) unset(name string) string {
	if j.windows() {
		return "Remove-Item Env:" + name + " # in PowerShell; in cmd: set " + name + "="
	}
	return "unset " + name
}

// slurm reports whether this is a job of Slurm's, which hands GPUs out.
func (j *judge) slurm() bool { return j.Environment["SLURM_JOB_ID"] != "" }

// elsewhere returns how to run the program where there is a GPU.
func (j *judge) elsewhere() string {
	if j.slurm() {
		return askSlurm
	}
	return "run the program on a machine with an NVIDIA GPU"
}

// askSlurm asks for a GPU.
const askSlurm = "srun --gres=gpu:1 PROGRAM"

// initialised and failed report what cuInit said, if that is known.
func (j *judge) initialised() bool { return j.Init != nil && j.Init.Code == 0 }
func (j *judge) failed() bool      { return j.Init != nil && j.Init.Code != 0 }

// suspect is the severity of what CUDA may well work with: it is a fault once
// CUDA is known not to.
func (j *judge) suspect() Severity {
	if j.failed() {
		return Fault
	}
	return Warning
}

// files with this prefix and a number behind it are GPUs.
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

// gpuOpens reports whether a GPU could be opened, so that its driver must be in
// order.
func (j *judge) gpuOpens() bool {
	return j.anyFile(func(d *DeviceFile) bool { return isGPU(d.Path) && d.Access == Granted })
}

// named judges a library that somebody asked for.
func (j *judge) named() {
	if j.explained || j.NamedBy == "" || j.Library != nil {
		return
	}
	c := j.Candidates[0]
	if c.Problem.ofGlibc() { // that has nothing to do with the library
		return
	}
	what := c.Name + " " + c.Problem.words()
	title := "the library that the program names cannot be used: " + what
	fix := "let the program name the driver's own library, or none, so that it is searched for"
	if j.NamedBy == "environment" {
		title = "the library that " + Environment + " names cannot be used: " + what
		fix = j.unset(Environment)
	}
	j.explain(title, c.Error, fix)
}

// words completes a sentence that begins with the name of a candidate.
func (p Problem) words() string {
	switch p {
	case Absent:
		return "does not exist"
	case Dangling:
		return "is a link that leads nowhere"
	case Unreachable:
		return "cannot be reached"
	case Stuck:
		return "does not finish loading"
	case Unreadable:
		return "may not be read"
	case NotALibrary:
		return "is no library"
	case WrongMachine:
		return "is for another machine"
	case Truncated:
		return "is cut short"
	case Unsafe:
		return "depends on the working directory"
	case NotADriver:
		return "is no CUDA driver"
	case Stub:
		return "is the CUDA toolkit's stub, for linking only"
	}
	return "could not be loaded"
}

// wsl judges what is particular to the Windows Subsystem for Linux, where the
// driver comes from Windows.
func (j *judge) wsl() {
	if !j.WSL || j.Container != "" {
		return
	}
	switch {
	case j.explained:
	case !j.present():
		j.explain("WSL has no GPU here", "there is no /dev/dxg: this is WSL 1, or a Windows that gives WSL no GPU", "wsl.exe --update # and then "+stopWSL)
	case j.Library == nil:
		j.explain("NVIDIA's driver is not installed in Windows", "Windows puts the driver's library into /usr/lib/wsl/lib, and there is none that could be loaded",
			"install NVIDIA's driver in Windows, then "+stopWSL)
	case !strings.HasPrefix(j.Library.Path, "/usr/lib/wsl/") && j.Library.Release != "":
		j.add(Fault, "a Linux driver is installed inside WSL, where it cannot work",
			j.Library.Path+" was taken; in WSL the driver is the one in /usr/lib/wsl/lib, which comes from Windows", j.remove(j.Library.Path))
	}
}

// stopWSL starts WSL anew. It is no command, for what it does to others.
const stopWSL = "stop all of WSL, this shell too: wsl.exe --shutdown"

// hardware judges whether there is a GPU, and whose it is.
func (j *judge) hardware() {
	if j.explained || j.WSL || j.Jetson || !j.PCIKnown || j.gpuOpens() {
		return
	}
	if len(j.GPUs) == 0 && j.Kernel.Loaded {
		j.explain("the GPU is gone from the PCI bus",
			"the kernel has NVIDIA's module, which loads only where there is a GPU, and none of the devices in /sys/bus/pci/devices is one: "+
				"it fell off the bus (the kernel's log has Xid 79 then), lost its power, or was taken out",
			j.onHost(kernelLog+" # and then switch the machine off and on again"))
		return
	}
	if len(j.GPUs) == 0 {
		if !j.anyFile(func(d *DeviceFile) bool { return isGPU(d.Path) && d.Access != Missing && d.Access != NoDriver }) {
			j.explain("this machine has no NVIDIA GPU", "none of the devices on the PCI bus (/sys/bus/pci/devices) is one", j.elsewhere())
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
		j.explain("the GPU is driven by nouveau, which has no CUDA", j.address()+" is bound to nouveau, in place of NVIDIA's module", j.onHost(j.withoutNouveau()))
	case all("vfio-pci"):
		j.explain("the GPU is set aside for virtual machines", j.address()+" is bound to vfio-pci", "run the program in the virtual machine that has the GPU")
	}
}

// address says where the first GPU is.
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
			detail += fmt.Sprintf("; NVIDIA_VISIBLE_DEVICES is %q, which only NVIDIA's container runtime heeds", visible)
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
		case "podman", "apptainer": // it does not keep their own ways from bringing the library
			return
		}
		j.explain("this container was started without the driver's CUDA library",
			fmt.Sprintf("NVIDIA_DRIVER_CAPABILITIES is %q, and compute is not in it", c), fix)
	}
}

// glibc judges whether a static program has something to load libraries with: if it
// has not, that is in its way whatever else is.
func (j *judge) glibc() {
	i := slices.IndexFunc(j.Candidates, func(c CandidateFacts) bool { return c.Problem.ofGlibc() })
	switch {
	case i < 0:
	case j.Candidates[i].Problem == GlibcFailed:
		j.explain(glibcFailedTitle, j.Candidates[i].Error, j.Candidates[i].Remedy)
	case j.OnlyMusl:
		j.explain(muslTitle, j.Candidates[i].Error, muslFix)
	case j.Container != "":
		j.explain(noGlibcTitle, j.Candidates[i].Error, "build the container's image from one with glibc, such as debian:stable-slim")
	default:
		j.explain(noGlibcTitle, j.Candidates[i].Error, muslFix)
	}
}

const (
	noGlibcTitle     = "this system has no glibc, and NVIDIA's driver needs it"
	glibcFailedTitle = "this system's glibc does not come up, and NVIDIA's driver needs it"
	muslTitle        = "NVIDIA makes no driver for musl, the C library of this system"
	muslFix          = "run the program on a distribution with glibc"
)

// library judges the candidates. Those that failed are faults if nothing else
// was found, and in the way of other programs if something was.
func (j *judge) library() {
	severity := Fault
	if j.Library != nil || j.explained {
		severity = Warning
	}
	var bad bool
	for _, c := range j.Candidates {
		if c.Problem == "" || c.Problem == Absent || c.Problem == Duplicate || c.Problem.ofGlibc() || j.NamedBy != "" {
			continue
		}
		where := c.Path
		if where == "" {
			where = c.Name
		}
		title, fix := j.unusable(c, where)
		if c.Element != "" {
			fix = j.withoutElement(c.Element)
		}
		if severity == Fault && c.Problem == Stub { // without it there would be nothing
			fix = j.obtain()
		}
		j.add(severity, title, c.Error, fix)
		bad = true
	}
	if j.Library != nil || j.explained || bad {
		return
	}
	switch {
	case j.windows():
		j.explain("NVIDIA's driver is not installed", "there is no "+j.Candidates[0].Name, j.install())
	case j.OnlyMusl:
		j.explain(muslTitle, "there is no glibc, and no driver library", muslFix)
	case j.Container != "":
		j.explain("this container has a GPU, but not the driver's libraries",
			"there are device files, and no libcuda.so.1 in any of the folders in which it could be", j.grant())
	case j.Jetson:
		j.explain("the driver's libraries are not installed", "there is no libcuda.so.1 in any of the folders in which it could be", "sudo apt install nvidia-l4t-cuda")
	case j.Kernel.Loaded:
		j.explain("the driver's libraries are not installed", "the kernel has NVIDIA's module, and there is no libcuda.so.1 in any of the folders in which it could be", j.install())
	default:
		detail := "there is neither a libcuda.so.1 nor NVIDIA's kernel module"
		if len(j.GPUs) > 0 {
			detail += ", for " + j.address()
		}
		j.explain("NVIDIA's driver is not installed", detail, j.install())
	}
}

// unusable says what is wrong with a candidate that failed, and what to do.
func (j *judge) unusable(c CandidateFacts, where string) (title, fix string) {
	if j.windows() {
		return where + " " + c.Problem.words(), "install NVIDIA's driver for Windows again"
	}
	switch c.Problem {
	case Stub:
		return where + " is the CUDA toolkit's stub, not the driver", j.withoutStub(where)
	case NotADriver:
		return where + " is something else than NVIDIA's driver", j.remove(where)
	case WrongMachine:
		return where + " is a library for another machine", j.obtain()
	case Dangling:
		return where + " is a link that leads nowhere", j.obtain()
	case Truncated, NotALibrary:
		if j.Container != "" { // what is mounted over it is not
			return where + " is damaged", j.grant()
		}
		return where + " is damaged", j.reinstall(where)
	case Unreadable:
		return where + " may not be read", "sudo chmod a+r " + quote(where)
	case Unreachable:
		return where + " cannot be reached", "namei -l " + quote(where) + " # shows which folder may not be searched; if all may be, its file system fails: sudo dmesg | tail"
	case Stuck:
		return where + " does not finish loading",
			"timeout 10 cat " + quote(where) + " | wc -c # if this ends at once, its file system is well, and the library is not: install it again"
	case Unsafe:
		absolute := j.searchPath(func(e string) bool { return !strings.HasPrefix(e, "/") })
		return "LD_LIBRARY_PATH leads to the working directory", exportSearchPath(absolute)
	}
	if strings.HasPrefix(where, "/") {
		return where + " cannot be loaded", "install what it lacks: ldd " + quote(where)
	}
	return where + " cannot be loaded", "install NVIDIA's driver again"
}

// module judges the driver's part in the kernel.
func (j *judge) module() {
	if j.WSL || j.Jetson {
		return
	}
	if !j.explained && !j.initialised() && len(j.GPUs) > 0 && !j.gpuOpens() &&
		!slices.ContainsFunc(j.GPUs, func(g PCIDevice) bool { return g.Driver == "nvidia" }) {
		if j.Kernel.Loaded {
			j.explain("NVIDIA's kernel module does not drive the GPU",
				"the module is loaded, and "+j.address()+" is not bound to it: the module may be too old or too new for this GPU, or of the wrong flavor", j.onHost(kernelLog))
		} else {
			j.explain("NVIDIA's kernel module is not loaded",
				"there is a GPU, and no /sys/module/nvidia. If loading it fails, it was not built for this kernel, as happens after the kernel was updated "+
					"(see dkms status), or Secure Boot refuses it (see mokutil --sb-state)", j.onHost("sudo modprobe nvidia"))
		}
	}
	if l := j.Library; l != nil && l.Release != "" && j.Kernel.Release != "" && l.Release != j.Kernel.Release && !j.compatible() {
		detail := fmt.Sprintf("%s is of version %s, and the kernel's module of %s: one of the two was updated and the other is still in use", l.Path, l.Release, j.Kernel.Release)
		fix := reboot
		if j.Container != "" {
			fix = j.restart()
		}
		j.add(Fault, "the driver's library and its kernel module are of different versions", detail, fix)
	}
}

// compatible reports whether the library is meant for the module of another
// version.
func (j *judge) compatible() bool {
	return j.Library != nil && strings.Contains(path.Dir(j.Library.Path), "compat")
}

// reboot restarts the machine. It is no command, for what it does to others.
const reboot = "restart the machine: sudo reboot"

// thenReboot comes behind a command.
const thenReboot = " # and then " + reboot

// jetsonModule loads the module for a Jetson's built-in GPU.
const jetsonModule = "sudo modprobe nvgpu"

// kernelLog shows what the driver had to say.
const kernelLog = "sudo dmesg | grep -e NVRM -e Xid"

// files judges the device files.
func (j *judge) files() {
	if j.explained {
		return
	}
	// CUDA does without those of which there are others, and those for displays
	// and tools. A GPU of several that is broken can be in the others' way, and so
	// can anything on a Jetson, where the files for GPUs may be the display's.
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

// inaccessible adds what follows from device files that cannot be opened.
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
			j.add(severity, "there is no GPU behind "+list, "the kernel's module is loaded, and opening fails: "+first.Error, j.onHost(kernelLog))
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
		j.add(severity, title, "opening "+list+" fails: "+first.Error+"; the kernel's log says why", j.onHost(kernelLog))
	case Forbidden:
		detail := "the permissions of " + list + " allow it, and opening fails: " + first.Error + "; "
		switch {
		case j.slurm():
			j.add(severity, "this job was not given a GPU", detail+"the job has no right to it", askSlurm)
		case j.Container != "":
			j.add(severity, "this container has lost its right to use the GPU",
				detail+"systemctl daemon-reload on the host takes such rights from containers that are running", j.restart())
		default:
			j.add(severity, "this process has no right to use the GPU", detail+"the unit that systemd runs it in needs one",
				`sudo systemctl set-property UNIT "DeviceAllow=char-nvidia* rw"`)
		}
	case Denied:
		j.denied(severity, list, first)
	case Missing:
		switch {
		case j.initialised(): // which created them, or does without
		case j.Jetson:
			j.add(severity, "there is no "+list, "the kernel's module for the built-in GPU creates it", j.onHost(jetsonModule))
		case j.Container != "":
			j.add(severity, "this container was given only a part of the device files", "there is no "+list, j.grant())
		case j.Kernel.Helper && j.Init == nil:
			j.add(Note, "the driver will create "+list, "nothing has used the GPU since the machine was started, and nvidia-modprobe is installed", "")
		case uvm:
			j.add(severity, "there is no "+list, "CUDA needs the kernel's module nvidia-uvm, which other users of the GPU do without"+j.helper(),
				j.withHelper("sudo nvidia-modprobe -u -c 0"))
		default:
			j.add(severity, "there is no "+list, "nobody has created these device files since the machine was started"+j.helper(), j.createFiles())
		}
	default:
		j.add(severity, "opening "+list+" fails", first.Error, j.onHost(kernelLog))
	}
}

// helper says why the driver does not create device files for this user.
func (j *judge) helper() string {
	switch {
	case !j.Kernel.HelperInstalled:
		return "; the driver does it with nvidia-modprobe, which is not installed"
	case !j.Kernel.Helper:
		return "; the driver does it with nvidia-modprobe, which is installed without the right to (it is not setuid root)"
	}
	return ""
}

// withHelper returns how to run a command of nvidia-modprobe.
func (j *judge) withHelper(command string) string {
	switch {
	case j.Kernel.HelperInstalled:
		return command
	case j.is("debian", "ubuntu"):
		return "sudo apt install nvidia-modprobe && " + command
	case j.is("rhel", "fedora"):
		return "sudo dnf install nvidia-modprobe && " + command
	}
	return "install nvidia-modprobe, then: " + command
}

// denied adds what follows from device files whose permissions, or those of a
// security module, do not let this user in.
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
			fix = "let every container use devices, as far as SELinux goes, on the host: sudo setsebool -P container_use_devices 1"
		}
		j.add(severity, "a security policy keeps this process from opening "+list, detail+": the permissions allow it", fix)
		return
	}
	fix := j.onHost("sudo chmod a+rw " + strings.ReplaceAll(list, ",", "") + " # for every user, until the machine is restarted")
	switch {
	case !allows(4) || d.GID == 0:
	case j.Container == "" && d.Group != "":
		fix = "sudo usermod -aG " + d.Group + ` "$USER" # adds you to the group, from your next login on`
	case j.Container == "docker":
		fix = j.grantWith(fmt.Sprintf("--group-add %d", d.GID))
	case j.Container == "podman": // without root it knows no other groups than its user's
		fix = j.grantWith("--group-add keep-groups")
	}
	j.add(severity, "this user may not open "+list, detail, fix)
}

// hidden judges CUDA_VISIBLE_DEVICES.
func (j *judge) hidden() {
	v, set := j.Environment["CUDA_VISIBLE_DEVICES"]
	if !set {
		return
	}
	// The driver takes the entries up to the first that is wrong.
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
		why = fmt.Sprintf("%s is no GPU's number, and the driver reads no further", first)
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

// show returns how to undo what CUDA_VISIBLE_DEVICES hides. It is never unset
// where somebody else hands GPUs out by it.
func (j *judge) show() string {
	switch {
	case j.slurm():
		return askSlurm
	case j.Container == "kubernetes":
		return "take CUDA_VISIBLE_DEVICES out of the pod's spec, and of its image; " + j.grant()
	}
	return j.unset("CUDA_VISIBLE_DEVICES")
}

// init judges what cuInit returned. If it failed and the facts say why, it is
// in agreement with them; if not, its own meaning is all there is.
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

// meaning is what a result of cuInit means.
type meaning struct{ name, text string }

// The results of cuInit that say something of the machine.
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

// initMeaning returns what cuInit means by a result.
func initMeaning(code int32) meaning {
	switch code {
	case 0:
		return meaning{"CUDA_SUCCESS", ""}
	case initNotInitialized:
		return meaning{"CUDA_ERROR_NOT_INITIALIZED", "the driver could not set a GPU up: its device files or its memory are not accessible, or the process was forked from one that uses CUDA"}
	case initStub:
		return meaning{"CUDA_ERROR_STUB_LIBRARY", "the library is the CUDA toolkit's stub, which is for linking only"}
	case initDeviceUnavailable:
		return meaning{"CUDA_ERROR_DEVICE_UNAVAILABLE", "the GPU is in a mode in which only one process, or none, may use it"}
	case initNoDevice:
		return meaning{"CUDA_ERROR_NO_DEVICE", "the driver sees no GPU that it may use"}
	case initInvalidDevice:
		return meaning{"CUDA_ERROR_INVALID_DEVICE", "one of the GPUs that the driver was given to use is not one for it: by CUDA_VISIBLE_DEVICES, or because of the mode that it is in"}
	case initNotSupported:
		return meaning{"CUDA_ERROR_NOT_SUPPORTED", "the library does not support this GPU or this system: it may be another kind's, such as a server's on a Jetson"}
	case initNotReady:
		return meaning{"CUDA_ERROR_SYSTEM_NOT_READY", "the GPUs are connected by NVSwitch, and the service that sets it up, the fabric manager, is not running or not done; or, in confidential computing, the GPUs have not been set ready"}
	case initMismatch:
		return meaning{"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "the library and the kernel's module are of versions that do not go together"}
	case initNoCompat:
		return meaning{"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "the library is newer than the kernel's module, and forward compatibility is for data center GPUs only"}
	case initUnknown:
		return meaning{"CUDA_ERROR_UNKNOWN", "the driver does not say; often nvidia-uvm is not loaded, or does not work any more after the machine has slept"}
	}
	return meaning{"", "this package does not know the code"}
}

// initFix returns what to do if cuInit failed and the facts do not say why.
func (j *judge) initFix() string {
	if j.windows() {
		switch {
		case j.Init.Code == initDeviceUnavailable:
			return "nvidia-smi # shows who uses the GPU"
		case j.Init.Code == initInvalidDevice && j.Environment["CUDA_VISIBLE_DEVICES"] != "":
			return j.show()
		}
		return "start Windows anew; if that does not help, install NVIDIA's driver for Windows again"
	}
	switch j.Init.Code {
	case initStub:
		return j.discard()
	case initDeviceUnavailable:
		return j.onHost("nvidia-smi # shows who uses the GPU; to let several use it at a time: sudo nvidia-smi --compute-mode=DEFAULT")
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

// notes adds what is good to know.
func (j *judge) notes() {
	if j.EnvironmentIgnored {
		j.add(Warning, Environment+" is ignored", "this program has rights that its user lacks, or keeps from its user what it is, so that its user must not choose what code it loads", j.unset(Environment))
	}
	if j.compatible() {
		j.add(Note, "the library is that of the CUDA toolkit's package for forward compatibility", j.Library.Path+"; it works on data center GPUs and some Jetsons", "")
	}
	if j.Kernel.Nouveau && j.Kernel.Loaded {
		j.add(Note, "nouveau is loaded beside NVIDIA's module", "which of the two gets a GPU depends on which is loaded first", "")
	}
}

// is reports whether the distribution is one of these, or like one of them.
func (j *judge) is(ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(j.DistributionIDs, id) })
}

// install returns how to install the driver.
func (j *judge) install() string {
	switch {
	case j.windows():
		return "install NVIDIA's driver for Windows"
	case j.Jetson:
		return "sudo apt install --reinstall nvidia-l4t-cuda"
	case j.is("ubuntu"):
		return "sudo ubuntu-drivers install" + thenReboot
	case j.is("debian"):
		return "sudo apt install nvidia-driver # from contrib and non-free, which /etc/apt has to name; and then " + reboot
	case j.is("arch"):
		return "sudo pacman -S nvidia-open" + thenReboot
	case j.is("nixos"):
		return `put services.xserver.videoDrivers = [ "nvidia" ]; into configuration.nix, then: sudo nixos-rebuild boot` + thenReboot
	}
	return "install NVIDIA's driver the way this distribution does it, then " + reboot
}

// obtain returns how to come by the driver's libraries.
func (j *judge) obtain() string {
	if j.Container != "" {
		return j.grant()
	}
	return j.install()
}

// reinstall returns how to install the package that a file belongs to again.
func (j *judge) reinstall(file string) string {
	switch {
	case j.is("debian", "ubuntu"):
		return `sudo apt install --reinstall "$(dpkg -S ` + quote(file) + ` | cut -d: -f1)"`
	case j.is("rhel", "fedora"):
		return `sudo dnf reinstall "$(rpm -qf ` + quote(file) + `)"`
	case j.is("suse", "opensuse"):
		return `sudo zypper install --force "$(rpm -qf ` + quote(file) + `)"`
	case j.is("arch"):
		return `sudo pacman -S "$(pacman -Qqo ` + quote(file) + `)"`
	}
	return "install the package again that " + file + " belongs to"
}

// remove returns how to get rid of a library that is in the driver's place. That
// is no command: what else goes with it should be seen before.
func (j *judge) remove(file string) string {
	switch {
	case j.is("debian", "ubuntu"):
		return "remove the package that " + file + " belongs to; find it with: dpkg -S " + quote(file)
	case j.is("rhel", "fedora", "suse", "opensuse"):
		return "remove the package that " + file + " belongs to; find it with: rpm -qf " + quote(file)
	}
	return "remove " + file + " from where programs look for the driver"
}

// withoutStub returns how to keep the system's loader from a stub that it finds
// without LD_LIBRARY_PATH. The toolkit's own, which linking needs, stays.
func (j *judge) withoutStub(file string) string {
	folder := path.Dir(file)
	if path.Base(folder) != "stubs" {
		return "remove " + file + " from where programs look for the driver"
	}
	return "take " + folder + " out of the files in /etc/ld.so.conf.d, then: sudo ldconfig"
}

// discard returns how to get rid of the library that was taken.
func (j *judge) discard() string {
	for _, c := range j.Candidates {
		if c.Problem == "" && c.Element != "" {
			return j.withoutElement(c.Element)
		}
	}
	switch {
	case j.Library == nil:
		return j.obtain()
	case j.Init != nil && j.Init.Code == initStub:
		return j.withoutStub(j.Library.Path)
	}
	return j.remove(j.Library.Path)
}

// withoutNouveau returns how to keep nouveau from taking the GPU.
func (j *judge) withoutNouveau() string {
	step := ""
	switch {
	case j.is("debian", "ubuntu"):
		step = " && sudo update-initramfs -u"
	case j.is("rhel", "fedora", "suse", "opensuse"):
		step = " && sudo dracut --force"
	}
	return "echo blacklist nouveau | sudo tee /etc/modprobe.d/no-nouveau.conf" + step + thenReboot
}

// createFiles returns how to create the device files; 255 is /dev/nvidiactl.
func (j *judge) createFiles() string {
	fix := "sudo nvidia-modprobe -c 255"
	for i := range max(1, len(j.GPUs)) {
		fix += fmt.Sprintf(" -c %d", i)
	}
	return j.withHelper(fix + " && sudo nvidia-modprobe -u -c 0")
}

// onHost returns a command that has to be given outside the container.
func (j *judge) onHost(command string) string {
	if j.Container == "" {
		return command
	}
	return "on the host: " + command
}

// grant returns how to start the container with GPUs.
func (j *judge) grant() string {
	switch j.Container {
	case "kubernetes":
		return `add to the container's spec: resources: {limits: {nvidia.com/gpu: 1}}`
	case "podman":
		return "podman run --device nvidia.com/gpu=all IMAGE"
	case "apptainer":
		return "apptainer exec --nv IMAGE PROGRAM"
	case "lxd":
		return "on the host: lxc config device add CONTAINER gpu gpu && lxc config set CONTAINER nvidia.runtime=true # and then restart it"
	case "incus":
		return "on the host: incus config device add CONTAINER gpu gpu && incus config set CONTAINER nvidia.runtime=true # and then restart it"
	case "lxc":
		return "on the host, add NVIDIA's device files to the container's configuration (lxc.mount.entry and lxc.cgroup2.devices.allow, or Proxmox's " +
			"pct set ID --dev0 /dev/nvidia0 and so on), and install the host's version of the driver's libraries in the container"
	case "docker":
		if j.Jetson {
			return "docker run --runtime nvidia IMAGE"
		}
		return "docker run --gpus all IMAGE"
	}
	return "start the container with NVIDIA's device files and the driver's libraries, the way its runtime does it"
}

// grantWith returns how to start the container with GPUs and another flag.
func (j *judge) grantWith(flag string) string {
	return strings.Replace(j.grant(), "IMAGE", flag+" IMAGE", 1)
}

// restart returns how to start the container again.
func (j *judge) restart() string {
	const again = "start the container again, which ends what runs in it"
	switch j.Container {
	case "kubernetes":
		return "let the pod be made anew, which ends what runs in it: kubectl delete pod POD"
	case "podman":
		return again + ": podman restart CONTAINER"
	case "docker":
		return again + ": docker restart CONTAINER"
	}
	return again
}

// searchPath returns LD_LIBRARY_PATH without those elements for which drop is
// true.
func (j *judge) searchPath(drop func(element string) bool) string {
	return strings.Join(slices.DeleteFunc(splitSearchPath(j.Environment["LD_LIBRARY_PATH"]), drop), ":")
}

// withoutElement returns how to take an element out of LD_LIBRARY_PATH.
func (j *judge) withoutElement(element string) string {
	return exportSearchPath(j.searchPath(func(e string) bool { return e == element }))
}

// exportSearchPath returns how to set LD_LIBRARY_PATH.
func exportSearchPath(v string) string {
	if v == "" {
		return "unset LD_LIBRARY_PATH"
	}
	return "export LD_LIBRARY_PATH=" + quote(v)
}

// quote returns s the way a shell takes it for one word.
func quote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%="
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
