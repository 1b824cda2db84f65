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

// realEnv is the path of NVIDIA's library, which a child compares with this one.
const realEnv = "PURECU_TEST_SOFTLIB_REAL"

// briefEnv makes the child compare only a tenth of the names and versions.
const briefEnv = "PURECU_TEST_SOFTLIB_BRIEF"

// TestProcAddress compares the results of cuGetProcAddress with those of NVIDIA's libraries, for
// every name and version, and for some that do not exist.
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

// asker makes calls of one library.
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

// reply is the result of one call of a library.
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

// compare compares the results of two libraries of the same version.
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
	counterparts := map[uintptr]uintptr{} // NVIDIA's addresses of functions, by the addresses in this library
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
	for _, name := range exports { // including names that package driver does not have
		names[name] = true
		if p, err := soft.lib.Symbol(name); err == nil {
			counterparts[p], _ = hard.lib.Symbol(name)
		}
	}
	asked, wrong, n := 0, 0, 0
	part := 1 // one of every part names is compared
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
					fmt.Fprintf(os.Stderr, "cuGetProcAddress(%q, %d, flags %d) = %+v (%#x), want %+v\n", name, version,
						flags, got, raw.addr2, want)
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

// TestExports checks that the library exports exactly the names that build -list prints.
func TestExports(t *testing.T) {
	checkExports(t, library(t))
}

// checkExports compares the exports of a library with what build -list prints, with the same flags.
func checkExports(t *testing.T, path string, flags ...string) {
	t.Helper()
	got, err := exported(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", append([]string{"run", "./cusim/libcuda/build", "-list"}, flags...)...)
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

// TestVersion builds the library for CUDA 12.4. A program finds what NVIDIA's library of that version has. If
// only a variable says 12.4, newer interfaces of a function are found, and work.
func TestVersion(t *testing.T) {
	newest := library(t)
	program := host(t)
	dir := t.TempDir()
	cmd := exec.Command("go", "run", "./cusim/libcuda/build", "-version", "12.4", "-o", dir)
	cmd.Dir = moduleRoot
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command to build the library with")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	older := filepath.Join(dir, "libcuda.so.1")
	checkExports(t, older, "-version", "12.4")
	for _, tt := range []struct {
		path, variable, scenario, said string
	}{
		{older, "", "version 12040 absent", ""},
		{older, "12.4", "version 12040 absent", ""},
		{older, "12.2", "version 12020 absent", ""},
		{newest, "12.4", "version 12040 works", ""},
		{newest, "", "version 13000 works", ""},
		{older, "12.8", "no-init 999", "cusim: CUSIM_DRIVER_VERSION is 12.8, and the library was built for CUDA 12.4\n"},
	} {
		env := []string{"CUSIM_DRIVER_VERSION=" + tt.variable}
		if said := run(t, env, append([]string{program, tt.path}, strings.Fields(tt.scenario)...)...); said != tt.said {
			t.Errorf("%s, CUSIM_DRIVER_VERSION=%s: %q, want %q", tt.path, tt.variable, said, tt.said)
		}
	}
}
