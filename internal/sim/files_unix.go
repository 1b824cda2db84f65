//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Files that processes share are in a folder in memory if there is one. Where the system can create
// a file without a name, there is nothing to remove, whenever the process ends. Elsewhere a file has
// a name until it is removed, and the process that has created it holds a lock on it. The lock ends
// with the process, and is visible in all containers that share the folder. So a file without a lock
// is abandoned: it is not opened, and the next process that creates a file removes it.

// The names of files begin with these.
const (
	ipcPrefix    = "purecu-ipc-"
	memoryPrefix = "purecu-memory-"
)

// sharedDirs returns the folders that files may be in, the best one first.
func sharedDirs() []string { return slices.Compact([]string{"/dev/shm", os.TempDir()}) }

// newNumber returns a number that no other process has. The generator of math/rand does not suffice: Go seeds it with
// what the kernel gives a program when it starts, and processes that a program has forked have that in common.
func newNumber() (id ipcID) {
	if f, err := os.Open("/dev/urandom"); err == nil {
		defer f.Close()
		if _, err := io.ReadFull(f, id[:]); err == nil {
			return id
		}
	}
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64()^uint64(time.Now().UnixNano()))
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64()^uint64(os.Getpid()))
	return id
}

// filePath returns the path of a file with a name.
func filePath(dir, prefix string, id ipcID) string {
	return filepath.Join(dir, prefix+hex.EncodeToString(id[:]))
}

// inSharedDirs calls create for each folder until it succeeds.
func inSharedDirs(create func(dir string) error) error {
	dirs := sharedDirs()
	for _, dir := range dirs {
		sweep(dir)
	}
	var errs []error
	for _, dir := range slices.Concat(dirs, dirs) { // another process may sweep a file at once
		err := create(dir)
		if err == nil {
			return nil
		}
		if len(errs) < len(dirs) {
			errs = append(errs, fmt.Errorf("%s: %w", dir, underlying(err)))
		}
	}
	return errors.Join(errs...)
}

// underlying returns what a system call has returned.
func underlying(err error) error {
	if path := new(fs.PathError); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// createNamed creates a file with a name, and locks it. If another process sweeps the file at this
// moment, either the lock fails or the name is gone.
func createNamed(path string) (file *os.File, locked error, err error) {
	if file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, nil, err
	}
	return file, syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), nil
}

// createUnnamed creates a file without a name. If the system cannot, the file has one for a moment.
func createUnnamed(dir, prefix string) (*os.File, error) {
	if file, err := unnamedFile(dir); err == nil {
		return file, nil
	}
	path := filePath(dir, prefix, newNumber())
	file, _, err := createNamed(path)
	if err == nil {
		_ = os.Remove(path) // it may have been swept
	}
	return file, err
}

// limited returns an error if the process must not write files of a size. The system would send
// SIGXFSZ, which ends it.
func limited(size uint64) error {
	var most syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_FSIZE, &most) == nil && size > uint64(most.Cur) {
		return os.NewSyscallError("ulimit -f", syscall.EFBIG)
	}
	return nil
}

// sweep removes the files of processes that have ended without removing them.
func sweep(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if !strings.HasPrefix(name, ipcPrefix) && !strings.HasPrefix(name, memoryPrefix) {
			continue
		}
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if file, err := openNamed(path); err == nil {
			if abandoned(file) {
				_ = os.Remove(path)
			}
			_ = file.Close()
		}
	}
}

// openNamed opens a file in a folder in which others may write. It does not follow links, and does
// not block.
func openNamed(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// abandoned reports whether the process that has created a file with a name has ended.
func abandoned(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil
}

// sameFile reports whether a path names the file with this info.
func sameFile(path string, info os.FileInfo) bool {
	other, err := os.Stat(path)
	return err == nil && os.SameFile(other, info)
}

// lacksDescriptor reports whether a call has failed for lack of a file descriptor.
func lacksDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// lacksMachine reports whether a call has failed for lack of a file descriptor or of memory.
func lacksMachine(err error) bool { return lacksDescriptor(err) || errors.Is(err, syscall.ENOMEM) }

// growError is the error of a file in a folder that cannot become larger.
type growError struct {
	dir string
	err error
}

// Error names the folder.
func (e *growError) Error() string { return e.dir + ": " + e.err.Error() }

// Unwrap returns the error of the system.
func (e *growError) Unwrap() error { return e.err }

// shortage returns what is wrong and what to do, if a file of a size could not be created, opened or
// mapped.
func shortage(err error, size uint64) string {
	why := strings.ReplaceAll(err.Error(), "\n", "; ")
	switch {
	case errors.Is(err, syscall.EMFILE):
		return "the process has no free file descriptor: close files, or raise its limit (ulimit -n)"
	case errors.Is(err, syscall.ENFILE):
		return "the system has no free file descriptor: end processes, or raise its limit (/proc/sys/fs/file-max)"
	case errors.Is(err, syscall.EFBIG):
		return "the process may not write a file of " + kibibytes(size) + ": raise its limit (ulimit -f)"
	case errors.Is(err, syscall.ENOMEM):
		return "the memory cannot be mapped (" + why + "): raise the limit of the process for addresses (ulimit -v), or " +
			"free memory of the system"
	case errors.As(err, new(*growError)):
		return "the file of what processes share cannot become larger (" + why + "): make room for " + kibibytes(size) +
			" in this folder (in a container: --shm-size)"
	}
	return "no file for what processes share can be created (" + why + "): make one of these folders writable, with " +
		kibibytes(size) + " free (in a container: --shm-size), or set TMPDIR to another one"
}

// kibibytes returns a size as a text, rounded up.
func kibibytes(size uint64) string { return fmt.Sprint((size+1023)>>10, " KiB") }
