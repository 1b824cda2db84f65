//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"os"
	"syscall"
)

// canShareMemory says that physical memory can be shared with other processes.
const canShareMemory = true

// memoryFile is a file without a name, with the content of physical memory. Processes share the
// memory by mapping it.
type memoryFile struct {
	file   *os.File
	size   uint64
	memory []byte
}

// newMemoryFile creates a file, or returns nil.
func newMemoryFile(size uint64) *memoryFile {
	for _, dir := range ipcDirs() {
		f, err := os.CreateTemp(dir, "purecu-memory-")
		if err != nil {
			continue
		}
		_ = os.Remove(f.Name())
		if f.Truncate(int64(size)) == nil {
			return &memoryFile{file: f, size: size}
		}
		_ = f.Close()
	}
	return nil
}

// openMemoryFile returns the memory of a file that another memoryFile has created, or nil.
func openMemoryFile(fd int) (*memoryFile, uint64) {
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Nlink != 0 ||
		st.Size == 0 || st.Size%granularity != 0 || st.Size > deviceMemory {
		return nil, 0
	}
	own, err := syscall.Dup(fd)
	if err != nil {
		return nil, 0
	}
	syscall.CloseOnExec(own)
	size := uint64(st.Size)
	return &memoryFile{file: os.NewFile(uintptr(own), "memory"), size: size}, size
}

// bytes returns the content.
func (s *memoryFile) bytes() []byte {
	if s.memory == nil {
		m, err := syscall.Mmap(int(s.file.Fd()), 0, int(s.size), syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_SHARED)
		if err != nil { // the content is not shared then
			return newBytes(s.size)
		}
		s.memory = m
	}
	return s.memory
}

// duplicate returns a new descriptor, or -1.
func (s *memoryFile) duplicate() int {
	fd, err := syscall.Dup(int(s.file.Fd()))
	if err != nil {
		return -1
	}
	syscall.CloseOnExec(fd)
	return fd
}

// close ends the use of the memory by this process.
func (s *memoryFile) close() {
	if s.memory != nil {
		_ = syscall.Munmap(s.memory)
	}
	_ = s.file.Close()
}
