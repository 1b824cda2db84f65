package loader

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// gather adds to the report what the files of the kernel and the system say.
func (m *machine) gather(r *Report) {
	r.Distribution, r.DistributionIDs = m.distribution()
	r.WSL = strings.Contains(strings.ToLower(m.line("/proc/sys/kernel/osrelease")), "microsoft")
	// A container does not have the first file, and may lack the device tree.
	r.Jetson = m.exists("/etc/nv_tegra_release") ||
		strings.Contains(m.read("/proc/device-tree/compatible"), "nvidia,tegra") ||
		m.line("/sys/devices/soc0/family") == "Tegra"
	r.OnlyMusl = m.onlyMusl()
	r.Container = m.container()
	r.Kernel = m.kernel()
	r.GPUs, r.PCIKnown = m.gpus()
	r.Devices = m.devices(r)
}

// line returns the first line of a small file, or "".
func (m *machine) line(name string) string {
	s, _, _ := strings.Cut(m.read(name), "\n")
	return strings.TrimSpace(s)
}

func (m *machine) exists(name string) bool {
	_, err := os.Stat(m.file(name))
	return err == nil
}

// glob returns the names of files, in order of the numbers in them.
func (m *machine) glob(pattern string) []string {
	files, _ := filepath.Glob(m.file(pattern))
	for i, f := range files {
		files[i] = m.name(f)
	}
	slices.SortFunc(files, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return files
}

// elementOf returns the element of LD_LIBRARY_PATH that led to a candidate.
func (m *machine) elementOf(c Candidate) string {
	v := m.getenv("LD_LIBRARY_PATH")
	if v == "" || c.Path == "" || m.elevated() {
		return ""
	}
	for _, e := range splitSearchPath(v) {
		if e != "" && m.resolve(m.file(e)) == path.Dir(c.Path) {
			return e
		}
	}
	return ""
}

// distribution returns the names of the system in /etc/os-release.
func (m *machine) distribution() (name string, ids []string) {
	ids = []string{}
	for line := range strings.Lines(m.read("/etc/os-release")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "PRETTY_NAME":
			name = value
		case "ID":
			ids = append([]string{value}, ids...)
		case "ID_LIKE":
			ids = append(ids, strings.Fields(value)...)
		}
	}
	return name, ids
}

// onlyMusl reports whether the system's C library is musl. A loader with the name of glibc's loader
// proves nothing: musl systems have one for programs like those that use this package.
func (m *machine) onlyMusl() bool {
	if len(m.glob("/lib/ld-musl-*.so.1")) == 0 {
		return false
	}
	for _, folder := range defaultFolders() {
		if m.exists(folder + "/libc.so.6") {
			return false
		}
	}
	return true
}

// container returns the kind of container that the program runs in.
func (m *machine) container() string {
	cgroup := m.read("/proc/self/cgroup")
	for _, hint := range []struct {
		here bool
		kind string
	}{
		{m.getenv("KUBERNETES_SERVICE_HOST") != "" || strings.Contains(cgroup, "kubepods"), "kubernetes"},
		{m.getenv("APPTAINER_CONTAINER") != "" || m.getenv("SINGULARITY_CONTAINER") != "", "apptainer"},
		{m.exists("/run/.containerenv") || strings.Contains(cgroup, "libpod"), "podman"},
		{m.exists("/.dockerenv") || strings.Contains(cgroup, "docker"), "docker"},
		{strings.Contains(cgroup, "containerd"), "containerd"},
		// Both use LXC, and have different commands.
		{m.exists("/dev/incus"), "incus"},
		{m.exists("/dev/lxd"), "lxd"},
		{strings.Contains(cgroup, "/lxc"), "lxc"},
	} {
		if hint.here {
			return hint.kind
		}
	}
	return m.getenv("container") // systemd-nspawn, lxc and others set it
}

// kernel returns the kernel's part of the driver.
func (m *machine) kernel() KernelFacts {
	k := KernelFacts{
		Loaded:  m.exists("/sys/module/nvidia") || m.exists("/proc/driver/nvidia/version"),
		UVM:     m.exists("/sys/module/nvidia_uvm"),
		Nouveau: m.exists("/sys/module/nouveau"),
		Release: m.line("/sys/module/nvidia/version"),
	}
	// NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  …
	// NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  …
	if v := m.line("/proc/driver/nvidia/version"); v != "" {
		k.Flavor = "proprietary"
		if strings.Contains(v, "Open Kernel Module") {
			k.Flavor = "open"
		}
		if i := slices.IndexFunc(strings.Fields(v), isRelease); i >= 0 {
			k.Release = strings.Fields(v)[i]
		}
	}
	if info, err := os.Stat(m.file("/usr/bin/nvidia-modprobe")); err == nil {
		k.HelperInstalled = true
		k.Helper = info.Mode()&os.ModeSetuid != 0 || m.uid == 0
	}
	return k
}

