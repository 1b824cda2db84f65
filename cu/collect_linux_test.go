package cu_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

const droppedEnv = "PURECU_TEST_DROPPED_WRITTEN"

// TestDroppedWritten drops memory that it has written, in a process that may not have as much memory as it writes.
func TestDroppedWritten(t *testing.T) {
	if os.Getenv(droppedEnv) == "" {
		if core.RaceEnabled {
			t.Skip("the race detector needs more addresses")
		}
		c := exec.Command(os.Args[0], "-test.run=^TestDroppedWritten$", "-test.v")
		c.Env = append(os.Environ(), droppedEnv+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	statm := strings.Fields(string(Need(os.ReadFile("/proc/self/statm"))(t)))
	pages := Need(strconv.ParseUint(statm[0], 10, 64))(t)
	const size, room, pieces = 32 << 20, 768 << 20, 16 // too many pieces for the room
	limit := pages*uint64(os.Getpagesize()) + room
	l := syscall.Rlimit{Cur: limit, Max: limit}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &l); err != nil {
		t.Fatal(err)
	}
	r := NewSoft(t)
	for name, write := range map[string]func(m *DeviceMem) error{
		"DeviceMem.Memset": func(m *DeviceMem) error { return m.Memset(1) },
		"DeviceMem.WriteAt": func(m *DeviceMem) error {
			part := make([]byte, 4<<20)
			for off := int64(0); off < size; off += int64(len(part)) {
				if _, err := m.WriteAt(part, off); err != nil {
					return err
				}
			}
			return nil
		},
		"Stream.Memset": func(m *DeviceMem) error {
			if err := r.S.Memset(m, 1); err != nil {
				return err
			}
			return r.S.Synchronize()
		},
	} {
		for i := range pieces {
			if err := write(Need(r.GPU.Alloc(size))(t)); err != nil {
				t.Fatalf("%s, piece %d: %v", name, i, err)
			}
		}
	}
}
