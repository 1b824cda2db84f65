//go:build linux && (amd64 || arm64) && cu_static && !cgo && !go1.28

package guest

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestHugeLoader names files of four gigabytes, which must not be read: a file that is not in the
// ELF format, and a file that begins like a loader.
func TestHugeLoader(t *testing.T) {
	content, err := os.ReadFile(host(t))
	if err != nil {
		t.Fatal(err)
	}
	for want, begin := range map[string][]byte{
		"not an ELF file":         nil,
		"no loader has more than": content[:1024],
	} {
		name := filepath.Join(t.TempDir(), "ld.so")
		if err := os.WriteFile(name, begin, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, 4<<30); err != nil {
			t.Skip(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, err := readLoader(name)
		runtime.ReadMemStats(&after)
		if f != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes were allocated", want, n)
		}
	}
}
