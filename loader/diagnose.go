package loader

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Report is the result of [Diagnose]. It can be marshalled to JSON and back. The JSON always has
// all fields, under the names of their tags. In the result of Diagnose lists are never null. The
// fields library and init are null if there is no such value.
type Report struct {
	// There are more than fifteen fields because they are the keys of the JSON document.

	// Platform is the operating system and architecture, such as "linux/amd64".
	Platform string `json:"platform"`
	// Distribution is the name of the operating system, such as "Debian GNU/Linux 12 (bookworm)",
	// or "".
	Distribution string `json:"distribution"`
	// DistributionIDs are the short name of the distribution, and those of similar distributions,
	// from /etc/os-release.
	DistributionIDs []string `json:"distributionIDs"`
	// WSL is true inside the Windows Subsystem for Linux.
	WSL bool `json:"wsl"`
	// Jetson is true on a Jetson, a system on a chip with a built-in GPU.
	Jetson bool `json:"jetson"`
	// OnlyMusl is true if the system's C library is musl. NVIDIA makes no driver for musl.
	OnlyMusl bool `json:"onlyMusl"`
	// Container is the kind of container that the program runs in: "docker", "podman",
	// "kubernetes", "apptainer", "containerd", "lxd", "incus", "lxc" or another name. It is ""
	// outside of containers.
	Container string `json:"container"`
	// UID is the number of the user that the program runs as, or -1 on systems where users have no
	// numbers.
	UID int `json:"uid"`
	// Environment has the environment variables that are set and that affect CUDA.
	Environment map[string]string `json:"environment"`
	// EnvironmentIgnored is true if CUDA_DRIVER_LIBRARY is set and was ignored, because the program
	// has rights that its user lacks.
	EnvironmentIgnored bool `json:"environmentIgnored"`

	// NamedBy says who named the only library to try: "program" or "environment". It is "" if
	// Diagnose searched for a library.
	NamedBy string `json:"namedBy"`
	// Library is the library that was taken, or nil.
	Library *LibraryFacts `json:"library"`
	// Candidates are all libraries that were tried, in order.
	Candidates []CandidateFacts `json:"candidates"`

	// Kernel has the kernel's part of NVIDIA's driver.
	Kernel KernelFacts `json:"kernel"`
	// PCIKnown is true if the devices on the PCI bus could be listed.
	PCIKnown bool `json:"pciKnown"`
	// GPUs are NVIDIA's GPUs on the PCI bus, with or without a driver. In a container they are the
	// host's. WSL and Jetson have none on the PCI bus.
	GPUs []PCIDevice `json:"gpus"`
	// Devices are the device files that CUDA needs, and NVIDIA's other device files.
	Devices []DeviceFile `json:"devices"`

	// Init is what cuInit returned, if the program called [Report.AddInit].
	Init *InitResult `json:"init"`
	// Findings are the conclusions: first faults, then warnings, then notes. The first fault is the
	// most likely cause of the other faults.
	Findings []Finding `json:"findings"`
}

// LibraryFacts describes the library that was taken.
type LibraryFacts struct {
	// Name, Source and Path are those of the [Candidate].
	Name   string `json:"name"`
	Source string `json:"source"`
	Path   string `json:"path"`
	// Release is the driver's version in the library's file name, such as "580.95.05", or "".
	Release string `json:"release"`
	// Version is the CUDA version that the driver supports; see [Library.Version].
	Version int `json:"version"`
	// Simulated is true if the library is purecu's software driver, which needs no GPU. Its report
	// says nothing about a GPU.
	Simulated bool `json:"simulated"`
}

// CandidateFacts describes a candidate; see [Candidate].
type CandidateFacts struct {
	Name    string  `json:"name"`
	Source  string  `json:"source"`
	Path    string  `json:"path"`
	Problem Problem `json:"problem"`
	// Error is the text of the candidate's error.
	Error string `json:"error"`
	// Remedy says what to do about NoGlibc and GlibcFailed. It is empty for other problems.
	Remedy string `json:"remedy"`
	// Element is the element of LD_LIBRARY_PATH that led to Path, or "".
	Element string `json:"ldLibraryPathElement"`
}

