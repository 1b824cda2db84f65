//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Where other processes can open a file of slots through the process that has created it (/proc), it
// has no name, and ends with the last process that has it open. Elsewhere it has a name, which the
// driver that has created it removes with its last event: see files_unix.go.

const ipcPageSize = int(unsafe.Sizeof(ipcPage{}))

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
func newIPCFile(named bool) (f *ipcFile, err error) {
	err = inSharedDirs(func(dir string) (err error) {
		f, err = newIPCFileIn(dir, named)
		return err
	})
	return f, err
}

func newIPCFileIn(dir string, named bool) (f *ipcFile, err error) {
	if err := limited(uint64(ipcPageSize)); err != nil {
		return nil, err
	}
	if !named {
		file, err := createUnnamed(dir, ipcPrefix)
		if err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err == nil && sameFile(ipcProcPath(os.Getpid(), int32(file.Fd())), info) {
			return fillIPCFile(file, "", newNumber())
		}
		_ = file.Close()
	}
	id := newNumber()
	path := filePath(dir, ipcPrefix, id)
	file, locked, err := createNamed(path)
	if err != nil {
		return nil, err
	}
	if f, err = fillIPCFile(file, path, id); err != nil {
		_ = os.Remove(path)
		return nil, err
	}
	if info, err := file.Stat(); locked != nil || err != nil || !sameFile(path, info) { // it was swept
		f.close()
		return nil, cmp.Or(locked, err, error(&os.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}))
	}
	return f, nil
}

// fillIPCFile maps a new file, which it closes if it fails.
func fillIPCFile(file *os.File, path string, id ipcID) (f *ipcFile, err error) {
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	// Write all bytes, so that a lack of space is an error now, and not a fault later.
	if _, err = file.Write(make([]byte, ipcPageSize)); err != nil {
		return nil, err
	}
	if f, err = mapIPC(file); err != nil {
		return nil, err
	}
	f.file, f.path, f.mine = file, path, true
	f.page.magic, f.page.version, f.page.id = ipcMagic, ipcVersion, id
	return f, nil
}

// ipcProcPath returns the path of a file that a process has open, in /proc.
func ipcProcPath(pid int, fd int32) string { return fmt.Sprintf("/proc/%d/fd/%d", pid, fd) }

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
	for _, dir := range sharedDirs() {
		file, err := openNamed(filePath(dir, ipcPrefix, h.file))
		switch {
		case lacksDescriptor(err):
			return nil, err
		case err != nil:
			continue
		case !abandoned(file):
			return file, nil
		}
		_ = file.Close()
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
