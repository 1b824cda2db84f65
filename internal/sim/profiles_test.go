package sim

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/profile"
)

// gpusOf returns the option for a list of profiles.
func gpusOf(t *testing.T, list string) Option {
	t.Helper()
	gpus, err := profile.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return GPUs(gpus)
}

// TestOccupancyOfProfiles compares the occupancy on all GPUs with that of NVIDIA's formula.
func TestOccupancyOfProfiles(t *testing.T) {
	text, err := os.ReadFile("testdata/occupancy.tsv")
	if err != nil {
		t.Fatal(err)
	}
	sizes := []uint64{0, 1, 1000, 4096, 16384, 24576, 32768, 49152, 65536, 101376, 166912, 232448}
	for _, g := range profile.All() {
		r := newLab(t, GPUs([]*profile.GPU{g}))
		f, res := r.ModuleGetFunction(r.th, r.load(".version 6.4 .target sm_70 .visible .entry k() {ret;}"), "k")
		r.must(res)
		r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, g.SharedOfBlock))
		rows := 0
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			var n []int32
			for _, cell := range strings.Fields(line) {
				v, err := strconv.ParseInt(cell, 10, 32)
				if err != nil {
					t.Fatal(err)
				}
				n = append(n, int32(v))
			}
			if n[0] != g.Number {
				continue
			}
			rows++
			r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, n[1]))
			for i, size := range sizes {
				got, res := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.th, f, n[2], size)
				if res != ok || got != n[3+i] {
					t.Errorf("%s: carve-out %d, %d threads, %d bytes: %d blocks, %v, want %d", g.Name, n[1], n[2], size, got, res,
						n[3+i])
				}
			}
		}
		if rows == 0 {
			t.Errorf("no occupancy of compute capability %d was computed", g.Number)
		}
	}
}

// TestTargets loads texts for all targets on all GPUs. The results for 9.0 are those of an H200.
func TestTargets(t *testing.T) {
	on := func(names string) []string { return strings.Fields(names) }
	for _, tt := range []struct {
		target string
		runs   []string
	}{
		{"sm_60", on("T4 A100 L40S H100 H200 B200")},
		{"sm_75", on("T4 A100 L40S H100 H200 B200")},
		{"sm_80", on("A100 L40S H100 H200 B200")},
		{"sm_86", on("L40S H100 H200 B200")},
		{"sm_89", on("L40S H100 H200 B200")},
		{"sm_90", on("H100 H200 B200")},
		{"sm_90a", on("H100 H200")},
		{"sm_100", on("B200")},
		{"sm_100a", on("B200")},
		{"sm_100f", on("B200")},
		{"sm_80a", nil}, {"sm_90f", nil}, {"sm_103", nil}, {"sm_103f", nil}, {"sm_120", nil}, {"sm_120a", nil},
		{"sm_120f", nil},
	} {
		text := fmt.Sprintf(".version 9.0\n.target %s\n.visible .entry k() {ret;}", tt.target)
		for _, g := range profile.All() {
			r := newLab(t, GPUs([]*profile.GPU{g}))
			want := driver.ResultInvalidPTX
			if slices.Contains(tt.runs, g.Name) {
				want = ok
			}
			m, log, res := r.ModuleLoadLog(r.th, []byte(text), nil)
			if res != want || (res != ok) != strings.Contains(log.Error, tt.target) {
				t.Errorf("%s on %s: %v, %q", tt.target, g.Name, res, log.Error)
			}
			l, res := r.LinkCreate(r.th, nil, nil)
			r.must(res)
			r.want(tt.target+" linked on "+g.Name, want,
				r.LinkAddData(r.th, l, driver.CU_JIT_INPUT_PTX, []byte(text), "a", nil, nil))
			r.must(r.LinkDestroy(r.th, l))
			lib, res := r.LibraryLoadData(r.th, []byte(text), nil, nil, nil, nil)
			r.must(res)
			_, res = r.LibraryGetKernel(r.th, lib, "k")
			r.want(tt.target+" as a library on "+g.Name, want, res)
			r.must(r.LibraryUnload(r.th, lib))
			if want == ok {
				f, res := r.ModuleGetFunction(r.th, m, "k")
				r.must(res)
				got, res := r.FuncGetAttribute(r.th, driver.CU_FUNC_ATTRIBUTE_BINARY_VERSION, f)
				if got != g.Number || res != ok {
					t.Errorf("%s: the binary version is %d, %v", g.Name, got, res)
				}
				r.must(r.ModuleUnload(r.th, m))
			}
		}
	}
}