// KernelFacts describes the kernel's part of the driver.
type KernelFacts struct {
	// Release is the version of the loaded module, such as "580.95.05", or "" if it is not known.
	Release string `json:"release"`
	// Flavor is "open" or "proprietary", or "" if it is not known.
	Flavor string `json:"flavor"`
	// Loaded is true if the kernel has the module nvidia.
	Loaded bool `json:"loaded"`
	// UVM is true if the kernel has the module nvidia-uvm, which CUDA needs.
	UVM bool `json:"uvm"`
	// Nouveau is true if the kernel has the module nouveau, another driver for NVIDIA's GPUs, which
	// does not support CUDA.
	Nouveau bool `json:"nouveau"`
	// HelperInstalled is true if nvidia-modprobe is installed.
	HelperInstalled bool `json:"helperInstalled"`
	// Helper is true if the driver can use nvidia-modprobe to load modules and to create device
	// files when they are needed.
	Helper bool `json:"helper"`
}

// PCIDevice is a GPU on the PCI bus.
type PCIDevice struct {
	// Address is the GPU's address on the bus, such as "0000:01:00.0".
	Address string `json:"address"`
	// ID is the number of the vendor and that of the device, such as "10de:2335".
	ID string `json:"id"`
	// Driver is the kernel's driver that the GPU is bound to: "nvidia", "nouveau", "vfio-pci", or
	// "" if there is none.
	Driver string `json:"driver"`
}

// Access says whether this process can open a device file.
type Access string

const (
	// Granted means that the file was opened for reading and writing.
	Granted Access = "granted"
	// Missing means that there is no such file.
	Missing Access = "missing"
	// Denied means that the file's permissions do not allow it (EACCES).
	Denied Access = "denied"
	// Forbidden means that the permissions allow it, but the rules of a container or a job do not
	// (EPERM).
	Forbidden Access = "forbidden"
	// NoDriver means that no device belongs to the file: the kernel's module is not loaded, or has
	// no such device (ENXIO, ENODEV).
	NoDriver Access = "no-driver"
	// Broken means that the device does not answer (EIO), or that opening the file did not end.
	Broken Access = "broken"
	// Failed means that opening the file failed for another reason.
	Failed Access = "failed"
)

// DeviceFile is a file in /dev.
type DeviceFile struct {
	Path   string `json:"path"`
	Access Access `json:"access"`
	// Error says why the file cannot be opened.
	Error string `json:"error"`
	// Mode is the type and the permissions of the file, such as "crw-rw-rw-".
	Mode string `json:"mode"`
	// UID and GID are the owner and the group of the file. Group is the name of the group, or "".
	// All three mean nothing if the file is missing.
	UID   int    `json:"uid"`
	GID   int    `json:"gid"`
	Group string `json:"group"`
}

// InitResult is what cuInit returned.
type InitResult struct {
	Code int32 `json:"code"`
	// Name is the name of the C constant, or "" for a code that cuInit is not known to return.
	Name string `json:"name"`
}

// Severity says how bad a [Finding] is.
type Severity string

const (
	// Fault is a reason why CUDA does not work.
	Fault Severity = "fault"
	// Warning is a reason why CUDA does not work in some programs, or will not work later.
	Warning Severity = "warning"
	// Note is information that may help.
	Note Severity = "note"
	// Fine is the severity of a verdict if there is no fault.
	Fine Severity = "fine"
)

// Finding is a conclusion from the facts of a [Report].
type Finding struct {
	Severity Severity `json:"severity"`
	// Title says what is wrong.
	Title string `json:"title"`
	// Detail names the facts that the finding follows from.
	Detail string `json:"detail"`
	// Fix says what to do. It is a shell command if there is one. Replace the words in capital
	// letters in it.
	Fix string `json:"fix"`
}

// Option is an option for [Diagnose].
type Option func(*options)

type options struct{ path string }

// WithLibrary makes Diagnose try only the library at this path, like [Open] with a path.
func WithLibrary(path string) Option { return func(o *options) { o.path = path } }

