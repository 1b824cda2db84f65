package cu_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	. "github.com/purecu/purecu/internal/testrig"
)

const exporterEnv = "PURECU_TEST_EXPORTER"

// An exporter is another process, which makes what only another process can open. It keeps all of it
// until this process ends the connection.
type exporter struct {
	conn int // a socket
}

// exportedHandles is what the other process has made.
type exportedHandles struct {
	mem     memory.IPCHandle
	event   IPCEventHandle
	poolMem memory.PoolHandle
	pool    *os.File
}

// exportedLen is the length of the handles in exportedHandles.
const exportedLen = len(exportedHandles{}.mem) + len(exportedHandles{}.event) + len(exportedHandles{}.poolMem)

// startExporter starts the process, which runs a test that calls isExporter. Start it before a
// context is opened: then it ends after the test has closed the context.
func startExporter(t *testing.T, test string, env ...string) *exporter {
	t.Helper()
	fds := Need(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0))(t)
	there := os.NewFile(uintptr(fds[1]), "exporter")
	args := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.ExtraFiles = append(append(os.Environ(), exporterEnv+"=1"), env...), []*os.File{there}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Start()
	there.Close()
	if err != nil {
		syscall.Close(fds[0])
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Close(fds[0])
		if err := cmd.Wait(); err != nil {
			t.Errorf("the exporting process: %v\n%s", err, out.String())
		}
	})
	return &exporter{fds[0]}
}

// next asks for more.
func (x *exporter) next(t *testing.T) (e exportedHandles) {
	t.Helper()
	b, oob := make([]byte, exportedLen), make([]byte, syscall.CmsgSpace(4))
	NoErr(t, syscall.Sendto(x.conn, []byte{0}, 0, nil))
	n, oobn, _, _, err := syscall.Recvmsg(x.conn, b, oob, syscall.MSG_CMSG_CLOEXEC)
	if err != nil || n != len(b) {
		t.Fatalf("the exporting process has sent %d bytes: %v", n, err)
	}
	rest := b[copy(e.mem[:], b):]
	copy(e.poolMem[:], rest[copy(e.event[:], rest):])
	messages := Need(syscall.ParseSocketControlMessage(oob[:oobn]))(t)
	e.pool = os.NewFile(uintptr(Need(syscall.ParseUnixRights(&messages[0]))(t)[0]), "pool")
	t.Cleanup(func() { e.pool.Close() })
	return e
}

// isExporter reports whether this is the other process, and if so, does what it is for.
func isExporter(t *testing.T) bool {
	t.Helper()
	if os.Getenv(exporterEnv) == "" {
		return false
	}
	const conn = 3
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	for {
		n, _, err := syscall.Recvfrom(conn, make([]byte, 1), 0)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if n <= 0 {
			fmt.Println("the connection has ended:", err)
			break
		}
		m := Need(gpu.Alloc(1 << 12))(t)
		defer m.Close()
		e := Need(gpu.NewEvent(EventInterprocess | EventDisableTiming))(t)
		defer e.Close()
		p := Need(memory.NewPool(gpu, memory.PoolOptions{Shareable: true}))(t)
		defer p.Close()
		pooled := Need(p.Alloc(s, 1<<12))(t)
		defer pooled.Close()
		NoErr(t, errors.Join(e.Record(s), s.Synchronize()))
		f := Need(p.Export())(t)
		mem, event, poolMem := Need(memory.IPCHandleOf(m))(t), Need(e.IPCHandle(t.Context()))(t), Need(memory.PoolHandleOf(pooled))(t)
		b := append(append(mem[:], event[:]...), poolMem[:]...)
		NoErr(t, syscall.Sendmsg(conn, b, syscall.UnixRights(int(f.Fd())), nil, 0))
		NoErr(t, f.Close())
	}
	NoErr(t, s.Close())
	return true
}
