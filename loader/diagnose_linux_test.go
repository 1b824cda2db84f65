package loader

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/internal/ccall"
)

// titles returns the titles of findings with their severities.
func titles(findings []Finding) []string {
	var list []string
	for _, f := range findings {
		list = append(list, string(f.Severity)+": "+f.Title)
	}
	return list
}

// checkFindings checks what is true of all findings.
func checkFindings(t *testing.T, r *Report) {
	t.Helper()
	order := []Severity{Fault, Warning, Note}
	rank := 0
	for _, f := range r.Findings {
		i := slices.Index(order, f.Severity)
		if i < rank {
			t.Errorf("out of order: %q", titles(r.Findings))
		}
		rank = i
		if f.Title == "" || f.Severity != Note && f.Fix == "" {
			t.Errorf("it says too little: %+v", f)
		}
	}
	if v := r.Verdict(); v.Title == "" || v.Severity == Fault && v.Fix == "" {
		t.Errorf("the verdict says too little: %+v", v)
	}
}

// TestDiagnose checks the findings about machines with all kinds of faults.
func TestDiagnose(t *testing.T) {
	const nothingWrong = "no fault was found"
	debianLib := "/usr/lib/" + triplet(runtime.GOARCH)
	libraries := all(installed(debianLib), cached(debianLib))
	for _, tt := range []struct {
		name  string
		parts []part
		path  string // that the program names
		title string // of the verdict
		fix   string
		rest  []string // the titles of all other findings
	}{
		{name: "healthy", parts: []part{libraries, gpu()}, title: nothingWrong},
		{name: "healthy, in a container", parts: []part{docker, libraries, gpu()}, title: nothingWrong},
		{name: "healthy, with two GPUs, one of them permitted", parts: []part{
			libraries, pci("nvidia", "nvidia"), modules(release), nodes("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"), opening("/dev/nvidia0", syscall.EPERM),
		}, title: nothingWrong},
		{name: "healthy, and one GPU passed through", parts: []part{libraries, pci("nvidia", "vfio-pci"), modules(release), nodes("nvidia0", "nvidiactl", "nvidia-uvm")}, title: nothingWrong},
		{name: "healthy, in a sandbox without a kernel of its own", parts: []part{docker, libraries, nodes("nvidia0", "nvidiactl", "nvidia-uvm")}, title: nothingWrong},
		{name: "healthy, in spite of the bus", parts: []part{libraries, pci("vfio-pci"), nodes("nvidia0", "nvidiactl", "nvidia-uvm")}, title: nothingWrong},
		{name: "healthy, on Jetson", parts: []part{jetson, libraries, nodes("nvmap", "nvhost-ctrl-gpu")}, title: nothingWrong},
		{name: "healthy, on WSL", parts: []part{wsl, nodes("dxg"), library("/usr/lib/wsl/lib/libcuda.so.1", real)}, title: nothingWrong},
		{
			name: "healthy, and compatible", parts: []part{installed("/usr/local/cuda/compat"), pci("nvidia"), modules("535.261.03"), nodes("nvidia0", "nvidiactl", "nvidia-uvm")},
			title: nothingWrong, rest: []string{"note: the library is that of the CUDA toolkit's package for forward compatibility"},
		},

		// There is no GPU.
		{name: "no GPU and no driver", parts: []part{pci()}, title: "this machine has no NVIDIA GPU", fix: "run the program on a machine with an NVIDIA GPU"},
		{name: "no GPU, and a driver", parts: []part{pci(), libraries}, title: "this machine has no NVIDIA GPU", fix: "run the program on a machine with an NVIDIA GPU"},
		{name: "no GPU, and a file that was left", parts: []part{pci(), nodes("nvidia0", "nvidiactl"), opening("/dev/nvidia0", syscall.ENXIO), opening("/dev/nvidiactl", syscall.ENXIO)},
			title: "this machine has no NVIDIA GPU", fix: "run the program on a machine with an NVIDIA GPU"},
		{name: "no GPU, in a container", parts: []part{pci(), docker}, title: "this machine has no NVIDIA GPU", fix: "run the program on a machine with an NVIDIA GPU"},
		{
			name: "no GPU, and a stub", parts: []part{pci(), with("LD_LIBRARY_PATH", "/opt/stubs"), library("/opt/stubs/libcuda.so.1", stub)},
			title: "this machine has no NVIDIA GPU", fix: "run the program on a machine with an NVIDIA GPU",
			rest: []string{"warning: /opt/stubs/libcuda.so.1 is the CUDA toolkit's stub, not the driver"},
		},

		// Another driver is bound to the GPU.
		{
			name: "nouveau", parts: []part{debian, libraries, pci("nouveau"), folder("/sys/module/nouveau")},
			title: "the GPU is driven by nouveau, which has no CUDA",
			fix:   "echo blacklist nouveau | sudo tee /etc/modprobe.d/no-nouveau.conf && sudo update-initramfs -u # and then restart the machine: sudo reboot",
		},
		{
			name: "nouveau, on Fedora", parts: []part{distribution("fedora", ""), libraries, pci("nouveau")},
			title: "the GPU is driven by nouveau, which has no CUDA",
			fix:   "echo blacklist nouveau | sudo tee /etc/modprobe.d/no-nouveau.conf && sudo dracut --force # and then restart the machine: sudo reboot",
		},
		{
			name: "nouveau, and no driver", parts: []part{ubuntu, pci("nouveau"), folder("/sys/module/nouveau")},
			title: "the GPU is driven by nouveau, which has no CUDA, and NVIDIA's driver is not installed",
			fix:   "sudo ubuntu-drivers install # and then restart the machine: sudo reboot",
		},
		{name: "passed through", parts: []part{libraries, pci("vfio-pci")}, title: "the GPU is reserved for virtual machines", fix: "run the program in the virtual machine that has the GPU"},

		// The driver is missing or damaged.
		{name: "no driver", parts: []part{debian, pci("")}, title: "NVIDIA's driver is not installed", fix: "sudo apt install nvidia-driver # from contrib and non-free, which /etc/apt has to name; and then restart the machine: sudo reboot"},
		{name: "no driver, on another system", parts: []part{pci("")}, title: "NVIDIA's driver is not installed", fix: "install NVIDIA's driver the way this distribution does it, then restart the machine: sudo reboot"},
		{name: "no driver, and nothing is known", title: "NVIDIA's driver is not installed", fix: "install NVIDIA's driver the way this distribution does it, then restart the machine: sudo reboot"},
		{name: "no libraries", parts: []part{distribution("arch", ""), gpu()}, title: "the driver's libraries are not installed", fix: "sudo pacman -S nvidia-open # and then restart the machine: sudo reboot"},
		{name: "no libraries, on Jetson", parts: []part{jetson, ubuntu, nodes("nvmap")}, title: "the driver's libraries are not installed", fix: "sudo apt install nvidia-l4t-cuda"},
		{name: "musl", parts: []part{pci("nvidia"), file("/lib/ld-musl-x86_64.so.1", ""), file("/lib/ld-linux-x86-64.so.2", "")},
			title: "NVIDIA makes no driver for musl, the C library of this system", fix: "run the program on a distribution with glibc"},
		{name: "musl beside glibc", parts: []part{debian, pci(""), file("/lib/ld-musl-x86_64.so.1", ""), file(debianLib+"/libc.so.6", "")},
			title: "NVIDIA's driver is not installed", fix: "sudo apt install nvidia-driver # from contrib and non-free, which /etc/apt has to name; and then restart the machine: sudo reboot"},
		{name: "static, and no glibc", parts: []part{gpu(), noGlibc("none")}, title: noGlibcTitle, fix: "run the program on a distribution with glibc"},
		{name: "static, and a glibc that fails", parts: []part{libraries, gpu(), glibcFailed(syscall.EMFILE)}, title: glibcFailedTitle,
			fix: "allow the process more open files: see ulimit -n"},
		{name: "static, and a glibc that fails, with a library that is named, and no GPU", parts: []part{libraries, pci(), glibcFailed(syscall.EMFILE)},
			path: debianLib + "/libcuda.so.1", title: glibcFailedTitle, fix: "allow the process more open files: see ulimit -n"},
		{name: "static, and no glibc, with a library", parts: []part{libraries, gpu(), noGlibc("none")}, title: noGlibcTitle, fix: "run the program on a distribution with glibc"},
		{name: "static, and no glibc, with a library that is named", parts: []part{libraries, gpu(), noGlibc("none")}, path: debianLib + "/libcuda.so.1",
			title: noGlibcTitle, fix: "run the program on a distribution with glibc"},
		{name: "static, and no glibc, in a container", parts: []part{docker, nodes("nvidia0", "nvidiactl", "nvidia-uvm"), noGlibc("none")},
			title: noGlibcTitle, fix: "build the container's image from one with glibc, such as debian:stable-slim"},
		{name: "static, and no glibc, in a container without GPUs", parts: []part{docker, noGlibc("none")},
			title: "this container was started without GPUs", fix: "docker run --gpus all IMAGE", rest: []string{"fault: " + noGlibcTitle}},
		{name: "static, and musl", parts: []part{gpu(), file("/lib/ld-musl-x86_64.so.1", ""), noGlibc("it has musl")}, title: muslTitle, fix: "run the program on a distribution with glibc"},
		{name: "the module is not loaded", parts: []part{libraries, pci("")}, title: "NVIDIA's kernel module is not loaded", fix: "sudo modprobe nvidia"},
		{name: "the module is not loaded, seen from a container", parts: []part{docker, libraries, pci(""), nodes("nvidia0", "nvidiactl"), opening("/dev/nvidia0", syscall.ENXIO), opening("/dev/nvidiactl", syscall.ENXIO)},
			title: "NVIDIA's kernel module is not loaded", fix: "on the host: sudo modprobe nvidia"},
		{
			name: "the module is not seen in /sys", parts: []part{libraries, pci(""), file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  "+release+"  x\n")},
			title: "NVIDIA's kernel module does not drive the GPU", fix: kernelLog,
		},
		{name: "the module does not take the GPU", parts: []part{libraries, pci(""), modules(release)}, title: "NVIDIA's kernel module does not drive the GPU", fix: kernelLog},
		{
			name: "the module was updated and not loaded", parts: []part{libraries, pci("nvidia"), modules("535.261.03"), nodes("nvidia0", "nvidiactl", "nvidia-uvm")},
			title: "the driver's library and its kernel module are of different versions", fix: "restart the machine: sudo reboot",
		},
		{
			name: "the host was updated under a container", parts: []part{docker, libraries, pci("nvidia"), modules("535.261.03"), nodes("nvidia0", "nvidiactl", "nvidia-uvm")},
			title: "the driver's library and its kernel module are of different versions", fix: "start the container again, which ends what runs in it: docker restart CONTAINER",
		},
		{
			name: "both drivers", parts: []part{libraries, gpu(), folder("/sys/module/nouveau")},
			title: nothingWrong, rest: []string{"note: nouveau is loaded beside NVIDIA's module"},
		},

		{
			name: "a GPU that is gone from the bus", parts: []part{
				libraries, pci(), modules(release), nodes("nvidia0", "nvidiactl", "nvidia-uvm"), opening("/dev/nvidia0", syscall.EIO),
			},
			title: "the GPU is no longer on the PCI bus", fix: kernelLog + " # and then switch the machine off and on again",
		},
		{
			name: "a GPU that is gone from the bus, seen from a container", parts: []part{docker, libraries, pci(), modules(release), nodes("nvidiactl")},
			title: "the GPU is no longer on the PCI bus", fix: "on the host: " + kernelLog + " # and then switch the machine off and on again",
		},
		{
			name: "one GPU of two is broken", parts: []part{
				libraries, pci("nvidia", "nvidia"), modules(release), nodes("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"), opening("/dev/nvidia1", syscall.EIO),
			},
			title: nothingWrong, rest: []string{"warning: /dev/nvidia1 does not answer"},
		},
		{
			name: "one GPU of two is gone", parts: []part{
				libraries, pci("nvidia", "nvidia"), modules(release), nodes("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"), opening("/dev/nvidia1", syscall.ENODEV),
			},
			title: nothingWrong, rest: []string{"warning: there is no GPU behind /dev/nvidia1"},
		},
		{
			name: "no driver, and a job of Slurm", parts: []part{with("SLURM_JOB_ID", "1"), pci()},
			title: "this machine has no NVIDIA GPU", fix: askSlurm,
		},
		{
			name: "on Jetson, a user who is not in the group", parts: []part{
				jetson, libraries, nodes("nvmap", "nvhost-ctrl-gpu", "nvidia0", "nvidiactl"), mode("/dev/nvmap", 0o600), opening("/dev/nvmap", syscall.EACCES),
			},
			title: nothingWrong, rest: []string{"warning: this user may not open /dev/nvmap"},
		},
		{
			name: "conda's package for forward compatibility", parts: []part{
				with("LD_LIBRARY_PATH", "/opt/conda/cuda-compat"), installed("/opt/conda/cuda-compat"), pci("nvidia"), modules("535.261.03"),
				nodes("nvidia0", "nvidiactl", "nvidia-uvm"),
			},
			title: nothingWrong, rest: []string{"note: the library is that of the CUDA toolkit's package for forward compatibility"},
		},

		// Some candidates cannot be used.
		{
			name: "a stub by ldconfig", parts: []part{
				ubuntu, library("/usr/local/cuda/lib64/stubs/libcuda.so.1", stub), installed("/opt/driver"), cached("/usr/local/cuda/lib64/stubs", "/opt/driver"), gpu(),
			},
			title: nothingWrong, rest: []string{"warning: /usr/local/cuda/lib64/stubs/libcuda.so.1 is the CUDA toolkit's stub, not the driver"},
		},
		{
			name: "a stub in front", parts: []part{with("LD_LIBRARY_PATH", "/a:/opt/stubs:/b c"), library("/opt/stubs/libcuda.so.1", stub), libraries, gpu()},
			title: nothingWrong, rest: []string{"warning: /opt/stubs/libcuda.so.1 is the CUDA toolkit's stub, not the driver"},
		},
		{
			name: "only a stub", parts: []part{ubuntu, with("LD_LIBRARY_PATH", "/opt/lib"), library("/opt/lib/libcuda.so.1", stub), gpu()},
			title: "/opt/lib/libcuda.so.1 is the CUDA toolkit's stub, not the driver", fix: "sudo ubuntu-drivers install # and then restart the machine: sudo reboot",
		},
		{
			name: "only a truncated library", parts: []part{debian, library(debianLib+"/libcuda.so."+release, truncated), link(debianLib+"/libcuda.so.1", "libcuda.so."+release), gpu()},
			title: debianLib + "/libcuda.so." + release + " is damaged", fix: `sudo apt install --reinstall "$(dpkg -S ` + debianLib + `/libcuda.so.` + release + ` | cut -d: -f1)"`,
		},
		{
			name: "a truncated library in front", parts: []part{with("LD_LIBRARY_PATH", "/a:/opt/copied"), library("/opt/copied/libcuda.so.1", truncated), libraries, gpu()},
			title: nothingWrong, rest: []string{"warning: /opt/copied/libcuda.so.1 is damaged"},
		},
		{
			name: "only a library for another machine", parts: []part{debian, library("/usr/lib64/libcuda.so.1", foreign), gpu()},
			title: "/usr/lib64/libcuda.so.1 is a library for another machine", fix: "sudo apt install nvidia-driver # from contrib and non-free, which /etc/apt has to name; and then restart the machine: sudo reboot",
		},
		{
			name: "only another library", parts: []part{with("LD_LIBRARY_PATH", "/opt"), library("/opt/libcuda.so.1", noDriver), gpu()},
			title: "/opt/libcuda.so.1 is not NVIDIA's driver", fix: "unset LD_LIBRARY_PATH",
		},
		{
			name: "only a broken link", parts: []part{debian, link(debianLib+"/libcuda.so.1", "libcuda.so.535.261.03"), gpu()},
			title: debianLib + "/libcuda.so.1 is a broken link", fix: "sudo apt install nvidia-driver # from contrib and non-free, which /etc/apt has to name; and then restart the machine: sudo reboot",
		},
		{
			name: "a container with a broken link", parts: []part{docker, link(debianLib+"/libcuda.so.1", "libcuda.so.535.261.03"), gpu()},
			title: debianLib + "/libcuda.so.1 is a broken link", fix: "docker run --gpus all IMAGE",
		},
		{
			name: "a container for Jetson with an empty file", parts: []part{docker, jetson, library(debianLib+"/nvidia/libcuda.so.1", empty), cached(debianLib + "/nvidia"), nodes("nvmap")},
			title: debianLib + "/nvidia/libcuda.so.1 is damaged", fix: "docker run --runtime nvidia IMAGE",
		},
		{
			name: "the environment names what does not exist", parts: []part{with(Environment, "/opt/libcuda.so"), libraries, gpu()},
			title: "the library that " + Environment + " names cannot be used: /opt/libcuda.so does not exist", fix: "unset " + Environment,
		},
		{
			name: "the environment names a relative path", parts: []part{with(Environment, "./libcuda.so"), libraries, gpu()},
			title: "the library that " + Environment + " names cannot be used: ./libcuda.so depends on the working directory", fix: "unset " + Environment,
		},
		{
			name: "the program names a stub", path: "/opt/stubs/libcuda.so", parts: []part{with(Environment, "/does/not/count"), library("/opt/stubs/libcuda.so", stub), gpu()},
			title: "the library that the program names cannot be used: /opt/stubs/libcuda.so is the CUDA toolkit's stub, for linking only", fix: "let the program name the driver's own library, or none, so that it is searched for",
		},

		// Device files cannot be opened.
		{name: "no device files", parts: []part{libraries, pci("nvidia", "nvidia"), modules(release)},
			title: "there is no /dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm", fix: "install nvidia-modprobe, then: sudo nvidia-modprobe -c 255 -c 0 -c 1 && sudo nvidia-modprobe -u -c 0"},
		{name: "no nvidia-uvm", parts: []part{libraries, pci("nvidia"), modules(release), nodes("nvidia0", "nvidiactl")},
			title: "there is no /dev/nvidia-uvm", fix: "install nvidia-modprobe, then: sudo nvidia-modprobe -u -c 0"},
		{name: "no nvidia-uvm, in a container", parts: []part{docker, libraries, pci("nvidia"), modules(release), nodes("nvidia0", "nvidiactl")},
			title: "this container was given only a part of the device files", fix: "docker run --gpus all IMAGE"},
		{
			name: "device files that the driver will create", parts: []part{
				libraries, pci("nvidia"), modules(release), file("/usr/bin/nvidia-modprobe", ""), setuid("/usr/bin/nvidia-modprobe"),
			},
			title: nothingWrong, rest: []string{"note: the driver will create /dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm"},
		},
		{name: "a helper without rights", parts: []part{libraries, pci("nvidia"), modules(release), file("/usr/bin/nvidia-modprobe", "")},
			title: "there is no /dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm", fix: "sudo nvidia-modprobe -c 255 -c 0 && sudo nvidia-modprobe -u -c 0"},
		{name: "no device file on Jetson", parts: []part{jetson, libraries}, title: "there is no /dev/nvmap", fix: "sudo modprobe nvgpu"},
		{
			name: "permissions for a group", parts: []part{libraries, gpu(), mode("/dev/nvidia0", 0o660), mode("/dev/nvidiactl", 0o660), file("/etc/group", groups("video")),
				opening("/dev/nvidia0", syscall.EACCES), opening("/dev/nvidiactl", syscall.EACCES)},
			title: "this user may not open /dev/nvidia0, /dev/nvidiactl", fix: permitted(`sudo usermod -aG video "$USER" # adds you to the group, from your next login on`, "sudo chmod a+rw /dev/nvidia0 /dev/nvidiactl # for every user, until the machine is restarted"),
		},
		{
			name: "permissions for nobody", parts: []part{libraries, gpu(), mode("/dev/nvidia-uvm", 0o600), opening("/dev/nvidia-uvm", syscall.EACCES)},
			title: "this user may not open /dev/nvidia-uvm", fix: "sudo chmod a+rw /dev/nvidia-uvm # for every user, until the machine is restarted",
		},
		{
			name: "a security policy, in no container", parts: []part{libraries, gpu(), mode("/dev/nvidia0", 0o666), opening("/dev/nvidia0", syscall.EACCES)},
			title: "a security policy keeps this process from opening /dev/nvidia0", fix: "sudo dmesg | grep -i -e avc: -e apparmor # says what denied it",
		},
		{
			name: "permissions for a group, in docker", parts: []part{docker, libraries, gpu(), mode("/dev/nvidia0", 0o660), opening("/dev/nvidia0", syscall.EACCES)},
			title: "this user may not open /dev/nvidia0",
			fix:   permitted("docker run --gpus all --group-add "+itoa(os.Getegid())+" IMAGE", "on the host: sudo chmod a+rw /dev/nvidia0 # for every user, until the machine is restarted"),
		},
		{
			name: "a security policy", parts: []part{libraries, gpu(), mode("/dev/nvidia0", 0o666), opening("/dev/nvidia0", syscall.EACCES), file("/run/.containerenv", "")},
			title: "a security policy keeps this process from opening /dev/nvidia0", fix: "let every container use devices, as far as SELinux goes, on the host: sudo setsebool -P container_use_devices 1",
		},
		{
			name: "a container that lost its rights", parts: []part{docker, libraries, gpu(), opening("/dev/nvidia0", syscall.EPERM), opening("/dev/nvidiactl", syscall.EPERM), opening("/dev/nvidia-uvm", syscall.EPERM)},
			title: "this container has lost its right to use the GPU", fix: "start the container again, which ends what runs in it: docker restart CONTAINER",
		},
		{
			name: "a job without a GPU", parts: []part{with("SLURM_JOB_ID", "4711"), libraries, gpu(), opening("/dev/nvidia0", syscall.EPERM)},
			title: "this job was not given a GPU", fix: "srun --gres=gpu:1 PROGRAM",
		},
		{
			name: "a unit without rights", parts: []part{libraries, gpu(), opening("/dev/nvidia0", syscall.EPERM)},
			title: "this process has no right to use the GPU", fix: `sudo systemctl set-property UNIT "DeviceAllow=char-nvidia* rw"`,
		},
		{
			name: "no driver behind nvidia-uvm", parts: []part{libraries, gpu(), opening("/dev/nvidia-uvm", syscall.ENXIO)},
			title: "there is no driver behind /dev/nvidia-uvm", fix: "sudo modprobe nvidia-uvm",
		},
		{
			name: "no driver behind anything", parts: []part{libraries, gpu(), opening("/dev/nvidia0", syscall.ENODEV), opening("/dev/nvidiactl", syscall.ENODEV)},
			title: "there is no driver behind /dev/nvidia0, /dev/nvidiactl", fix: kernelLog,
		},
		{
			name: "no driver behind a device file of Jetson", parts: []part{jetson, libraries, nodes("nvmap"), opening("/dev/nvmap", syscall.ENODEV)},
			title: "there is no driver behind /dev/nvmap", fix: "sudo modprobe nvgpu",
		},
		{
			name: "no driver behind the device file of WSL", parts: []part{wsl, library("/usr/lib/wsl/lib/libcuda.so.1", real), nodes("dxg"), opening("/dev/dxg", syscall.ENODEV)},
			title: "there is no driver behind /dev/dxg", fix: stopWSL,
		},
		{
			name: "a GPU that fell off the bus", parts: []part{libraries, gpu(), opening("/dev/nvidia0", syscall.EIO)},
			title: "the GPU does not answer", fix: kernelLog,
		},
		{
			name: "a device file that fails otherwise", parts: []part{libraries, gpu(), opening("/dev/nvidiactl", syscall.EMFILE)},
			title: "opening /dev/nvidiactl fails", fix: kernelLog,
		},

		// Containers have no GPU or no libraries.
		{name: "a container without GPUs", parts: []part{docker, pci("nvidia"), modules(release)}, title: "this container was started without GPUs", fix: "docker run --gpus all IMAGE"},
		{name: "a container without GPUs, with a driver", parts: []part{docker, pci("nvidia"), modules(release), libraries}, title: "this container was started without GPUs", fix: "docker run --gpus all IMAGE"},
		{name: "a container of which nothing is known", parts: []part{docker}, title: "this container was started without GPUs", fix: "docker run --gpus all IMAGE"},
		{name: "podman", parts: []part{file("/run/.containerenv", ""), pci("nvidia")}, title: "this container was started without GPUs", fix: "podman run --device nvidia.com/gpu=all IMAGE"},
		{name: "kubernetes", parts: []part{with("KUBERNETES_SERVICE_HOST", "10.0.0.1"), pci("nvidia")}, title: "this container was started without GPUs",
			fix: "add to the container's spec: resources: {limits: {nvidia.com/gpu: 1}}"},
		{name: "apptainer", parts: []part{with("APPTAINER_CONTAINER", "/x.sif"), pci("nvidia")}, title: "this container was started without GPUs", fix: "apptainer exec --nv IMAGE PROGRAM"},
		{name: "lxc", parts: []part{with("container", "lxc"), pci("nvidia")}, title: "this container was started without GPUs", fix: (&judge{Report: &Report{Container: "lxc"}}).grant()},
		{name: "by cgroup", parts: []part{file("/proc/self/cgroup", "0::/kubepods.slice/pod1\n"), pci("nvidia")}, title: "this container was started without GPUs",
			fix: "add to the container's spec: resources: {limits: {nvidia.com/gpu: 1}}"},
		{name: "a container for Jetson", parts: []part{docker, jetson}, title: "this container was started without GPUs", fix: "docker run --runtime nvidia IMAGE"},
		{name: "a container without the CUDA library", parts: []part{docker, gpu(), with("NVIDIA_DRIVER_CAPABILITIES", "graphics,utility")},
			title: "this container was started without the driver's CUDA library", fix: "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility IMAGE"},
		{name: "a pod without the CUDA library", parts: []part{with("KUBERNETES_SERVICE_HOST", "10.0.0.1"), gpu(), with("NVIDIA_DRIVER_CAPABILITIES", "utility")},
			title: "this container was started without the driver's CUDA library",
			fix:   `add to the container's spec: env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: "compute,utility"}]`},
		{name: "a podman container without the CUDA library", parts: []part{file("/run/.containerenv", ""), gpu(), with("NVIDIA_DRIVER_CAPABILITIES", "utility")},
			title: "this container has a GPU, but not the driver's libraries", fix: "podman run --device nvidia.com/gpu=all IMAGE"},
		{name: "an apptainer container without the CUDA library", parts: []part{with("APPTAINER_CONTAINER", "/x.sif"), gpu(), with("NVIDIA_DRIVER_CAPABILITIES", "utility")},
			title: "this container has a GPU, but not the driver's libraries", fix: "apptainer exec --nv IMAGE PROGRAM"},
		{name: "another container without the CUDA library", parts: []part{with("container", "systemd-nspawn"), gpu(), with("NVIDIA_DRIVER_CAPABILITIES", "utility")},
			title: "this container was started without the driver's CUDA library", fix: "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility"},
		{name: "another container without GPUs", parts: []part{with("container", "systemd-nspawn"), pci("nvidia")},
			title: "this container was started without GPUs", fix: "start the container with NVIDIA's device files and the driver's libraries, the way its runtime does it"},
		{name: "lxd", parts: []part{with("container", "lxc"), folder("/dev/lxd"), pci("nvidia")}, title: "this container was started without GPUs",
			fix: "on the host: lxc config device add CONTAINER gpu gpu && lxc config set CONTAINER nvidia.runtime=true # and then restart it"},
		{name: "incus", parts: []part{with("container", "lxc"), folder("/dev/incus"), pci("nvidia")}, title: "this container was started without GPUs",
			fix: "on the host: incus config device add CONTAINER gpu gpu && incus config set CONTAINER nvidia.runtime=true # and then restart it"},
		{name: "a container for Jetson that has nothing of it", parts: []part{docker, pci(), file("/sys/devices/soc0/family", "Tegra\n")},
			title: "this container was started without GPUs", fix: "docker run --runtime nvidia IMAGE"},
		{name: "a container with all capabilities and no library", parts: []part{docker, gpu(), with("NVIDIA_DRIVER_CAPABILITIES", "all")},
			title: "this container has a GPU, but not the driver's libraries", fix: "docker run --gpus all IMAGE"},

		// WSL has no GPU or no driver.
		{name: "WSL without a GPU", parts: []part{wsl}, title: "WSL has no GPU here", fix: "wsl.exe --update # and then stop all of WSL, this shell too: wsl.exe --shutdown"},
		{name: "WSL without a driver", parts: []part{wsl, nodes("dxg")}, title: "NVIDIA's driver is not installed in Windows", fix: "install NVIDIA's driver in Windows, then stop all of WSL, this shell too: wsl.exe --shutdown"},
		{name: "WSL with a Linux driver", parts: []part{wsl, ubuntu, nodes("dxg"), library("/usr/lib/wsl/lib/libcuda.so.1", real), libraries},
			title: "a Linux driver is installed inside WSL, where it cannot work", fix: "remove the package that " + debianLib + "/libcuda.so." + release + " belongs to; find it with: dpkg -S " + debianLib + "/libcuda.so." + release},
		{name: "docker on WSL, without GPUs", parts: []part{wsl, docker}, title: "this container was started without GPUs", fix: "docker run --gpus all IMAGE"},

		// The environment hides GPUs.
		{name: "every GPU is hidden", parts: []part{libraries, gpu(), with("CUDA_VISIBLE_DEVICES", "")}, title: "CUDA_VISIBLE_DEVICES hides every GPU", fix: "unset CUDA_VISIBLE_DEVICES"},
		{name: "every GPU but -1", parts: []part{libraries, gpu(), with("CUDA_VISIBLE_DEVICES", "-1,0")}, title: "CUDA_VISIBLE_DEVICES hides every GPU", fix: "unset CUDA_VISIBLE_DEVICES"},
		{name: "every GPU but one that is not there", parts: []part{libraries, gpu(), with("CUDA_VISIBLE_DEVICES", "1")}, title: "CUDA_VISIBLE_DEVICES hides every GPU", fix: "unset CUDA_VISIBLE_DEVICES"},
		{name: "every GPU but a word", parts: []part{libraries, gpu(), with("CUDA_VISIBLE_DEVICES", "NoDevFiles")}, title: "CUDA_VISIBLE_DEVICES hides every GPU", fix: "unset CUDA_VISIBLE_DEVICES"},
		{name: "every GPU is hidden from a job", parts: []part{libraries, gpu(), with("SLURM_JOB_ID", "1"), with("CUDA_VISIBLE_DEVICES", "NoDevFiles")},
			title: "this job was not given a GPU", fix: askSlurm},
		{name: "a job without rights, and every GPU hidden", parts: []part{libraries, gpu(), with("SLURM_JOB_ID", "1"), with("CUDA_VISIBLE_DEVICES", ""), opening("/dev/nvidia0", syscall.EPERM)},
			title: "this job was not given a GPU", fix: askSlurm},
		{name: "every GPU is hidden from a pod", parts: []part{with("KUBERNETES_SERVICE_HOST", "10.0.0.1"), libraries, gpu(), with("CUDA_VISIBLE_DEVICES", "")},
			title: "CUDA_VISIBLE_DEVICES hides every GPU",
			fix:   "take CUDA_VISIBLE_DEVICES out of the pod's spec, and of its image; add to the container's spec: resources: {limits: {nvidia.com/gpu: 1}}"},
		{name: "one GPU is visible", parts: []part{libraries, gpu(), with("CUDA_VISIBLE_DEVICES", "0,7")}, title: nothingWrong},
		{name: "one GPU is visible, by its UUID", parts: []part{libraries, gpu(), with("CUDA_VISIBLE_DEVICES", "GPU-955ef018")}, title: nothingWrong},
		{name: "a part of a GPU is visible", parts: []part{libraries, gpu(), with("CUDA_VISIBLE_DEVICES", "MIG-955ef018")}, title: nothingWrong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newFixture(t, tt.parts...).machine()
			r := m.diagnose(tt.path)
			v := r.Verdict()
			if v.Title != tt.title || v.Fix != tt.fix {
				t.Errorf("verdict %q\nfix     %q\nwant    %q\nfix     %q\n%s", v.Title, v.Fix, tt.title, tt.fix, r)
			}
			if (v.Severity == Fine) != (tt.fix == "") {
				t.Errorf("it is %q:\n%s", v.Severity, r)
			}
			rest := titles(r.Findings)
			if v.Severity != Fine {
				rest = rest[1:]
			}
			if !slices.Equal(rest, tt.rest) {
				t.Errorf("the other findings are %q, want %q", rest, tt.rest)
			}
			checkFindings(t, r)

			// Diagnose takes the same library as open.
			lib, tried := m.open(cudaDriver(), tt.path)
			if (lib == nil) != (r.Library == nil) || len(tried) != len(r.Candidates) {
				t.Fatalf("Open: %v, %v; Diagnose: %v, %v", lib, tried, r.Library, r.Candidates)
			}
			for i, c := range tried {
				if d := r.Candidates[i]; d.Name != c.Name || d.Path != c.Path || d.Problem != c.Problem ||
					(d.Error == "") != (c.Err == nil) {
					t.Errorf("Open: %+v, Diagnose: %+v", c, d)
				}
			}

			// The report survives JSON unchanged.
			data, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			back := new(Report)
			if err := json.Unmarshal(data, back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, back); diff != "" {
				t.Errorf("by way of JSON (-want +got):\n%s", diff)
			}

			// If cuInit succeeds, there is no fault, and if cuInit fails, there is one, whatever
			// the other facts are.
			r.AddInit(0)
			if v := r.Verdict(); v.Severity != Fine || v.Title != "CUDA works: cuInit succeeded" {
				t.Errorf("though cuInit succeeded: %+v", v)
			}
			checkFindings(t, r)
			r.AddInit(999)
			if v := r.Verdict(); v.Severity != Fault {
				t.Errorf("though cuInit failed: %+v", v)
			}
			checkFindings(t, r)
		})
	}
}

