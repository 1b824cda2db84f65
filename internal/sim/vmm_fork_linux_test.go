package sim

import (
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// TestDescriptorsAreNotInherited starts programs while memory is exported and imported: they get no
// descriptor of it.
func TestDescriptorsAreNotInherited(t *testing.T) {
	ls, err := osexec.LookPath("ls")
	if err != nil {
		t.Skip(err)
	}
	r := newLab(t)
	h, res := r.MemCreate(r.th, granularity, deviceProp(driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), 0)
	r.must(res)
	var done sync.WaitGroup
	stop := make(chan struct{})
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			fd, res := r.MemExportToShareableHandle(r.th, h, driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)
			if r.want("export", ok, res); res != ok {
				return
			}
			f := os.NewFile(uintptr(fd[0]), "exported")
			in, res := r.MemImportFromShareableHandle(r.th, driver.HostPtr(f.Fd()),
				driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
			r.want("import", ok, res)
			r.want("release", ok, r.MemRelease(r.th, in))
			f.Close()
		}
	})
	for begin, i := time.Now(), 0; i < 30 && time.Since(begin) < 3*time.Second; i++ {
		out, err := osexec.Command(ls, "-l", "/proc/self/fd").CombinedOutput()
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(string(out), "purecu-memory") {
			t.Errorf("run %d: %s", i, out)
			break
		}
	}
	close(stop)
	done.Wait()
	r.must(r.MemRelease(r.th, h))
}
