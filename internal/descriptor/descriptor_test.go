//go:build unix

package descriptor

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// TestDuplicate reads from a duplicate after the original was closed, and starts a program that must not
// get it.
func TestDuplicate(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := Duplicate(int32(r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	check := "test ! -e /dev/fd/" + strconv.Itoa(int(fd))
	if err := exec.Command("/bin/sh", "-c", check).Run(); err != nil {
		t.Errorf("another program has the descriptor: %v", err)
	}
	r.Close()
	if _, err := w.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	f := os.NewFile(uintptr(fd), "duplicate")
	if got, err := io.ReadAll(f); string(got) != "text" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	f.Close()

	if fd, err := Duplicate(int32(1 << 30)); err != syscall.EBADF || fd != -1 {
		t.Errorf("a closed descriptor: %d, %v", fd, err)
	}
	if fd, err = Duplicate(1); err != nil {
		t.Fatal(err)
	}
	Close(fd)
	if _, err := Duplicate(fd); err != syscall.EBADF {
		t.Errorf("after Close: %v", err)
	}
}
