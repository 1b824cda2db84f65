//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"
)

// A file of slots is in a directory in memory if there is one. Where other processes can open it
// through the process that has created it (/proc), it has no name, and ends with the last process
// that has it open. Elsewhere it has a name, which the driver that has created it removes with its
// last event. While that process lives it holds a lock on the file. A file without a lock is
// abandoned: it is not opened, and the next process that creates a file removes it.

const (
	ipcPageSize = int(unsafe.Sizeof(ipcPage{}))
	ipcPrefix   = "purecu-ipc-"
)

// ipcMapping is a mapped file. It does not refer to its ipcFile, so that the garbage collector can
// find an abandoned ipcFile.
type ipcMapping struct {
	memory  []byte
	file    *os.File // nil in processes that have not created the file
	path    string   // "" if the file has no name
	cleanup runtime.Cleanup
}

// end unmaps the file, and removes it if this process has created it. Other processes keep their
// mappings.
func (m *ipcMapping) end() {
	_ = syscall.Munmap(m.memory) // cannot fail, as it is mapped
	if m.path != "" {
		_ = os.Remove(m.path) // another process may have removed it
	}
	if m.file != nil {
		_ = m.file.Close() // after the unmapping this ends the lock
	}
}

// close ends the mapping. Pointers into the page must not be used afterwards.
func (f *ipcFile) close() {
	f.cleanup.Stop()
	f.page = nil
	f.end()
}

// descriptor returns the number by which other processes find a file without a name.
func (f *ipcFile) descriptor() int32 {
	if f.path != "" {
		return -1
	}
	return int32(f.file.Fd())
}

// mapIPC maps a file of slots. If the driver and all its events are abandoned, the mapping ends.
func mapIPC(file *os.File) (*ipcFile, error) {
	memory, err := syscall.Mmap(int(file.Fd()), 0, ipcPageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	// The memory is outside of Go's heap, does not move until the mapping ends, begins at a page,
	// and is as long as the structure, which contains no pointers.
	f := &ipcFile{ipcMapping: &ipcMapping{memory: memory}, page: (*ipcPage)(unsafe.Pointer(unsafe.SliceData(memory)))}
	f.cleanup = runtime.AddCleanup(f, (*ipcMapping).end, f.ipcMapping)
	return f, nil
}

// newIPCFile creates a file of slots. It has a name if named is set, or if other processes cannot
// find it otherwise.
func newIPCFile(named bool) (*ipcFile, error) {
	var errs []error
	for _, dir := range slices.Repeat(ipcDirs(), 2) { // another process may sweep the file at once
		f, err := newIPCFileIn(dir, named)
		if err == nil {
			return f, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// ipcDirs returns the directories that files of slots may be in, the best one first.
func ipcDirs() []string { return []string{"/dev/shm", os.TempDir()} }

func newIPCFileIn(dir string, named bool) (f *ipcFile, err error) {
	sweepIPC(dir)
	var id ipcID
	_, _ = rand.Read(id[:]) // never fails
	path := ipcPath(dir, id)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path)
			_ = file.Close()
		}
	}()
	// The lock fails if another process sweeps the file at this moment.
	locked := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	// Write all bytes, so that a lack of space is an error now, and not a fault later.
	if _, err = file.Write(make([]byte, ipcPageSize)); err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !named && sameFile(ipcProcPath(os.Getpid(), int32(file.Fd())), info):
		_ = os.Remove(path) // it may have been swept
		path = ""
	case locked != nil:
		return nil, &os.PathError{Op: "flock", Path: path, Err: locked}
	case !sameFile(path, info):
		return nil, &os.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist} // it was swept
	}
	if f, err = mapIPC(file); err != nil {
		return nil, err
	}
	f.file, f.path, f.mine = file, path, true
	f.page.magic, f.page.version, f.page.id = ipcMagic, ipcVersion, id
	return f, nil
}

func ipcPath(dir string, id ipcID) string {
	return filepath.Join(dir, ipcPrefix+hex.EncodeToString(id[:]))
}

// ipcProcPath returns the path of a file that a process has open, in /proc.
func ipcProcPath(pid int, fd int32) string { return fmt.Sprintf("/proc/%d/fd/%d", pid, fd) }

// sameFile reports whether a path names the file with this info.
func sameFile(path string, info os.FileInfo) bool {
	other, err := os.Stat(path)
	return err == nil && os.SameFile(other, info)
}

// sweepIPC removes files of processes that have ended without removing them.
func sweepIPC(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // then no file can be created here either
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ipcPrefix) || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if file, err := openNamed(path); err == nil {
			if abandoned(file) {
				_ = os.Remove(path)
			}
			_ = file.Close()
		}
	}
}

// openNamed opens a file in a directory in which others may write. It does not follow links, and
// does not block.
func openNamed(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// abandoned reports whether the process that has created a file with a name has ended.
func abandoned(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil
}

// openIPCFile maps the file of slots of another process.
func openIPCFile(h *ipcHandle) (*ipcFile, error) {
	file, err := findIPCFile(h)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !ipcLike(info) {
		return nil, errNoIPCFile
	}
	f, err := mapIPC(file)
	if err != nil {
		return nil, err
	}
	if f.page.magic != ipcMagic || f.page.version != ipcVersion || f.page.id != h.file {
		f.close()
		return nil, errNoIPCFile
	}
	return f, nil
}

// ipcLike reports whether a file can be a file of slots.
func ipcLike(info os.FileInfo) bool {
	return info.Mode().IsRegular() && info.Size() == int64(ipcPageSize)
}

func findIPCFile(h *ipcHandle) (*os.File, error) {
	if h.fd >= 0 {
		path := ipcProcPath(int(h.pid), h.fd)
		// The number may belong to another process by now, and the descriptor to any file. Do not
		// open it without a check, as opening a device can have effects.
		switch info, err := os.Stat(path); {
		case err != nil:
			return nil, err
		case !ipcLike(info):
			return nil, errNoIPCFile
		}
		return os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	}
	for _, dir := range ipcDirs() {
		if file, err := openNamed(ipcPath(dir, h.file)); err == nil {
			if !abandoned(file) {
				return file, nil
			}
			_ = file.Close()
		}
	}
	return nil, errNoIPCFile
}

// pidNamespace returns the identifier of the namespace of process numbers, or 0 if it is not known.
func pidNamespace() uint64 {
	var st syscall.Stat_t
	if syscall.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return uint64(st.Ino)
}
