package loader

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/purecu/purecu/internal/initresult"
)

// This file has the remedies. A remedy is a command for a shell, with # before explanations. It is
// a sentence instead where a command would affect other programs or needs a decision.

// windows reports whether the report is of Windows, where the commands of other systems do not
// exist.
func (j *judge) windows() bool { return strings.HasPrefix(j.Platform, "windows/") }

// is reports whether the distribution is one of these, or like one of them.
func (j *judge) is(ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(j.DistributionIDs, id) })
}

// slurm reports whether the program is a job of Slurm, which assigns GPUs to jobs.
func (j *judge) slurm() bool { return j.Environment["SLURM_JOB_ID"] != "" }

// askSlurm runs a program with a GPU of Slurm's.
const askSlurm = "srun --gres=gpu:1 PROGRAM"

// elsewhere returns how to run the program where there is a GPU.
func (j *judge) elsewhere() string {
	if j.slurm() {
		return askSlurm
	}
	return "run the program on a machine with an NVIDIA GPU"
}

// unset returns how to clear an environment variable.
func (j *judge) unset(name string) string {
	if j.windows() {
		return "Remove-Item Env:" + name + " # in PowerShell; in cmd: set " + name + "="
	}
	return "unset " + name
}

// reboot restarts the machine. It is a sentence, because it also ends other programs.
const reboot = "restart the machine: sudo reboot"

// thenReboot follows a command.
const thenReboot = " # and then " + reboot

// jetsonModule loads the module for the built-in GPU of a Jetson.
const jetsonModule = "sudo modprobe nvgpu"

// onHost returns a command that has to run outside the container.
func (j *judge) onHost(command string) string {
	if j.Container == "" {
		return command
	}
	return "on the host: " + command
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
		return "sudo apt install nvidia-driver # from contrib and non-free, which /etc/apt has to name; and then " +
			reboot
	case j.is("arch"):
		return "sudo pacman -S nvidia-open" + thenReboot
	case j.is("nixos"):
		return `put services.xserver.videoDrivers = [ "nvidia" ]; into configuration.nix, then: ` +
			"sudo nixos-rebuild boot" + thenReboot
	}
	return "install NVIDIA's driver the way this distribution does it, then " + reboot
}

// obtain returns how to get the driver's libraries.
func (j *judge) obtain() string {
	if j.Container != "" {
		return j.grant()
	}
	return j.install()
}

// reinstall returns how to install the package of a file again.
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

// remove returns how to remove a library that programs find instead of the driver's. It is a
// sentence, because one should see first what else belongs to the package.
func (j *judge) remove(file string) string {
	switch {
	case j.is("debian", "ubuntu"):
		return "remove the package that " + file + " belongs to; find it with: dpkg -S " + quote(file)
	case j.is("rhel", "fedora", "suse", "opensuse"):
		return "remove the package that " + file + " belongs to; find it with: rpm -qf " + quote(file)
	}
	return "remove " + file + " from where programs look for the driver"
}

// withoutStub returns how to keep the system's loader from a stub that it finds without
// LD_LIBRARY_PATH. The stub itself stays if it is the toolkit's own, because linking needs it.
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
	case j.Init != nil && j.Init.Code == initresult.StubLibrary:
		return j.withoutStub(j.Library.Path)
	}
	return j.remove(j.Library.Path)
}

// withoutNouveau returns how to keep nouveau from binding the GPU.
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

// createFiles returns how to create the device files. Number 255 is /dev/nvidiactl.
func (j *judge) createFiles() string {
	fix := "sudo nvidia-modprobe -c 255"
	for i := range max(1, len(j.GPUs)) {
		fix += fmt.Sprintf(" -c %d", i)
	}
	return j.withHelper(fix + " && sudo nvidia-modprobe -u -c 0")
}

// withHelper returns how to run a command of nvidia-modprobe, and how to install that first.
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
		return "on the host: lxc config device add CONTAINER gpu gpu && lxc config set CONTAINER nvidia.runtime=true " +
			"# and then restart it"
	case "incus":
		return "on the host: incus config device add CONTAINER gpu gpu && incus config set CONTAINER " +
			"nvidia.runtime=true # and then restart it"
	case "lxc":
		return "on the host, add NVIDIA's device files to the container's configuration (lxc.mount.entry and " +
			"lxc.cgroup2.devices.allow, or Proxmox's pct set ID --dev0 /dev/nvidia0 and so on), and install the " +
			"host's version of the driver's libraries in the container"
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
		return "recreate the pod, which ends what runs in it: kubectl delete pod POD"
	case "podman":
		return again + ": podman restart CONTAINER"
	case "docker":
		return again + ": docker restart CONTAINER"
	}
	return again
}

// searchPath returns LD_LIBRARY_PATH without the elements for which drop is true.
func (j *judge) searchPath(drop func(element string) bool) string {
	return strings.Join(slices.DeleteFunc(splitSearchPath(j.Environment["LD_LIBRARY_PATH"]), drop), ":")
}

// withoutElement returns how to remove an element from LD_LIBRARY_PATH.
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

// quote returns s as one word of a shell.
func quote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,@%="
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
