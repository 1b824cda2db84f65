// Package visible tests which devices a driver shows for values of CUDA_VISIBLE_DEVICES, against what H200s have
// answered: the software driver in Go, and, if PURECU_TEST_GPU is 1 or the path of a library, a driver in C that
// has two devices. Each value has a process of its own.
//
// The values of testdata contain names in braces, for device 0 and, with a 1 at the end, for device 1:
//
//	U0                  the UUID, as nvidia-smi prints it: GPU-c5514000-…
//	H0, ND0             the UUID without GPU-, and without hyphens
//	UP0, AL0, LO0, UPX0 in upper case but for GPU-, all in upper case, all in lower case, the first six digits
//	P1_0, P4_0, P8_0    GPU- and the first digits, P9_0 with a hyphen after the first eight
//	Q1_0, Q4_0          the first digits
//	M1_0, PU0           without the last digit, and the shortest beginning that only this device has
//	S0, T0              the first six digits with a hyphen between all of them, and after the third one
//	WR0, W0             with another last digit, and the same without GPU-
//	WF0                 with another first digit
//	C                   what the UUIDs of both devices begin with
package visible

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/cu"
	_ "github.com/purecu/purecu/cusim/auto"
)

// childEnv makes the test binary print what it sees.
const childEnv = "PURECU_TEST_VISIBLE"

const variable = "CUDA_VISIBLE_DEVICES"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		s := look()
		if err := json.NewEncoder(os.Stdout).Encode(s); err != nil || s.Err != "" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// sight is what a process sees.
type sight struct {
	Init  int      // the result of cuInit
	UUIDs []string // of the devices, in their order
	Err   string
}

// look opens the driver, and returns what it sees.
func look() (s sight) {
	drv, err := cu.Open()
	if e := (*cu.Error)(nil); errors.As(err, &e) && e.Op == "cuInit" {
		return sight{Init: int(e.Result)}
	}
	devices, err := []*cu.Device(nil), err
	if err == nil {
		devices, err = drv.Devices()
	}
	for _, dev := range devices {
		id, e := dev.UUID()
		s.UUIDs, err = append(s.UUIDs, id.String()), errors.Join(err, e)
	}
	if err != nil {
		s.Err = err.Error()
	}
	return s
}

// seen runs look in a process with these environment variables.
func seen(t *testing.T, env ...string) (s sight) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CUSIM_") && !strings.HasPrefix(v, "CUDA_VISIBLE") && !strings.HasPrefix(v, "CUDA_DEVICE_ORDER=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(append(cmd.Env, childEnv+"=1", "CUSIM_DEVICES=2"), env...)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil {
		t.Errorf("%q: %v\n%s", env, err, out)
	}
	return s
}

// drivers returns the values of PURECU_DRIVER to test.
func drivers() map[string]string {
	list := map[string]string{"software": "soft"}
	switch v := os.Getenv("PURECU_TEST_GPU"); v {
	case "":
	case "1":
		list["native"] = "cuda"
	default:
		list["native"] = v
	}
	return list
}

func TestVisible(t *testing.T) {
	rows := rowsOf(t, "testdata/h200-cuda13.0.tsv")
	for name, value := range drivers() {
		t.Run(name, func(t *testing.T) {
			driver := "PURECU_DRIVER=" + value
			all := seen(t, driver)
			if len(all.UUIDs) < 2 {
				t.Skipf("the driver has not two devices: %+v", all)
			}
			named := namesOf(all.UUIDs)
			each(rows, func(r row) {
				value := named.Replace(r.value)
				got := seen(t, driver, variable+"="+value)
				var ordinals []string
				for _, id := range got.UUIDs {
					ordinals = append(ordinals, strconv.Itoa(slices.Index(all.UUIDs, id)))
				}
				if said := strings.Join(ordinals, " "); got.Init != r.init || said != r.devices {
					t.Errorf("%s=%q: cuInit returns %d, and devices %q are visible; want %d and %q", variable, value, got.Init,
						said, r.init, r.devices)
				}
			})
		})
	}
}