// Diagnose finds out what keeps CUDA from working on this machine, and what to do about it. It
// searches for the driver as [Open] does, reads the files in which the kernel and the system
// describe themselves, and opens and closes the device files of the GPUs. Opening the device file
// of an unused GPU wakes the GPU up, which can take seconds. Diagnose starts no process and does
// not initialise the driver. Add the result of cuInit with [Report.AddInit].
//
// Diagnose never fails and does not wait forever. If loading a library or opening a device file
// takes longer than about half a minute, Diagnose reports that and does not wait any longer. The
// thread that loads or opens stays blocked.
func Diagnose(opts ...Option) *Report {
	var o options
	for _, f := range opts {
		if f != nil {
			f(&o)
		}
	}
	m := machine{system: thisSystem(), openDevice: openDevice, uid: os.Geteuid(), after: time.After}
	return m.diagnose(o.path)
}

// These are the times that Diagnose waits. Opening a device file wakes its GPU up, and the kernel
// wakes the GPUs one after the other.
const (
	libraryPatience = 30 * time.Second
	devicePatience  = 20 * time.Second // and more for each device file
	morePatience    = 3 * time.Second
)

// machine is the machine that Diagnose examines.
type machine struct {
	*system
	openDevice func(file string) error // for reading and writing; closes the file too
	uid        int
	after      func(time.Duration) <-chan time.Time
}

// openWithin calls open, and stops waiting for it after a time.
func (m *machine) openWithin(path string) (*Library, []Candidate) {
	type outcome struct {
		lib   *Library
		tried []Candidate
	}
	var mu sync.Mutex
	var soFar []Candidate
	done := make(chan outcome, 1)
	go func() {
		lib, tried := m.search(cudaDriver(), path, func(tried []Candidate, next Candidate) {
			next.Problem = Stuck
			next.Err = because(next.Name, "loading it has not ended after "+libraryPatience.String(), nil)
			mu.Lock()
			defer mu.Unlock()
			soFar = append(slices.Clone(tried), next)
		})
		done <- outcome{lib, tried}
	}()
	select {
	case o := <-done:
		return o.lib, o.tried
	case <-m.after(libraryPatience):
		mu.Lock()
		defer mu.Unlock()
		return nil, soFar
	}
}

func (m *machine) diagnose(path string) *Report {
	r := &Report{
		Platform: m.platform, UID: m.uid, Environment: map[string]string{}, DistributionIDs: []string{},
		Candidates: []CandidateFacts{}, GPUs: []PCIDevice{}, Devices: []DeviceFile{},
	}
	for _, key := range []string{
		Environment, "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES",
		"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "SLURM_JOB_ID",
	} {
		if v, set := m.lookupEnv(key); set {
			r.Environment[key] = v
		}
	}
	named := r.Environment[Environment] != ""
	r.EnvironmentIgnored = named && m.elevated()
	switch {
	case path != "":
		r.NamedBy = "program"
	case named && !r.EnvironmentIgnored:
		r.NamedBy = "environment"
	}
	lib, tried := m.openWithin(path)
	if lib != nil {
		r.Library = &LibraryFacts{
			Name: lib.Name(), Source: lib.Source(), Path: lib.Path(), Version: lib.Version(),
			Release: releaseOf(lib.Path()),
		}
		r.Library.Simulated = lib.Simulated()
	}
	for _, c := range tried {
		f := CandidateFacts{Name: c.Name, Source: c.Source, Path: c.Path, Problem: c.Problem, Element: m.elementOf(c)}
		if c.Err != nil {
			f.Error, f.Remedy = c.reason(), c.remedy()
		}
		r.Candidates = append(r.Candidates, f)
	}
	m.gather(r)
	r.Findings = r.judge()
	return r
}

// AddInit adds the result of cuInit to the report, and draws the conclusions again.
func (r *Report) AddInit(code int32) {
	name, _ := initMeaning(code)
	r.Init = &InitResult{Code: code, Name: name}
	r.Findings = r.judge()
}

// Verdict returns the first fault, which is the most likely cause of the other faults. If there is
// no fault, it returns a finding that is [Fine].
func (r *Report) Verdict() Finding {
	if len(r.Findings) > 0 && r.Findings[0].Severity == Fault {
		return r.Findings[0]
	}
	switch {
	case r.Library != nil && r.Library.Simulated:
		return Finding{Severity: Fine, Title: "the driver is simulated: it says nothing about a GPU"}
	case r.Init != nil:
		return Finding{Severity: Fine, Title: "CUDA works: cuInit succeeded"}
	}
	return Finding{
		Severity: Fine, Title: "no fault was found",
		Detail: "the driver was not initialised, so cuInit can still fail",
	}
}

