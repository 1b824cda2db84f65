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

// A file of slots is in memory, where there is a directory for that, and has no name,
// where other processes can open it through the process that made it: then it ends
// with the last process that has it. Elsewhere it has a name, which the driver that
// made it removes with its last event. As long as that process lives it holds a lock
// on the file. What is not locked was left behind, is not opened any more, and is
// removed by whoever makes the next file.

const (
	ipcPageSize = int(unsafe.Sizeof(ipcPage{}))
	ipcPrefix   = "purecu-ipc-"
)

// ipcMapping is a file in memory. It knows nothing of its ipcFile, so that the garbage
// collector can end it.
type ipcMapping struct {
	memory  []byte
	file    *os.File // nil in processes that did not make it
	path    string   // "" if the file has no name
	cleanup runtime.Cleanup
}

// end unmaps the file, and removes it if this process made it. Others that have it
// keep it.
func (m *ipcMapping) end() {
	_ = syscall.Munmap(m.memory) // it was mapped
	if m.path != "" {
		_ = os.Remove(m.path) // somebody else may have done it
	}
	if m.file != nil {
		_ = m.file.Close() // now that it is not mapped any more, this ends the lock
	}
}

// close ends the mapping. Nothing that points into the page may be used any more.
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

// mapIPC maps a file of slots. If the driver that has it is forgotten with all its
// events, the mapping ends.
func mapIPC(file *os.File) (*ipcFile, error) {
	memory, err := syscall.Mmap(int(file.Fd()), 0, ipcPageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	// The memory is not Go's, stays where it is until the mapping ends, begins at a
	// page, and is as long as the structure, which has no pointers in it.
	f := &ipcFile{ipcMapping: &ipcMapping{memory: memory}, page: (*ipcPage)(unsafe.Pointer(unsafe.SliceData(memory)))}
	f.cleanup = runtime.AddCleanup(f, (*ipcMapping).end, f.ipcMapping)
	return f, nil
}

// newIPCFile makes a file of slots, with a name if that is wanted or if there is no
// other way to find it.
func newIPCFile(named bool) (*ipcFile, error) {
	var errs []error
	for _, dir := range slices.Repeat(ipcDirs(), 2) { // one may be swept at once
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
	_, _ = rand.Read(id[:]) // it never fails
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
	// The lock cannot be had if somebody who sweeps was here before it.
	locked := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	// Space that is short has to be an error now: later it would be a fault.
	if _, err = file.Write(make([]byte, ipcPageSize)); err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !named && sameFile(ipcProcPath(os.Getpid(), int32(file.Fd())), info):
		_ = os.Remove(path) // it may be swept already
		path = ""
	case locked != nil:
		return nil, &os.PathError{Op: "flock", Path: path, Err: locked}
	case !sameFile(path, info):
		return nil, &os.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist} // it is swept
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

// ipcProcPath names a file that a process has open, where there is such a thing.
func ipcProcPath(pid int, fd int32) string { return fmt.Sprintf("/proc/%d/fd/%d", pid, fd) }

// sameFile reports whether a path leads to a file.
func sameFile(path string, info os.FileInfo) bool {
	other, err := os.Stat(path)
	return err == nil && os.SameFile(other, info)
}

// sweepIPC removes files whose processes ended without doing it.
func sweepIPC(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // then no file can be made here either, or this is not needed
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

// openNamed opens a file in a directory where others may write. It neither follows
// links nor waits.
func openNamed(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// abandoned reports whether the process that made a file with a name has ended.
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

// ipcLike reports whether a file can be one of slots.
func ipcLike(info os.FileInfo) bool {
	return info.Mode().IsRegular() && info.Size() == int64(ipcPageSize)
}

func findIPCFile(h *ipcHandle) (*os.File, error) {
	if h.fd >= 0 {
		path := ipcProcPath(int(h.pid), h.fd)
		// The process may be another one by now, and its file anything: opening a
		// device can have effects.
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

// pidNamespace returns what tells apart processes with the same number, 0 where
// nothing does.
func pidNamespace() uint64 {
	var st syscall.Stat_t
	if syscall.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return uint64(st.Ino)
}