// TestOrder sets CUDA_DEVICE_ORDER.
func TestOrder(t *testing.T) {
	for name, value := range drivers() {
		t.Run(name, func(t *testing.T) {
			for order, want := range map[string]int{
				"PCI_BUS_ID": 0, "FASTEST_FIRST": 0, "pci_bus_id": 101, "PCI_BUS_IDx": 101, " PCI_BUS_ID": 101, "garbage": 101, "": 101,
			} {
				if got := seen(t, "PURECU_DRIVER="+value, "CUDA_DEVICE_ORDER="+order); got.Init != want {
					t.Errorf("CUDA_DEVICE_ORDER=%q: cuInit returns %d, want %d", order, got.Init, want)
				}
			}
		})
	}
}

// TestLong sets long values: those that are too long do not count.
func TestLong(t *testing.T) {
	for name, value := range drivers() {
		t.Run(name, func(t *testing.T) {
			driver := "PURECU_DRIVER=" + value
			if all := seen(t, driver); len(all.UUIDs) < 2 {
				t.Skipf("the driver has not two devices: %+v", all)
			}
			for length, want := range map[int]int{2049: 1, 2624: 1, 2625: 2, 5000: 2} {
				for _, value := range []string{"1" + strings.Repeat(" ", length-1), "1," + strings.Repeat("x", length-2)} {
					if got := seen(t, driver, variable+"="+value); got.Init != 0 || len(got.UUIDs) != want {
						t.Errorf("a value of %d bytes: %+v", length, got)
					}
				}
			}
			for length, want := range map[int]int{1023: 101, 1024: 0, 5000: 0} {
				if got := seen(t, driver, "CUDA_DEVICE_ORDER="+strings.Repeat("x", length)); int(got.Init) != want {
					t.Errorf("an order of %d bytes: %+v", length, got)
				}
			}
		})
	}
}

// each calls f for all rows, on several goroutines: a process that opens a GPU's driver takes a second.
func each(rows []row, f func(row)) {
	var workers sync.WaitGroup
	next := make(chan row)
	for range 8 {
		workers.Go(func() {
			for r := range next {
				f(r)
			}
		})
	}
	for _, r := range rows {
		next <- r
	}
	close(next)
	workers.Wait()
}

// row is what H200s have answered to a value.
type row struct {
	value   string
	init    int
	devices string // their ordinals, with spaces between them
}

func rowsOf(t *testing.T, file string) (rows []row) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 {
			t.Fatalf("%q has not three columns", line)
		}
		value, err := strconv.Unquote(fields[0])
		init, err2 := strconv.Atoi(fields[1])
		if err := errors.Join(err, err2); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		rows = append(rows, row{value, init, strings.TrimPrefix(fields[2], "-")})
	}
	return rows
}

// namesOf replaces the names in values by what they mean for the UUIDs of two devices.
func namesOf(uuids []string) *strings.Replacer {
	var list []string
	common := 0
	for uuids[0][common] == uuids[1][common] {
		common++
	}
	other := func(digit string) string {
		if digit == "0" {
			return "1"
		}
		return "0"
	}
	add := func(name string, i int, value string) { list = append(list, fmt.Sprintf("{%s%d}", name, i), value) }
	for i, id := range uuids[:2] {
		hex := strings.TrimPrefix(id, "GPU-")
		digits := strings.ReplaceAll(hex, "-", "")
		last := len(hex) - 1
		add("U", i, id)
		add("H", i, hex)
		add("ND", i, "GPU-"+digits)
		add("UP", i, "GPU-"+strings.ToUpper(hex))
		add("AL", i, strings.ToUpper(id))
		add("LO", i, strings.ToLower(id))
		add("UPX", i, strings.ToUpper(hex[:6]))
		for _, n := range []int{1, 4, 8, 9} {
			add(fmt.Sprintf("P%d_", n), i, id[:4+n])
			add(fmt.Sprintf("Q%d_", n), i, hex[:n])
		}
		add("M1_", i, id[:len(id)-1])
		add("PU", i, id[:common+1])
		add("S", i, strings.Join(strings.Split(digits[:6], ""), "-"))
		add("T", i, digits[:3]+"-"+digits[3:6])
		add("W", i, hex[:last]+other(hex[last:]))
		add("WR", i, "GPU-"+hex[:last]+other(hex[last:]))
		add("WF", i, "GPU-"+other(hex[:1])+hex[1:])
	}
	return strings.NewReplacer(append(list, "{C}", uuids[0][:common])...)
}
