package loader

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/purecu/purecu/internal/ccall"
)

// fixture is a simulated machine in a folder.
type fixture struct {
	root     string
	env      map[string]string
	searched []string                 // folders that the system's loader searches after LD_LIBRARY_PATH
	refused  map[string]syscall.Errno // errors of opening device files
	loaded   []string                 // files that the system's loader was asked for
	asked    []string                 // bare names that it was asked for
	tooLong  chan time.Time           // ends the waits for something that hangs
	noGlibc  error                    // why a static program cannot load any library
}

// part adds something to a machine.
type part func(t *testing.T, f *fixture)

// newFixture builds a machine. It skips the test if that is not possible here.
func newFixture(t *testing.T, parts ...part) *fixture {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{root: root, env: map[string]string{}, refused: map[string]syscall.Errno{}}
	for _, p := range parts {
		p(t, f)
	}
	return f
}

// machine returns the machine as this package sees it.
func (f *fixture) machine() *machine {
	return &machine{
		system: &system{
			root:      f.root,
			platform:  "linux/amd64", // on every platform of the tests
			lookupEnv: func(key string) (string, bool) { v, set := f.env[key]; return v, set },
			elevated:  func() bool { return false },
			dlopen:    f.dlopen,
		},
		openDevice: func(file string) error {
			if errno, refused := f.refused[strings.TrimPrefix(file, f.root)]; refused {
				return errno
			}
			return openDevice(file)
		},
		uid:   1000,
		after: func(time.Duration) <-chan time.Time { return f.tooLong },
	}
}

// dlopen simulates how the system's loader searches for a name.
func (f *fixture) dlopen(name string) (ccall.Library, error) {
	if f.noGlibc != nil {
		return ccall.Library{}, f.noGlibc
	}
	if strings.Contains(name, "/") {
		f.loaded = append(f.loaded, strings.TrimPrefix(name, f.root))
		return ccall.Open(name)
	}
	f.asked = append(f.asked, name)
	var folders []string
	if v := f.env["LD_LIBRARY_PATH"]; v != "" {
		folders = strings.Split(v, ":")
	}
	for _, folder := range append(folders, f.searched...) {
		file := filepath.Join(f.root+folder, name)
		b, err := os.ReadFile(file)
		if err != nil || len(b) >= 20 && uint16(b[18])|uint16(b[19])<<8 != ownMachine() {
			continue
		}
		f.loaded = append(f.loaded, strings.TrimPrefix(file, f.root))
		return ccall.Open(file)
	}
	return ccall.Library{}, errors.New(name + ": cannot open shared object file: No such file or directory")
}