// mode sets the permissions of a file.
func mode(name string, perm os.FileMode) part {
	return func(t *testing.T, f *fixture) {
		t.Helper()
		if err := os.Chmod(f.root+name, perm); err != nil {
			t.Fatal(err)
		}
	}
}

// setuid lets a program run with the rights of its owner.
func setuid(name string) part { return mode(name, 0o755|os.ModeSetuid) }

// groups returns an /etc/group that has a name for the group of this process.
func groups(name string) string {
	return "other:x:4711:\n" + name + ":x:" + itoa(os.Getegid()) + ":someone\nbroken\n"
}

func itoa(n int) string {
	b, _ := json.Marshal(n) // a number always works
	return string(b)
}

// permitted returns group, or root if the files of fixtures belong to root's group.
func permitted(group, root string) string {
	if os.Getegid() == 0 {
		return root
	}
	return group
}

// TestAddInit checks the finding about each result of cuInit, with and without other faults.
func TestAddInit(t *testing.T) {
	debianLib := "/usr/lib/" + triplet(runtime.GOARCH)
	healthy := all(installed(debianLib), cached(debianLib), gpu())
	for _, tt := range []struct {
		name  string
		parts []part
		code  int32
		title string
		fix   string
		more  string // the next finding's title
	}{
		{"healthy", []part{healthy}, 0, "CUDA works: cuInit succeeded", "", ""},
		{"no device", []part{healthy}, 100, "cuInit failed with CUDA_ERROR_NO_DEVICE (100)", kernelLog, ""},
		{"no device", []part{healthy, with("CUDA_VISIBLE_DEVICES", "-1")}, 100, "CUDA_VISIBLE_DEVICES hides every GPU", "unset CUDA_VISIBLE_DEVICES",
			"cuInit failed with CUDA_ERROR_NO_DEVICE (100)"},
		{"unknown", []part{healthy}, 999, "cuInit failed with CUDA_ERROR_UNKNOWN (999)", "end all that uses the GPU, then: sudo modprobe -r nvidia-uvm && sudo modprobe nvidia-uvm", ""},
		{"unknown, in a container", []part{healthy, docker}, 999, "cuInit failed with CUDA_ERROR_UNKNOWN (999)", "on the host: end all that uses the GPU, then: sudo modprobe -r nvidia-uvm && sudo modprobe nvidia-uvm", ""},
		{"mismatch", []part{healthy}, 803, "cuInit failed with CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "restart the machine: sudo reboot", ""},
		{"mismatch, in a container", []part{healthy, docker}, 803, "cuInit failed with CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "start the container again, which ends what runs in it: docker restart CONTAINER", ""},
		{"mismatch", []part{healthy, modules("535.1.2")}, 803, "the driver's library and its kernel module are of different versions", "restart the machine: sudo reboot",
			"cuInit failed with CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"},
		{"not compatible", []part{healthy}, 804, "cuInit failed with CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)", "restart the machine: sudo reboot", ""},
		{"not compatible", []part{with("LD_LIBRARY_PATH", "/usr/local/cuda/compat:/opt"), installed("/usr/local/cuda/compat"), gpu()}, 804,
			"cuInit failed with CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)", "export LD_LIBRARY_PATH=/opt", "the library is that of the CUDA toolkit's package for forward compatibility"},
		{"not compatible", []part{distribution("rocky", "rhel fedora"), installed("/usr/local/cuda/compat"), gpu()}, 804,
			"cuInit failed with CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)", "remove the package that /usr/local/cuda/compat/libcuda.so." + release + " belongs to; find it with: rpm -qf /usr/local/cuda/compat/libcuda.so." + release,
			"the library is that of the CUDA toolkit's package for forward compatibility"},
		{"not ready", []part{healthy}, 802, "cuInit failed with CUDA_ERROR_SYSTEM_NOT_READY (802)", "sudo systemctl enable --now nvidia-fabricmanager", ""},
		{"a stub", []part{healthy}, 34, "cuInit failed with CUDA_ERROR_STUB_LIBRARY (34)", "remove " + debianLib + "/libcuda.so." + release + " from where programs look for the driver", ""},
		{"a stub in LD_LIBRARY_PATH", []part{with("LD_LIBRARY_PATH", "/opt"), installed("/opt"), gpu()}, 34, "cuInit failed with CUDA_ERROR_STUB_LIBRARY (34)", "unset LD_LIBRARY_PATH", ""},
		{"unavailable", []part{healthy}, 46, "cuInit failed with CUDA_ERROR_DEVICE_UNAVAILABLE (46)", "nvidia-smi # shows who uses the GPU; to let several use it at a time: sudo nvidia-smi --compute-mode=DEFAULT", ""},
		{"invalid", []part{healthy}, 101, "cuInit failed with CUDA_ERROR_INVALID_DEVICE (101)", kernelLog, ""},
		{"invalid", []part{healthy, with("CUDA_VISIBLE_DEVICES", "0,0")}, 101, "cuInit failed with CUDA_ERROR_INVALID_DEVICE (101)", "unset CUDA_VISIBLE_DEVICES", ""},
		{"not initialized", []part{healthy}, 3, "cuInit failed with CUDA_ERROR_NOT_INITIALIZED (3)", kernelLog, ""},
		{"not supported", []part{healthy}, 801, "cuInit failed with CUDA_ERROR_NOT_SUPPORTED (801)", kernelLog, ""},
		{"not known", []part{healthy}, 12345, "cuInit failed with CUresult 12345", kernelLog, ""},
		{"no GPU", []part{installed(debianLib), pci()}, 100, "this machine has no NVIDIA GPU", "run the program on a machine with an NVIDIA GPU", "cuInit failed with CUDA_ERROR_NO_DEVICE (100)"},
		{"an invalid device, in a job", []part{healthy, with("SLURM_JOB_ID", "1"), with("CUDA_VISIBLE_DEVICES", "0,0")}, 101, "cuInit failed with CUDA_ERROR_INVALID_DEVICE (101)", askSlurm, ""},
		{"one GPU of two is broken", []part{installed(debianLib), pci("nvidia", "nvidia"), modules(release), nodes("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"), opening("/dev/nvidia1", syscall.EIO)}, 999,
			"/dev/nvidia1 does not answer", kernelLog, "cuInit failed with CUDA_ERROR_UNKNOWN (999)"},
		{"one GPU of two is forbidden", []part{installed(debianLib), pci("nvidia", "nvidia"), modules(release), nodes("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"), opening("/dev/nvidia1", syscall.EPERM)}, 999,
			"cuInit failed with CUDA_ERROR_UNKNOWN (999)", "end all that uses the GPU, then: sudo modprobe -r nvidia-uvm && sudo modprobe nvidia-uvm", ""},
		{"on Jetson, with a display", []part{jetson, healthy, nodes("nvmap"), mode("/dev/nvmap", 0o600), opening("/dev/nvmap", syscall.EACCES)}, 999,
			"this user may not open /dev/nvmap", "sudo chmod a+rw /dev/nvmap # for every user, until the machine is restarted", "cuInit failed with CUDA_ERROR_UNKNOWN (999)"},
		{"the first use, without device files", []part{installed(debianLib), pci(""), file("/usr/bin/nvidia-modprobe", ""), setuid("/usr/bin/nvidia-modprobe")}, 0, "CUDA works: cuInit succeeded", "", ""},
		{"the helper did not help", []part{installed(debianLib), pci("nvidia"), modules(release), file("/usr/bin/nvidia-modprobe", ""), setuid("/usr/bin/nvidia-modprobe")}, 100,
			"there is no /dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm", "sudo nvidia-modprobe -c 255 -c 0 && sudo nvidia-modprobe -u -c 0", "cuInit failed with CUDA_ERROR_NO_DEVICE (100)"},
	} {
		r := newFixture(t, tt.parts...).machine().diagnose("")
		r.AddInit(1)
		r.AddInit(tt.code) // replaces the findings
		v := r.Verdict()
		if v.Title != tt.title || v.Fix != tt.fix {
			t.Errorf("%s: verdict %q\nfix     %q\nwant    %q\nfix     %q\n%s", tt.name, v.Title, v.Fix, tt.title,
				tt.fix, r)
		}
		var more string
		if len(r.Findings) > 1 {
			more = r.Findings[1].Title
		}
		if more != tt.more {
			t.Errorf("%s: then %q, want %q", tt.name, more, tt.more)
		}
		checkFindings(t, r)
	}
}

// TestFacts checks the facts of a report, without the findings.
func TestFacts(t *testing.T) {
	debianLib := "/usr/lib/" + triplet(runtime.GOARCH)
	f := newFixture(t, distribution("ubuntu", "debian"), docker, with("CUDA_VISIBLE_DEVICES", ""), with("HOME", "/root"),
		with("LD_LIBRARY_PATH", "/opt/stubs"), library("/opt/stubs/libcuda.so.1", stub), installed(debianLib), cached(debianLib),
		pci("nvidia", ""), nodes("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-modeset", "nvidia-caps-imex-channels"),
		file("/sys/module/nvidia/version", "535.261.03\n"), opening("/dev/nvidiactl", syscall.EPERM),
		file("/proc/driver/nvidia/version",
			"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Fri Aug 15 00:00:00 UTC 2025\n"))
	for _, name := range []string{"nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-modeset"} {
		mode("/dev/"+name, 0o640)(t, f)
	}
	r := f.machine().diagnose("")
	device := func(path string, a Access, text string) DeviceFile {
		if a == Missing {
			return DeviceFile{Path: path, Access: a, Error: text}
		}
		return DeviceFile{Path: path, Access: a, Error: text, Mode: "-rw-r-----", UID: os.Geteuid(), GID: os.Getegid()}
	}
	want := &Report{
		Platform: platform, Distribution: "The ubuntu system", DistributionIDs: []string{"ubuntu", "debian"},
		Container: "docker", UID: 1000,
		Environment: map[string]string{"CUDA_VISIBLE_DEVICES": "", "LD_LIBRARY_PATH": "/opt/stubs"},
		Library: &LibraryFacts{
			Name: debianLib + "/libcuda.so.1", Source: "the system's library search path",
			Path: debianLib + "/libcuda.so.580.95.05", Release: "580.95.05", Version: 12030,
		},
		Candidates: []CandidateFacts{
			{
				Name: "libcuda.so.1", Source: "the system's library search path", Path: "/opt/stubs/libcuda.so.1", Problem: Stub, Element: "/opt/stubs",
				Error: "/opt/stubs/libcuda.so.1: it is in the CUDA toolkit's folder of stubs, which are for linking only: remove the folder from the search path and install the NVIDIA driver",
			},
			{
				Name: "libcuda.so", Source: "the system's library search path", Problem: Absent,
				Error: "cannot open shared object file: No such file or directory",
			},
			{Name: debianLib + "/libcuda.so.1", Source: "the system's library search path", Path: debianLib + "/libcuda.so.580.95.05"},
		},
		Kernel:   KernelFacts{Release: "535.261.03", Flavor: "proprietary", Loaded: true},
		PCIKnown: true,
		GPUs: []PCIDevice{
			{Address: "0000:01:00.0", ID: "10de:2335", Driver: "nvidia"},
			{Address: "0000:02:00.0", ID: "10de:2335"},
		},
		Devices: []DeviceFile{
			device("/dev/nvidia0", Granted, ""), device("/dev/nvidia2", Granted, ""), device("/dev/nvidia10", Granted, ""),
			device("/dev/nvidiactl", Forbidden, "operation not permitted"), device("/dev/nvidia-uvm", Missing, "no such file or directory"),
			device("/dev/nvidia-modeset", Granted, ""),
		},
	}
	got := *r
	got.Findings = nil
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDiagnoseHang checks that Diagnose reports what hangs, and still collects all other facts.
func TestDiagnoseHang(t *testing.T) {
	debianLib := "/usr/lib/" + triplet(runtime.GOARCH)
	over := make(chan struct{})
	var hanging sync.WaitGroup
	t.Cleanup(func() { close(over); hanging.Wait() })
	// patience returns a machine on which one kind of wait ends when hang is called.
	patience := func(with func(time.Duration) bool) (m *machine, hang func()) {
		tooLong := make(chan time.Time)
		m = newFixture(t, installed(debianLib), cached(debianLib), gpu()).machine()
		m.after = func(d time.Duration) <-chan time.Time {
			if with(d) {
				return tooLong
			}
			return nil
		}
		hanging.Add(1)
		var once sync.Once // it is called again when it has ended
		return m, func() {
			once.Do(func() {
				defer hanging.Done()
				close(tooLong)
				<-over
			})
		}
	}

	m, hang := patience(func(d time.Duration) bool { return d != libraryPatience })
	m.openDevice = func(file string) error {
		if strings.HasSuffix(file, "nvidia0") {
			hang()
		}
		return nil
	}
	r := m.diagnose("")
	// The other device files may have been opened before that, or not.
	d := r.Devices[0]
	if d.Path != "/dev/nvidia0" || d.Access != Broken || d.Error != "it has not ended after 29s" || d.Mode == "" ||
		r.Library == nil ||
		r.Verdict().Title != "the GPU does not answer" {
		t.Errorf("a device file that hangs:\n%s", r)
	}
	checkFindings(t, r)

	m, hang = patience(func(d time.Duration) bool { return d == libraryPatience })
	m.dlopen = func(string) (ccall.Library, error) {
		hang()
		return ccall.Library{}, errors.New("it was called back")
	}
	r = m.diagnose("")
	if r.Library != nil || len(r.Candidates) != 1 || r.Candidates[0].Problem != Stuck ||
		r.Verdict().Title != "libcuda.so.1 does not finish loading" ||
		!r.Kernel.Loaded || len(r.GPUs) != 1 || r.Devices[0].Access != Granted {
		t.Errorf("a library that hangs:\n%s", r)
	}
	checkFindings(t, r)
}

// TestUnusable checks the remedy for each problem of a candidate.
func TestUnusable(t *testing.T) {
	for _, tt := range []struct {
		problem    Problem
		where      string
		title, fix string
	}{
		{Unreadable, "/a b/libcuda.so.1", "/a b/libcuda.so.1 may not be read", "sudo chmod a+r '/a b/libcuda.so.1'"},
		{Unreachable, "/a/libcuda.so.1", "/a/libcuda.so.1 cannot be reached",
			"namei -l /a/libcuda.so.1 # shows which folder may not be searched; if all may be, its file system fails: sudo dmesg | tail"},
		{Stub, "/cuda/stubs/libcuda.so.1", "/cuda/stubs/libcuda.so.1 is the CUDA toolkit's stub, not the driver", "take /cuda/stubs out of the files in /etc/ld.so.conf.d, then: sudo ldconfig"},
		{Stub, "/lib/libcuda.so.1", "/lib/libcuda.so.1 is the CUDA toolkit's stub, not the driver", "remove /lib/libcuda.so.1 from where programs look for the driver"},
		{NotADriver, "/lib/libcuda.so.1", "/lib/libcuda.so.1 is not NVIDIA's driver",
			"remove the package that /lib/libcuda.so.1 belongs to; find it with: dpkg -S /lib/libcuda.so.1"},
	} {
		r := &Report{Platform: "linux/amd64", DistributionIDs: []string{"debian"}, Library: &LibraryFacts{},
			Candidates: []CandidateFacts{{Name: "libcuda.so.1", Path: tt.where, Problem: tt.problem, Error: "it is so"}}}
		want := []Finding{{Warning, tt.title, "it is so", tt.fix}}
		if diff := cmp.Diff(want, r.judge()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.problem, diff)
		}
	}
}

// TestLook checks the problem that look finds for each kind of file.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	circle := filepath.Join(dir, "circle")
	if err := os.Symlink(circle, circle); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]Problem{
		circle:                   Dangling,
		filepath.Join(dir, "no"): Absent,
		filepath.Join(dir, strings.Repeat("x", 300)): Unreachable, // too long for a file name
	} {
		if _, problem, _, err := look(file); problem != want || err == nil {
			t.Errorf("%s: %q, %v; want %q", file, problem, err, want)
		}
	}
	if os.Geteuid() == 0 {
		return // root may search every folder
	}
	locked := filepath.Join(dir, "locked")
	if err := os.Mkdir(locked, 0); err != nil {
		t.Fatal(err)
	}
	if _, problem, why, err := look(filepath.Join(locked, "libcuda.so.1")); problem != Unreachable || why == "" ||
		!errors.Is(err, syscall.EACCES) {
		t.Errorf("in a folder that may not be searched: %q, %q, %v", problem, why, err)
	}
}

