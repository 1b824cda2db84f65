package softlib

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
)

// lacksEnv says what the process of lacks does not have: descriptors, or a kind of folder.
const lacksEnv = "PURECU_TEST_LACKS"

// TestLacks makes the calls that need file descriptors, or files that processes share, without either. Their errors
// say what is short, or name the folders, and do not speak of the GPU's memory. Afterwards the calls succeed.
func TestLacks(t *testing.T) {
	for _, driver := range []string{"software", "library"} {
		for _, lacks := range []string{"descriptors", "room", "a folder to write to"} {
			t.Run(driver+" lacks "+lacks, func(t *testing.T) {
				t.Parallel()
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), childEnv+"=lacks", lacksEnv+"="+lacks, "TMPDIR="+t.TempDir())
				if driver == "library" {
					cmd.Env = append(cmd.Env, libraryEnv+"="+library(t))
				}
				if lacks != "descriptors" { // the process needs file systems of its own
					cmd.SysProcAttr = &syscall.SysProcAttr{
						Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
						UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
						GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
					}
				}
				var out strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Skip("no process with other file systems: ", err)
				}
				err := cmd.Wait()
				if strings.HasPrefix(out.String(), noFileSystems) {
					t.Skip(out.String())
				}
				if err != nil || out.String() != "" {
					t.Errorf("%v\n%s", err, out.String())
				}
			})
		}
	}
}

// noFileSystems is what the process says if it may not mount file systems.
const noFileSystems = "no file system can be mounted: "

// growsFile is a need whose file exists.
const growsFile = "memory.Pool.Alloc"

// need is a call that needs something. It returns what it has made.
type need struct {
	name string
	call func() (interface{ Close() error }, error)
}

func lacks(path string) (err error) {
	take := takeFolders
	if os.Getenv(lacksEnv) == "descriptors" {
		take = takeDescriptors
	}
	o := cu.WithSoftware(cusim.New())
	if path != "" {
		o = cu.WithLibrary(path)
	}
	drv, err := cu.Open(o)
	if err != nil {
		return err
	}
	dev, err := drv.Device(0)
	if err != nil {
		return err
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gpu.Close()) }()
	s, err := gpu.NewStream(cu.StreamNonBlocking)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	physical, err := memory.NewPhysical(gpu, 2<<20, memory.PhysicalOptions{Shareable: true})
	if err != nil {
		return err
	}
	pool, err := memory.NewPool(gpu, memory.PoolOptions{Shareable: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close(), physical.Close()) }()
	needs := []need{
		{"memory.IPCHandleOf", func() (interface{ Close() error }, error) {
			m, err := gpu.Alloc(4 << 20)
			if err == nil {
				_, err = memory.IPCHandleOf(m)
			}
			return m, err
		}},
		{"Event.IPCHandle", func() (interface{ Close() error }, error) {
			e, err := gpu.NewEvent(cu.EventInterprocess | cu.EventDisableTiming)
			if err == nil {
				_, err = e.IPCHandle(context.Background())
			}
			return e, err
		}},
		{"memory.NewPhysical", func() (interface{ Close() error }, error) {
			return memory.NewPhysical(gpu, 4<<20, memory.PhysicalOptions{Shareable: true})
		}},
	}
	ofPool := []need{{"memory.NewPool", func() (interface{ Close() error }, error) {
		return memory.NewPool(gpu, memory.PoolOptions{Shareable: true})
	}}}
	wants := []string{"/dev/shm", os.TempDir(), "--shm-size", "TMPDIR"}
	switch os.Getenv(lacksEnv) {
	case "descriptors":
		wants = []string{"ulimit -n"}
		needs = append(append(needs, ofPool...),
			need{"memory.Physical.Export", func() (interface{ Close() error }, error) { return physical.Export() }},
			need{"memory.Pool.Export", func() (interface{ Close() error }, error) { return pool.Export() }})
	case "room": // a new pool needs none, only its memory
		wants = append(wants, "no space left")
		needs = append(needs, need{growsFile, func() (interface{ Close() error }, error) {
			p, err := memory.NewPool(gpu, memory.PoolOptions{Shareable: true})
			if err != nil {
				return nil, err
			}
			m, err := p.Alloc(s, 4<<20)
			if err != nil {
				return nil, errors.Join(err, p.Close())
			}
			return m, p.Close()
		}})
	default:
		wants = append(wants, "read-only file system")
		needs = append(needs, ofPool...)
	}
	back, err := take()
	if err != nil {
		return err
	}
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, n := range needs {
		switch made, err := n.call(); {
		case err == nil:
			problem("%s succeeded", n.name)
			made.Close()
		case strings.Contains(err.Error(), "nvidia-smi"), strings.Contains(err.Error(), "dmesg"):
			problem("%s: %v", n.name, err)
		default:
			for _, want := range wants {
				// its file is in the other folder already
				if n.name == growsFile && (want == "TMPDIR" || want == os.TempDir()) {
					continue
				}
				if !strings.Contains(err.Error(), want) {
					problem("%s does not say %q: %v", n.name, want, err)
				}
			}
		}
	}
	called := make(chan bool, 1)
	if err := s.HostFunc(func() { called <- true }); err != nil &&
		(len(wants) != 1 || !strings.Contains(err.Error(), wants[0])) {
		problem("HostFunc: %v", err)
	} else if err == nil {
		if err := s.Synchronize(); err != nil || len(called) != 1 {
			problem("the host function was not called: %v", err)
		}
	}
	if err := back(); err != nil {
		return err
	}
	for _, n := range needs {
		made, err := n.call()
		if err == nil {
			err = made.Close()
		}
		if err != nil {
			problem("%s, when all is there again: %v", n.name, err)
		}
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "\n"))
	}
	return nil
}

// takeDescriptors leaves the process no file descriptor. Its runtime has what it needs.
func takeDescriptors() (back func() error, err error) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		return nil, err
	}
	few := syscall.Rlimit{Cur: 64, Max: old.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		return nil, err
	}
	var fds []int
	for {
		fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		fds = append(fds, fd)
	}
	return func() (err error) {
		for _, fd := range fds {
			err = errors.Join(err, syscall.Close(fd))
		}
		return errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old))
	}, nil
}

// takeFolders makes the folders for files that processes share full, or forbids to write to them.
func takeFolders() (back func() error, err error) {
	flags, data := uintptr(syscall.MS_RDONLY), ""
	if os.Getenv(lacksEnv) == "room" {
		flags, data = 0, "size=4096"
	}
	dirs := []string{"/dev/shm", os.TempDir()}
	for _, dir := range dirs {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, data); err != nil {
			return nil, fmt.Errorf("%s%s: %w", noFileSystems, dir, err)
		}
		if flags == 0 {
			if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 4096), 0o600); err != nil {
				return nil, err
			}
		}
	}
	return func() (err error) {
		for _, dir := range dirs {
			err = errors.Join(err, syscall.Unmount(dir, syscall.MNT_DETACH))
		}
		return err
	}, nil
}