// file adds a file with this content.
func file(name, content string) part {
	return func(t *testing.T, f *fixture) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(f.root+name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.root+name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// glibcFailed adds a glibc that cannot be started in a static program.
func glibcFailed(why error) part {
	return func(_ *testing.T, f *fixture) { f.noGlibc = fmt.Errorf("%w: %w", ccall.ErrGlibcFailed, why) }
}

// noGlibc makes the machine lack a glibc for static programs.
func noGlibc(why string) part {
	return func(_ *testing.T, f *fixture) { f.noGlibc = fmt.Errorf("%w: %s", ccall.ErrNoGlibc, why) }
}

// folder adds an empty folder.
func folder(name string) part {
	return func(t *testing.T, f *fixture) {
		t.Helper()
		if err := os.MkdirAll(f.root+name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// link adds a symbolic link.
func link(name, target string) part {
	return func(t *testing.T, f *fixture) {
		t.Helper()
		if filepath.IsAbs(target) {
			target = f.root + target
		}
		if err := os.MkdirAll(filepath.Dir(f.root+name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, f.root+name); err != nil {
			t.Fatal(err)
		}
	}
}

// with sets an environment variable.
func with(key, value string) part {
	return func(_ *testing.T, f *fixture) { f.env[key] = value }
}

// opening makes opening a device file fail.
func opening(name string, errno syscall.Errno) part {
	return func(_ *testing.T, f *fixture) { f.refused[name] = errno }
}

// cached adds the driver's libraries in these folders to the cache of the system's loader. It must
// come after the libraries, and only once.
func cached(folders ...string) part {
	return func(t *testing.T, f *fixture) {
		f.searched = folders
		var entries []cacheEntry
		for _, folder := range folders {
			for _, name := range []string{"libcuda.so.1", "libcuda.so"} {
				if _, err := os.Lstat(f.root + folder + "/" + name); err == nil {
					entries = append(entries, cacheEntry{name, folder + "/" + name, 0})
				}
			}
		}
		file("/etc/ld.so.cache", string(cacheFile(entries...)))(t, f)
	}
}

// The fixtures are built from these libraries.
const (
	real      = "real"      // a driver
	stub      = "stub"      // the toolkit's stub
	noDriver  = "no driver" // a library without cuInit
	truncated = "truncated" // a driver without its end
	foreign   = "foreign"   // a driver for another machine
	companion = "companion" // NVML, NVRTC and NVENC in one
	text      = "text"      // a text file
	empty     = "empty"
)

// compiled returns the libraries, or an error that is a reason to skip the test.
var compiled = sync.OnceValues(func() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "loader")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	libs := map[string]string{text: "version 1", empty: ""}
	for kind, source := range map[string]string{real: goodDriver, stub: stubDriver, noDriver: noInit,
		companion: companionLibrary} {
		lib := filepath.Join(dir, "lib.so")
		if err := compile(lib, source); err != nil {
			return nil, err
		}
		b, err := os.ReadFile(lib)
		if err != nil {
			return nil, err
		}
		libs[kind] = string(b)
	}
	libs[truncated] = libs[real][:len(libs[real])/2]
	other := byte(elfAMD64)
	if runtime.GOARCH == "amd64" {
		other = elfARM64
	}
	libs[foreign] = string(changed([]byte(libs[real]), 18, other, 0))
	return libs, nil
})

// library adds a shared library of a kind.
func library(name, kind string) part {
	return func(t *testing.T, f *fixture) {
		t.Helper()
		libs, err := compiled()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skipf("there is no C compiler: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
		file(name, libs[kind])(t, f)
	}
}

// all adds several parts.
func all(parts ...part) part {
	return func(t *testing.T, f *fixture) {
		for _, p := range parts {
			p(t, f)
		}
	}
}

const release = "580.95.05"

// installed adds the driver's library to a folder, as packages do.
func installed(folder string) part {
	return all(library(folder+"/libcuda.so."+release, real), link(folder+"/libcuda.so.1", "libcuda.so."+release))
}

// pci adds a PCI bus with a network card, and with a GPU for each driver. The driver "" stands for
// a GPU without a driver.
func pci(drivers ...string) part {
	const bus = "/sys/bus/pci/devices/"
	parts := []part{
		file(bus+"0000:00:01.0/vendor", "0x8086\n"),
		file(bus+"0000:00:01.0/class", "0x020000\n"),
		// This is an NVSwitch, not a GPU.
		file(bus+"0000:00:02.0/vendor", "0x10de\n"),
		file(bus+"0000:00:02.0/class", "0x068000\n"),
	}
	for i, driver := range drivers {
		dev := bus + "0000:0" + string(rune('1'+i)) + ":00.0"
		parts = append(parts, file(dev+"/vendor", "0x10de\n"), file(dev+"/class", "0x030200\n"),
			file(dev+"/device", "0x2335\n"))
		if driver != "" {
			parts = append(parts, folder("/sys/bus/pci/drivers/"+driver),
				link(dev+"/driver", "/sys/bus/pci/drivers/"+driver))
		}
	}
	return all(parts...)
}

// modules adds NVIDIA's modules to the kernel.
func modules(release string) part {
	return all(
		file("/sys/module/nvidia/version", release+"\n"),
		folder("/sys/module/nvidia_uvm"),
		file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "+release+
			"  Release Build  (builder@host)  Tue Sep 23 09:55:41 UTC 2025\nGCC version:  gcc version 12.2.0\n"),
	)
}

// nodes adds device files. Regular files are sufficient here.
func nodes(names ...string) part {
	var parts []part
	for _, n := range names {
		parts = append(parts, file("/dev/"+n, ""))
	}
	return all(parts...)
}

// gpu adds a GPU that works, without the driver's library.
func gpu() part {
	return all(pci("nvidia"), modules(release), nodes("nvidia0", "nvidiactl", "nvidia-uvm"))
}

// distribution adds the names of the system.
func distribution(id, like string) part {
	return file("/etc/os-release", "PRETTY_NAME=\"The "+id+" system\"\nID="+id+"\nID_LIKE=\""+like+"\"\n")
}

var (
	debian = distribution("debian", "")
	ubuntu = distribution("ubuntu", "debian")
	docker = file("/.dockerenv", "")
	wsl    = file("/proc/sys/kernel/osrelease", "6.6.87.2-microsoft-standard-WSL2\n")
	jetson = file("/etc/nv_tegra_release", "# R36 (release), REVISION: 4.3\n")
)