// TestFixesAreHarmless checks that no fix does harm if it is pasted as a whole. A command that
// restarts, stops or removes something must follow words or a comment mark, so that the shell does
// not run it.
func TestFixesAreHarmless(t *testing.T) {
	j := &judge{Report: &Report{Init: &InitResult{}}}
	var fixes []string
	for _, container := range []string{"", "docker", "podman", "kubernetes", "lxd", "incus", "lxc", "apptainer",
		"other"} {
		for _, ids := range []string{"", "debian", "ubuntu debian", "fedora", "suse", "arch", "nixos"} {
			j.Container, j.DistributionIDs = container, strings.Fields(ids)
			fixes = append(fixes, j.install(), j.reinstall("/lib/x"), j.remove("/lib/x"), j.withoutStub("/stubs/x"),
				j.withoutNouveau(), j.grant(), j.restart(), j.show(), j.createFiles())
			for _, code := range []int32{3, 34, 46, 100, 101, 801, 802, 803, 804, 999} {
				j.Init.Code = code
				fixes = append(fixes, j.initFix())
			}
		}
	}
	for _, fix := range append(fixes, stopWSL) {
		command, _, _ := strings.Cut(fix, " #")
		first, _, _ := strings.Cut(command, " ")
		if !slices.Contains([]string{"sudo", "docker", "podman", "apptainer", "echo", "nvidia-smi", "unset", "export"},
			first) {
			continue // a sentence
		}
		for _, harm := range []string{"reboot", "shutdown", " remove", "delete", "restart", "setsebool", "compute-mode",
			"modprobe -r"} {
			if strings.Contains(command, harm) {
				t.Errorf("%s", fix)
			}
		}
	}
}