// Simulated reports whether the library is purecu's software driver, which needs no GPU.
func (l *Library) Simulated() bool {
	_, err := l.Symbol("cusim_simulated") // only the software driver exports it
	return err == nil
}

// releaseOf returns the version of the driver in the file name of a library, such as
// libcuda.so.580.95.05, or "".
func releaseOf(path string) string {
	i := strings.LastIndex(path, ".so.")
	if i < 0 || !isRelease(path[i+len(".so."):]) {
		return ""
	}
	return path[i+len(".so."):]
}

// isRelease reports whether s looks like a version of the driver: two or three numbers, of which
// the first has at least three digits. The version of the library's interface, 1.1, is no such
// version.
func isRelease(s string) bool {
	parts := strings.Split(s, ".")
	if len(parts) < 2 || len(parts) > 3 || len(parts[0]) < 3 {
		return false
	}
	for _, p := range parts {
		if p == "" || strings.Trim(p, "0123456789") != "" {
			return false
		}
	}
	return true
}

// String returns the report as text. The last lines are the verdict and its fix.
func (r *Report) String() string {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", label, fmt.Sprintf(format, args...))
	}
	yes := func(is bool, text string) string {
		if is {
			return ", " + text
		}
		return ""
	}

	line("platform", "%s%s%s%s%s", r.Platform, yes(r.Distribution != "", r.Distribution), yes(r.WSL, "WSL"),
		yes(r.Jetson, "Jetson"), yes(r.OnlyMusl, "musl"))
	if r.Container != "" {
		line("container", "%s", r.Container)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Environment)) {
		line("environment", "%s=%q%s", key, r.Environment[key],
			yes(key == Environment && r.EnvironmentIgnored, "ignored"))
	}
	for _, c := range r.Candidates {
		label, text := "tried", c.Error
		if c.Problem == "" {
			label, text = "taken", c.Path
		}
		line(label, "%s (%s): %s", c.Name, c.Source, text)
	}
	if l := r.Library; l != nil {
		line("library", "CUDA %d.%d%s", l.Version/1000, l.Version%1000/10, yes(l.Release != "", "driver "+l.Release))
	}
	if strings.HasPrefix(r.Platform, "linux/") {
		k := r.Kernel
		switch {
		case k.Loaded:
			line("kernel", "nvidia%s%s%s%s", yes(k.Release != "", k.Release), yes(k.Flavor != "", k.Flavor),
				yes(k.UVM, "nvidia-uvm"), yes(k.Nouveau, "nouveau"))
		default:
			line("kernel", "no nvidia%s", yes(k.Nouveau, "nouveau"))
		}
		if r.PCIKnown && len(r.GPUs) == 0 {
			line("gpu", "none on the PCI bus")
		}
	}
	for _, g := range r.GPUs {
		driver := "no driver"
		if g.Driver != "" {
			driver = "driven by " + g.Driver
		}
		line("gpu", "%s %s, %s", g.Address, g.ID, driver)
	}
	for _, d := range r.Devices {
		if d.Access == Missing {
			line("device", "%s: %s", d.Path, d.Access)
			continue
		}
		line("device", "%s %s %d:%d: %s%s", d.Path, d.Mode, d.UID, d.GID, d.Access, yes(d.Error != "", d.Error))
	}
	if r.Init != nil {
		line("cuInit", "%s", r.Init)
	}
	for _, f := range r.Findings {
		line(string(f.Severity), "%s", f.Title)
		if f.Detail != "" {
			line("", "%s", f.Detail)
		}
		if f.Fix != "" {
			line("", "fix: %s", f.Fix)
		}
	}
	v := r.Verdict()
	line("verdict", "%s", v.Title)
	if v.Fix != "" {
		line("fix", "%s", v.Fix)
	}
	return b.String()
}

// String returns the name and the number.
func (i InitResult) String() string {
	if i.Name == "" {
		return fmt.Sprintf("CUresult %d", i.Code)
	}
	return fmt.Sprintf("%s (%d)", i.Name, i.Code)
}