// gpus returns NVIDIA's GPUs on the PCI bus.
func (m *machine) gpus() (list []PCIDevice, known bool) {
	list = []PCIDevice{}
	const bus = "/sys/bus/pci/devices"
	entries, err := os.ReadDir(m.file(bus))
	if err != nil {
		return list, false
	}
	for _, e := range entries {
		dev := bus + "/" + e.Name()
		const nvidia, display = "0x10de", "0x03" // the first byte of the class
		if m.line(dev+"/vendor") != nvidia || !strings.HasPrefix(m.line(dev+"/class"), display) {
			continue
		}
		g := PCIDevice{Address: e.Name(), ID: "10de:" + strings.TrimPrefix(m.line(dev+"/device"), "0x")}
		if driver, err := os.Readlink(m.file(dev + "/driver")); err == nil {
			g.Driver = path.Base(driver)
		}
		list = append(list, g)
	}
	return list, true
}

// devices returns the device files that CUDA needs, also those that are missing, and other device
// files that exist. It opens all of them at the same time, so that one that hangs does not delay the
// others.
func (m *machine) devices(r *Report) []DeviceFile {
	var names []string
	switch numbered := m.glob("/dev/nvidia[0-9]*"); {
	case r.WSL:
		names = []string{"/dev/dxg"}
	case r.Jetson:
		// The names of the device files depend on the release of the system.
		for _, pattern := range []string{"/dev/nvmap", "/dev/nvhost-ctrl-gpu", "/dev/nvgpu/igpu0/ctrl",
			"/dev/nvidiactl", "/dev/nvidia[0-9]*"} {
			names = append(names, m.glob(pattern)...)
		}
		if len(names) == 0 {
			names = []string{"/dev/nvmap"}
		}
	default:
		if len(numbered) == 0 {
			numbered = []string{"/dev/nvidia0"}
		}
		names = append(numbered, "/dev/nvidiactl", "/dev/nvidia-uvm")
		names = append(names, m.glob("/dev/nvidia-modeset")...)
		names = append(names, m.glob("/dev/nvidia-uvm-tools")...)
	}
	groups := m.groups()
	list := make([]DeviceFile, len(names))
	type outcome struct {
		which int
		err   error
	}
	outcomes := make(chan outcome, len(names))
	opening := 0
	for i, name := range names {
		info, err := os.Stat(m.file(name))
		list[i] = deviceFile(name, info, groups)
		if err != nil {
			list[i].setError(err)
			continue
		}
		opening++
		go func() { outcomes <- outcome{i, m.openDevice(m.file(name))} }()
	}
	patience := devicePatience + time.Duration(opening)*morePatience
	for tooLong := m.after(patience); opening > 0; opening-- {
		select {
		case o := <-outcomes:
			list[o.which].setError(o.err)
		case <-tooLong:
			for i := range list {
				if d := &list[i]; d.Access == "" {
					d.Access, d.Error = Broken, "it has not ended after "+patience.String()
				}
			}
			return list
		}
	}
	return list
}

// deviceFile returns the facts in info about a device file. info is nil if there are none.
func deviceFile(name string, info fs.FileInfo, groups map[int]string) DeviceFile {
	d := DeviceFile{Path: name}
	if info == nil {
		return d
	}
	d.Mode = strings.TrimPrefix(info.Mode().String(), "D")
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		d.UID, d.GID = int(st.Uid), int(st.Gid)
		d.Group = groups[d.GID]
	}
	return d
}

// setError sets the fields that depend on the result of opening the device file.
func (d *DeviceFile) setError(err error) {
	switch {
	case err == nil:
		d.Access = Granted
		return
	case isAbsent(err):
		d.Access = Missing
	case errors.Is(err, syscall.EACCES):
		d.Access = Denied
	case errors.Is(err, syscall.EPERM):
		d.Access = Forbidden
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		d.Access = NoDriver
	case errors.Is(err, syscall.EIO):
		d.Access = Broken
	default:
		d.Access = Failed
	}
	d.Error = cause(err).Error()
}

// groups returns the names of the groups in /etc/group.
func (m *machine) groups() map[int]string {
	names := map[int]string{}
	for line := range strings.Lines(m.read("/etc/group")) {
		if f := strings.Split(line, ":"); len(f) >= 3 {
			if gid, err := strconv.Atoi(f[2]); err == nil {
				names[gid] = f[0]
			}
		}
	}
	return names
}

// openDevice opens a device file for reading and writing, and closes it. It does not use package
// os, which sets files to non-blocking mode and adds them to its poller. NVIDIA's module answers
// non-blocking callers before it knows whether the GPU works.
func openDevice(file string) error {
	for {
		fd, err := syscall.Open(file, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		switch {
		case err == nil:
			return syscall.Close(fd)
		case !errors.Is(err, syscall.EINTR):
			return err
		}
	}
}