// TestHelper checks that nvidia-modprobe must be setuid, or this process must be root.
func TestHelper(t *testing.T) {
	for _, tt := range []struct {
		parts []part
		uid   int
		want  bool
	}{
		{nil, 0, false},
		{[]part{file("/usr/bin/nvidia-modprobe", "")}, 0, true},
		{[]part{file("/usr/bin/nvidia-modprobe", "")}, 1000, false},
		{[]part{file("/usr/bin/nvidia-modprobe", ""), setuid("/usr/bin/nvidia-modprobe")}, 1000, true},
	} {
		m := newFixture(t, tt.parts...).machine()
		m.uid = tt.uid
		if k := m.kernel(); k.Helper != tt.want || k.HelperInstalled != (len(tt.parts) > 0) {
			t.Errorf("user %d: %+v", tt.uid, k)
		}
	}
}

// TestEnvironmentIgnored checks that Diagnose reports a variable that is set and ignored.
func TestEnvironmentIgnored(t *testing.T) {
	debianLib := "/usr/lib/" + triplet(runtime.GOARCH)
	m := newFixture(t, with(Environment, "/opt/mine.so"), installed(debianLib), gpu()).machine()
	m.elevated = func() bool { return true }
	r := m.diagnose("")
	if !r.EnvironmentIgnored || r.NamedBy != "" || r.Library == nil || r.Library.Name != debianLib+"/libcuda.so.1" {
		t.Errorf("%+v", r)
	}
	if want := []string{"warning: CUDA_DRIVER_LIBRARY is ignored"}; !slices.Equal(titles(r.Findings), want) {
		t.Errorf("findings %q", titles(r.Findings))
	}
	if !strings.Contains(r.String(), `CUDA_DRIVER_LIBRARY="/opt/mine.so", ignored`) {
		t.Error(r)
	}
}

