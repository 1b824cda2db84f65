package mem

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHugePages makes sure that the system may provide large memory in huge pages, and small memory not.
func TestHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip(err)
	}
	for size, want := range map[uint64]bool{Granule: false, Granule + 1: true, 1 << 30: true} {
		m, mapping := mapPages(size)
		defer unmapPages(mapping)
		smaps, err := os.ReadFile("/proc/self/smaps")
		if err != nil {
			t.Skip(err)
		}
		_, of, found := strings.Cut(string(smaps), fmt.Sprintf("\n%x-", AddressOf(mapping)))
		_, flags, flagged := strings.Cut(of, "VmFlags:")
		flags, _, _ = strings.Cut(flags, "\n")
		if !found || !flagged {
			t.Skip("the system does not tell")
		}
		if strings.Contains(flags, " hg") != want {
			t.Errorf("%d bytes have the flags%s", len(m), flags)
		}
	}
}

// TestMachineRoom reads the limits of control groups of both versions, and of containers.
func TestMachineRoom(t *testing.T) {
	const total, margin = 8 << 30, 256 << 20
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"nothing is known": {nil, math.MaxUint64},
		"the machine": {map[string]string{"proc/meminfo": "MemTotal: 8388608 kB\nMemFree: 5 kB\nMemAvailable: 4194304 kB\n"},
			4<<30 - margin},
		"version 2": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "8589934592\n",
			"sys/fs/cgroup/a/memory.current": "2147483648\n", "sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 1073741824\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n"}, total - 1<<30 - margin},
		"version 2, in a container": {map[string]string{"proc/self/cgroup": "0::/of/the/host\n",
			"sys/fs/cgroup/memory.max": "8589934592\n", "sys/fs/cgroup/memory.current": "0\n"}, total - margin},
		"version 1": {map[string]string{"proc/self/cgroup": "4:cpu,memory:/a\n1:name=systemd:/\n0::/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "8589934592\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n"}, total - 1<<30 - margin},
		"less than the margin": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "33554432\n",
			"sys/fs/cgroup/memory.current": "33553432\n"}, 500},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := hostMachine(root).room(0); got != c.want {
			t.Errorf("%s: there is room for %d bytes, not %d", name, got, c.want)
		}
	}
	if got, less := hostMachine("/").room(0), hostMachine("/").room(1<<30); got <= margin || less > got {
		t.Errorf("this machine has room for %d bytes, and for %d with 1 GiB in use", got, less)
	}
}