// TestMixed has devices of several kinds in one driver.
func TestMixed(t *testing.T) {
	r := newLab(t, gpusOf(t, "A100:2,T4"))
	n, res := r.DeviceGetCount(r.th)
	if n != 3 || res != ok {
		t.Fatalf("%d devices, %v", n, res)
	}
	for i, want := range []*profile.GPU{0: named(t, "A100"), 1: named(t, "A100"), 2: named(t, "T4")} {
		dev := driver.Device(i)
		var name [32]byte
		r.must(r.DeviceGetName(r.th, name[:], dev))
		if got := strings.TrimRight(string(name[:]), "\x00"); got != "Simulated "+want.Name {
			t.Errorf("device %d is %q", i, got)
		}
		if total, res := r.DeviceTotalMem(r.th, dev); total != want.Memory.Size || res != ok {
			t.Errorf("device %d has %d bytes, %v", i, total, res)
		}
		p, res := r.DeviceGetProperties(r.th, dev)
		if res != ok || p.ClockRate != 1000*want.Clocks.Graphics {
			t.Errorf("device %d: %+v, %v", i, p, res)
		}
		for j := range n {
			can, res := r.DeviceCanAccessPeer(r.th, dev, driver.Device(j))
			if can == 1 != (int(j) != i && i < 2 && j < 2) || res != ok {
				t.Errorf("devices %d and %d: %d, %v", i, j, can, res)
			}
			if int(j) != i {
				for _, a := range []int32{driver.CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
					driver.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED} {
					if got, res := r.DeviceGetP2PAttribute(r.th, a, dev, driver.Device(j)); got != can || res != ok {
						t.Errorf("attribute %d of devices %d and %d: %d, %v", a, i, j, got, res)
					}
				}
			}
		}
	}
	ctxs := make([]driver.Context, n)
	for i := range ctxs {
		ctxs[i], res = r.DevicePrimaryCtxRetain(r.th, driver.Device(i))
		r.must(res)
	}
	r.must(r.CtxSetCurrent(r.th, ctxs[0]))
	r.want("peers of one kind", ok, r.CtxEnablePeerAccess(r.th, ctxs[1], 0))
	r.want("peers of two kinds", driver.ResultPeerAccessUnsupported, r.CtxEnablePeerAccess(r.th, ctxs[2], 0))

	// A library is for all devices, and may have no code for some of them.
	text := []byte(".version 7.0 .target sm_80 .visible .entry k() {ret;}")
	lib, res := r.LibraryLoadData(r.th, text, nil, nil, nil, nil)
	r.must(res)
	k, res := r.LibraryGetKernel(r.th, lib, "k")
	r.must(res)
	_, res = r.KernelGetFunction(r.th, k)
	r.want("the library on an A100", ok, res)
	if v, res := r.KernelGetAttribute(r.th, driver.CU_FUNC_ATTRIBUTE_BINARY_VERSION, k, 0); v != 80 || res != ok {
		t.Errorf("the binary version is %d, %v", v, res)
	}
	r.must(r.CtxSetCurrent(r.th, ctxs[2]))
	_, res = r.KernelGetFunction(r.th, k)
	r.want("the library on a T4", driver.ResultInvalidPTX, res)
	_, res = r.KernelGetAttribute(r.th, driver.CU_FUNC_ATTRIBUTE_BINARY_VERSION, k, 2)
	r.want("an attribute on a T4", driver.ResultInvalidPTX, res)
	r.must(r.LibraryUnload(r.th, lib))
	whole, res := r.DeviceGetDevResource(r.th, 2, driver.CU_DEV_RESOURCE_TYPE_SM)
	r.must(res)
	groups, _, res := r.DevSmResourceSplitByCount(r.th, nil, whole, 0, 3)
	if whole.SMCount() != 40 || groups != 10 || res != ok {
		t.Errorf("a T4 has %d multiprocessors, and %d parts of 4, %v", whole.SMCount(), groups, res)
	}
	for i := range ctxs {
		r.must(r.DevicePrimaryCtxRelease(r.th, driver.Device(i)))
	}
}