// TestOpenDevice opens real files: a file that does not exist is missing, and a file without
// permissions is denied.
func TestOpenDevice(t *testing.T) {
	dir := t.TempDir()
	if err := openDevice(filepath.Join(dir, "missing")); err != syscall.ENOENT {
		t.Errorf("missing: %v", err)
	}
	if err := openDevice("/dev/null"); err != nil {
		t.Errorf("/dev/null: %v", err)
	}
	if err := openDevice(dir); err != syscall.EISDIR {
		t.Errorf("a folder: %v", err)
	}
	locked := filepath.Join(dir, "locked")
	if err := os.WriteFile(locked, nil, 0); err != nil {
		t.Fatal(err)
	}
	want := error(nil)
	if os.Geteuid() != 0 {
		want = syscall.EACCES
	}
	if err := openDevice(locked); err != want {
		t.Errorf("locked: %v, want %v", err, want)
	}
}

func TestReportText(t *testing.T) {
	debianLib := "/usr/lib/" + triplet(runtime.GOARCH)
	f := newFixture(t, debian, docker, installed(debianLib), pci("nvidia"), modules("535.261.03"), nodes("nvidia0", "nvidiactl"),
		with("CUDA_VISIBLE_DEVICES", "0"), opening("/dev/nvidiactl", syscall.EPERM))
	mode("/dev/nvidia0", 0o666)(t, f)
	mode("/dev/nvidiactl", 0o666)(t, f)
	owner := itoa(os.Geteuid()) + ":" + itoa(os.Getegid())
	r := f.machine().diagnose("")
	r.AddInit(100)
	want := `platform     ` + platform + `, The debian system
container    docker
environment  CUDA_VISIBLE_DEVICES="0"
tried        libcuda.so.1 (the system's library search path): cannot open shared object file: No such file or directory
tried        libcuda.so (the system's library search path): cannot open shared object file: No such file or directory
taken        ` + debianLib + `/libcuda.so.1 (Debian and Ubuntu): ` + debianLib + `/libcuda.so.580.95.05
library      CUDA 12.3, driver 580.95.05
kernel       nvidia, 535.261.03, open, nvidia-uvm
gpu          0000:01:00.0 10de:2335, driven by nvidia
device       /dev/nvidia0 -rw-rw-rw- ` + owner + `: granted
device       /dev/nvidiactl -rw-rw-rw- ` + owner + `: forbidden, operation not permitted
device       /dev/nvidia-uvm: missing
cuInit       CUDA_ERROR_NO_DEVICE (100)
fault        the driver's library and its kernel module are of different versions
             ` + debianLib + `/libcuda.so.580.95.05 is of version 580.95.05, and the kernel's module of 535.261.03: one of the two was updated and the other is still in use
             fix: start the container again, which ends what runs in it: docker restart CONTAINER
fault        this container has lost its right to use the GPU
             the permissions of /dev/nvidiactl allow it, and opening fails: operation not permitted; systemctl daemon-reload on the host takes such rights from containers that are running
             fix: start the container again, which ends what runs in it: docker restart CONTAINER
fault        this container was given only a part of the device files
             there is no /dev/nvidia-uvm
             fix: docker run --gpus all IMAGE
fault        cuInit failed with CUDA_ERROR_NO_DEVICE (100)
             the driver sees no GPU that it may use; most likely because the driver's library and its kernel module are of different versions
             fix: start the container again, which ends what runs in it: docker restart CONTAINER
verdict      the driver's library and its kernel module are of different versions
fix          start the container again, which ends what runs in it: docker restart CONTAINER
`
	if diff := cmp.Diff(want, r.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRealDriver diagnoses NVIDIA's own libraries, on a machine without a GPU and on one that seems
// to be in order.
func TestRealDriver(t *testing.T) {
	paths := filepath.SplitList(os.Getenv("PURECU_TEST_LIBCUDA"))
	if len(paths) == 0 {
		t.Skip("PURECU_TEST_LIBCUDA is not set: this needs a real driver library (see tests/libcuda/fetch)")
	}
	for _, path := range paths {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			t.Fatal(err)
		}
		here := func(t *testing.T, f *fixture) {
			if err := os.MkdirAll(f.root+"/usr/lib64", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, f.root+"/usr/lib64/libcuda.so.1"); err != nil {
				t.Fatal(err)
			}
		}
		version := strings.TrimPrefix(filepath.Base(target), "libcuda.so.")
		for _, tt := range []struct {
			parts []part
			title string
		}{
			{[]part{here, pci()}, "this machine has no NVIDIA GPU"},
			{[]part{here, pci("nvidia"), modules(version), nodes("nvidia0", "nvidiactl", "nvidia-uvm")}, "cuInit failed with CUDA_ERROR_NO_DEVICE (100)"},
		} {
			r := newFixture(t, tt.parts...).machine().diagnose("")
			r.AddInit(100)
			if v := r.Verdict(); v.Title != tt.title {
				t.Errorf("%s: %s\n%s", path, v.Title, r)
			}
			if l := r.Library; l == nil || l.Path != target || l.Release != version || l.Version < 12000 {
				t.Errorf("%s: %+v", path, l)
			}
			checkFindings(t, r)
		}
		// Diagnose the machine that the test runs on.
		r := Diagnose(WithLibrary(path))
		r.AddInit(100)
		if v := r.Verdict(); v.Severity != Fault || r.Init.Name != "CUDA_ERROR_NO_DEVICE" || r.Library.Path != target {
			t.Errorf("%s: %s", path, r)
		}
		checkFindings(t, r)
	}
}
