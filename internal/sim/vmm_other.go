//go:build !(darwin || freebsd || linux || netbsd)

package sim

const canShareMemory = false

// memoryFile does not exist on this platform.
type memoryFile struct{}

func newMemoryFile(uint64) *memoryFile { return nil }

func openMemoryFile(int) (*memoryFile, uint64) { return nil, 0 }

func openFile(int, uint64) *memoryFile { return nil }

func (s *memoryFile) mapped() []byte { return nil }

func (s *memoryFile) bytes() []byte { return nil }

func (s *memoryFile) duplicate() int { return -1 }

func (s *memoryFile) close() {}

func newIPCMemory(uint64) (*memoryFile, ipcID) { return nil, ipcID{} }

func openIPCMemory(*ipcMemHandle) *memoryFile { return nil }

func (s *memoryFile) descriptor() int32 { return -1 }