func named(t *testing.T, name string) *profile.GPU {
	t.Helper()
	g, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestLacks uses what a T4 lacks and an H200 has. The results on a T4 are unverified.
func TestLacks(t *testing.T) {
	for _, name := range []string{"T4", "H200"} {
		r := newLab(t, gpusOf(t, name))
		g := named(t, name)
		pick := func(lacks driver.Result) driver.Result {
			if name == "T4" {
				return lacks
			}
			return ok
		}
		f, res := r.ModuleGetFunction(r.th, r.load(".version 6.4 .target sm_70 .visible .entry k() {ret;}"), "k")
		r.must(res)
		launch := func(a driver.LaunchAttribute) driver.Result {
			c := driver.LaunchConfig{GridX: 2, GridY: 1, GridZ: 1, BlockX: 32, BlockY: 1, BlockZ: 1, Stream: 0,
				Attributes: &a, Count: 1}
			return r.LaunchKernelEx(r.th, &c, f, driver.KernelParams{})
		}
		r.want("a cluster", pick(driver.ResultNotSupported), launch(driver.LaunchAttribute{
			ID: driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, Value: driver.LaunchAttributeValue{0: 2, 4: 1, 8: 1}}))
		r.want("an overlapping launch", pick(driver.ResultNotSupported), launch(driver.LaunchAttribute{
			ID: driver.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, Value: driver.LaunchAttributeValue{1}}))
		r.want("a cooperative launch", ok, launch(driver.LaunchAttribute{
			ID: driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, Value: driver.LaunchAttributeValue{1}}))
		c := driver.LaunchConfig{GridX: 2, GridY: 1, GridZ: 1, BlockX: 32, BlockY: 1, BlockZ: 1}
		_, res = r.OccupancyMaxPotentialClusterSize(r.th, f, c)
		r.want("the largest cluster", pick(driver.ResultNotSupported), res)
		r.want("a large cluster", pick(driver.ResultInvalidValue),
			r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))
		_, res = r.CtxGetLimit(r.th, driver.CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
		r.want("the L2 cache", pick(driver.ResultUnsupportedLimit), res)
		r.want("setting the L2 cache", pick(driver.ResultUnsupportedLimit),
			r.CtxSetLimit(r.th, driver.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0))
		r.want("shared memory", ok, r.FuncSetAttribute(r.th, f,
			driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, g.SharedOfBlock))
		r.want("too much shared memory", driver.ResultInvalidValue, r.FuncSetAttribute(r.th, f,
			driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, g.SharedOfBlock+1))
		r.want("a grid that fits", ok, r.LaunchCooperativeKernel(r.th, f, uint32(g.Multiprocessors), 1, 1, 1024, 1, 1, 0, 0,
			driver.KernelParams{}))
		r.want("a grid that is too large", driver.ResultCooperativeLaunchTooLarge, r.LaunchCooperativeKernel(r.th, f,
			2*uint32(g.Multiprocessors)+1, 1, 1, 1024, 1, 1, 0, 0, driver.KernelParams{}))
		_, res = r.MemAlloc(r.th, g.Memory.Size)
		r.want("all of the memory", driver.ResultOutOfMemory, res)
		p, res := r.MemAlloc(r.th, g.Memory.Size-1<<30)
		r.want("nearly all of the memory", ok, res)
		r.must(r.MemFree(r.th, p))
	}
}

// TestSpecialsOfKernel asks for what a GPU has in a kernel: the number of its multiprocessors, of the warps of each,
// and the shared memory of a block, in the unit in which blocks get some.
func TestSpecialsOfKernel(t *testing.T) {
	for name, want := range map[string]string{
		"T4":   "\x28\x00\x00\x00\x20\x00\x00\x00\x00\x01\x00\x00",
		"L40S": "\x8e\x00\x00\x00\x30\x00\x00\x00\x80\x00\x00\x00",
		"H200": "\x84\x00\x00\x00\x40\x00\x00\x00\x80\x00\x00\x00",
	} {
		r := newLab(t, gpusOf(t, name))
		f, res := r.ModuleGetFunction(r.th, r.load(`.version 6.4
.target sm_70 .address_size 64
.visible .entry ask(.param .u64 p)
{ .reg .u64 a; .reg .u32 n; .shared .u32 v; ld.param.u64 a, [p];
mov.u32 n, %nsmid; st.global.u32 [a], n;
mov.u32 n, %nwarpid; st.global.u32 [a+4], n;
mov.u32 n, %total_smem_size; st.global.u32 [a+8], n;
st.shared.u32 [v], n; ret; }`), "ask")
		r.must(res)
		p, res := r.MemAlloc(r.th, 12)
		r.must(res)
		s := r.newStream()
		r.must(r.launchOn(s, f, 1, params(p)))
		r.must(r.StreamSynchronize(r.th, s))
		if got := r.read(p, 12); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
