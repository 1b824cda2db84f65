package sim

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// TestLogFileWaits writes the log to a pipe that nobody reads yet. Other calls go on meanwhile.
func TestLogFileWaits(t *testing.T) {
	d := New()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	written, called := make(chan driver.Result), make(chan int)
	go func() { written <- d.LogsDumpToFile(nil, nil, path, 0) }()
	select {
	case r := <-written:
		t.Fatalf("nobody reads, and the result is %v", r)
	case <-time.After(50 * time.Millisecond):
	}
	go func() { called <- len(d.Census()) }()
	select {
	case <-called:
	case <-time.After(10 * time.Second):
		t.Error("a call waits for the reader of the pipe")
		defer func() { <-called }()
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if r := <-written; r != ok {
		t.Errorf("the result is %v", r)
	}
}
