//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"errors"
	"os"
	"syscall"

	"github.com/purecu/purecu/internal/descriptor"
)

// canShareMemory says that physical memory can be shared with other processes.
const canShareMemory = true

// memoryFile is a file without a name, with the content of physical memory. Processes share the
// memory by mapping it.
type memoryFile struct {
	file    *os.File
	dir     string // "" if another memoryFile has created it
	size    uint64
	memory  []byte
	charged uint64 // bytes that the budget has given
}

// newMemoryFile creates a file. The file system has allocated the first bytes, as a process that
// accesses others gets a signal if the file system is full. The driver is not locked, as this may take
// long.
func (d *Driver) newMemoryFile(size, allocated uint64) (s *memoryFile, err error) {
	err = inSharedDirs(func(dir string) error {
		if err := limited(size); err != nil {
			return err
		}
		f, err := createUnnamed(dir, memoryPrefix)
		if err != nil {
			return err
		}
		if err = f.Truncate(int64(size)); err == nil {
			err = d.allocateFile(f, 0, allocated)
		}
		if err != nil {
			_ = f.Close()
			return err
		}
		s = &memoryFile{file: f, dir: dir, size: size}
		return nil
	})
	return s, err
}

// allocate makes the file system allocate a part that has no content yet. The driver is not locked, as
// this may take long.
func (s *memoryFile) allocate(d *Driver, offset, n uint64) error {
	if err := d.allocateFile(s.file, offset, n); err != nil {
		return &growError{s.dir, underlying(err)}
	}
	return nil
}

// writeZeros does what reserveFile does where a file system cannot allocate a part.
func writeZeros(f *os.File, offset, n uint64) error {
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 {
		part := zeros[:min(n, uint64(len(zeros)))]
		if _, err := f.WriteAt(part, int64(offset)); err != nil {
			return err
		}
		offset, n = offset+uint64(len(part)), n-uint64(len(part))
	}
	return nil
}

// sizeOfFile returns the size of a file that a memoryFile has created, or 0.
func sizeOfFile(fd int) uint64 {
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Nlink != 0 || st.Size < 0 {
		return 0
	}
	return uint64(st.Size)
}

// openFile returns the memory of a file that another memoryFile has created, and that has a size.
func openFile(fd int, size uint64) (*memoryFile, error) {
	own, err := descriptor.Duplicate(int32(fd))
	if err != nil {
		return nil, err
	}
	return &memoryFile{file: os.NewFile(uintptr(own), "memory"), size: size}, nil
}

// fileOf identifies the file of a descriptor, or returns false if none is open.
func fileOf(fd int32) (id fileID, open bool) {
	var st syscall.Stat_t
	if syscall.Fstat(int(fd), &st) != nil {
		return id, false
	}
	return fileID{uint64(st.Dev), uint64(st.Ino)}, true
}

// again is openFile for the same file.
func (s *memoryFile) again() (*memoryFile, error) { return openFile(int(s.file.Fd()), s.size) }

// mapped returns the content, or nil if it cannot be mapped.
func (s *memoryFile) mapped() []byte {
	_ = s.mapMemory()
	return s.memory
}

// mapMemory maps the content.
func (s *memoryFile) mapMemory() error {
	if s.memory != nil {
		return nil
	}
	m, err := syscall.Mmap(int(s.file.Fd()), 0, int(s.size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	s.memory = m
	return nil
}

// duplicate returns a new descriptor.
func (s *memoryFile) duplicate() (int32, error) { return descriptor.Duplicate(s.descriptor()) }

// close ends the use of the memory by this process.
func (s *memoryFile) close() {
	if s.memory != nil {
		_ = syscall.Munmap(s.memory)
	}
	_ = s.file.Close()
}

// newIPCMemory creates the file of memory that processes share, with an identifier behind the content.
// Other processes must be able to find the file.
func (d *Driver) newIPCMemory(size uint64) (f *memoryFile, id ipcID, err error) {
	all := rounded(size) + uint64(len(id))
	if f, err = d.newMemoryFile(all, all); err != nil {
		return nil, id, err
	}
	info, err := f.file.Stat()
	if err == nil && !sameFile(ipcProcPath(os.Getpid(), f.descriptor()), info) {
		err = errors.ErrUnsupported // there is no /proc
	}
	if err == nil {
		err = f.mapMemory()
	}
	if err != nil {
		f.close()
		return nil, id, err
	}
	id = newNumber()
	copy(f.memory[f.size-uint64(len(id)):], id[:])
	return f, id, nil
}

// openIPCMemory opens the file of another process's memory.
func openIPCMemory(h *ipcMemHandle) (*memoryFile, error) {
	path, size := ipcProcPath(int(h.pid), h.fd), rounded(h.size)+uint64(len(h.file))
	fits := func(info os.FileInfo, err error) bool {
		return err == nil && info.Mode().IsRegular() && info.Size() == int64(size)
	}
	// The number may belong to another process by now, and the descriptor to any file. Do not open it
	// without a check, as opening a device can have effects.
	if !fits(os.Stat(path)) {
		return nil, errNoIPCFile
	}
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := &memoryFile{file: file, size: size}
	if !fits(file.Stat()) {
		err = errNoIPCFile
	} else if err = f.mapMemory(); err == nil && ipcID(f.memory[size-uint64(len(h.file)):]) != h.file {
		err = errNoIPCFile
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// descriptor returns the number by which other processes find the file.
func (s *memoryFile) descriptor() int32 { return int32(s.file.Fd()) }
