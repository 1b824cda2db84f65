package softlib

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/loader"
)

// realEnv is NVIDIA's library that a child compares this one with.
const realEnv = "PURECU_TEST_SOFTLIB_REAL"

// briefEnv has the child ask no more than a tenth of the questions.
const briefEnv = "PURECU_TEST_SOFTLIB_BRIEF"

// TestProcAddress holds what cuGetProcAddress answers to what NVIDIA's libraries do, for
// every name and version, and some that there are not.
func TestProcAddress(t *testing.T) {
	paths := filepath.SplitList(os.Getenv("PURECU_TEST_LIBCUDA"))
	if len(paths) == 0 {
		t.Skip("PURECU_TEST_LIBCUDA is not set: this needs a real driver library (see tests/libcuda/fetch)")
	}
	for _, path := range paths {
		lib, err := loader.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		env := []string{realEnv + "=" + path, "CUSIM_DRIVER_VERSION=" + strconv.Itoa(lib.Version())}
		if testing.Short() {
			env = append(env, briefEnv+"=1")
		}
		child(t, "compare", env...)
	}
}

// asker asks one library.
type asker struct {
	lib    *loader.Library
	v1, v2 uintptr
}

func newAsker(path string) (a asker, err error) {
	if a.lib, err = loader.Open(path); err != nil {
		return a, err
	}
	var err1, err2 error
	a.v1, err1 = a.lib.Symbol("cuGetProcAddress")
	a.v2, err2 = a.lib.Symbol("cuGetProcAddress_v2")
	return a, errors.Join(err1, err2)
}

// reply is what a library answers to one question.
type reply struct {
	result1, result2 int32
	addr1, addr2     uintptr
	status           int32
}

func (a asker) ask(name string, version int32, flags uint64) (r reply, err error) {
	const unset = 7
	addr1, addr2, status := uintptr(unset), uintptr(unset), int32(unset)
	w, err := ccall.Invoke(a.v1, ccall.Setup, name, &addr1, version, flags)
	if err != nil {
		return r, err
	}
	r.result1, r.addr1 = int32(w), addr1
	w, err = ccall.Invoke(a.v2, ccall.Setup, name, &addr2, version, flags, &status)
	r.result2, r.addr2, r.status = int32(w), addr2, status
	return r, err
}

// compare compares the answers of two libraries of the same version.
func compare(path string) error {
	soft, err := newAsker(path)
	if err != nil {
		return err
	}
	hard, err := newAsker(os.Getenv(realEnv))
	if err != nil {
		return err
	}
	if a, b := soft.lib.Version(), hard.lib.Version(); a != b {
		return fmt.Errorf("versions %d and %d", a, b)
	}

	names := map[string]bool{"cuNothing": true, "": true}
	versions := map[int32]bool{0: true, -1: true, 1000: true, 99000: true}
	counterparts := map[uintptr]uintptr{} // by an address of one library, that of the other
	for s := range driver.Symbol(driver.NumSymbols) {
		info := s.Info()
		names[info.Ask], names[info.Export], names[info.Base] = true, true, true
		versions[int32(info.Version)], versions[int32(info.Version)-10] = true, true
		if p, err := soft.lib.Symbol(info.Export); err == nil {
			counterparts[p], _ = hard.lib.Symbol(info.Export)
		}
	}
	exports, err := exported(os.Getenv(realEnv))
	if err != nil {
		return err
	}
	for _, name := range exports { // also those of which package driver knows nothing
		names[name] = true
		if p, err := soft.lib.Symbol(name); err == nil {
			counterparts[p], _ = hard.lib.Symbol(name)
		}
	}
	asked, wrong, n := 0, 0, 0
	part := 1 // one of so many is asked
	if os.Getenv(briefEnv) != "" {
		part = 10
	}
	for name := range names {
		for version := range versions {
			if n++; n%part != 0 {
				continue
			}
			for flags := range uint64(5) {
				got, err := soft.ask(name, version, flags)
				if err != nil {
					return err
				}
				want, err := hard.ask(name, version, flags)
				if err != nil {
					return err
				}
				raw := got
				for _, addr := range []*uintptr{&got.addr1, &got.addr2} {
					if p, ours := counterparts[*addr]; ours {
						*addr = p
					}
				}
				asked++
				if got != want && wrong < 20 {
					wrong++
					fmt.Fprintf(os.Stderr, "cuGetProcAddress(%q, %d, flags %d) = %+v (%#x), want %+v\n", name, version, flags, got, raw.addr2, want)
				}
			}
		}
	}
	if asked < 100_000/part {
		return fmt.Errorf("only %d questions", asked)
	}
	return nil
}

// exported returns the names that a library defines.
func exported(path string) (names []string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	return names, err
}

// TestExports holds that the library exports what build -list says, and nothing else.
func TestExports(t *testing.T) {
	got, err := exported(library(t))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", "./cusim/libcuda/build", "-list")
	cmd.Dir = moduleRoot
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(out)) {
		if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "cu") {
			want = append(want, name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exports (-listed +exported):\n%s", diff)
	}
}
