package main

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim"
	"github.com/purecu/purecu/internal/sim/environment"
)

// numberOf returns the number of a call.
func numberOf(t *testing.T, name string) uint32 {
	t.Helper()
	n := slices.Index(callNames[:], name)
	if n < 0 {
		t.Fatalf("there is no call %s", name)
	}
	return uint32(n)
}

// TestEndings compares the functions that are called while memory is short with all that have the name of such a one.
func TestEndings(t *testing.T) {
	verbs := regexp.MustCompile(`Close|Current|Destroy|Disable|Elapsed|End|Free|Get|Is[A-Z]|Logs|Pop|Query|Re(lease|move)|` +
		`Stop|Synchronize|Trim|Unload|Unlock|Unmap|Unregister`)
	var doubtful []string // functions that create something, or may
	for _, name := range slices.Compact(slices.Sorted(slices.Values(callNames[:]))) {
		if verbs.MatchString(name) && !slices.Contains(endings, name) {
			doubtful = append(doubtful, name)
		}
	}
	want := strings.Fields("cuDeviceGetDefaultMemPool cuExternalMemoryGetMappedBuffer cuGraphAddMemFreeNode " +
		"cuIpcGetEventHandle cuIpcGetMemHandle cuKernelGetFunction cuLibraryGetGlobal cuLibraryGetKernel " +
		"cuLibraryGetManaged cuLibraryGetModule cuLibraryGetUnifiedFunction cuMemGetDefaultMemPool cuMemGetMemPool " +
		"cuModuleGetFunction cuModuleGetGlobal")
	if !slices.Equal(doubtful, want) {
		t.Errorf("in no list, though the names are those of functions that end something, or ask: %v\nwant %v",
			doubtful, want)
	}
	for _, name := range endings {
		if !ends(numberOf(t, name)) {
			t.Errorf("%s", name)
		}
	}
	creates := regexp.MustCompile(`Add|Alloc(Async)?$|Create|Instantiate|Launch|Load|Register|Reserve|Retain|memcpy|memset`)
	for _, name := range endings {
		if creates.MatchString(name) && !verbs.MatchString(name) {
			t.Errorf("%s creates something", name)
		}
	}
}

// fixed returns a function that returns an environment.
func fixed(environ []string) func() []string { return func() []string { return environ } }

// TestFaultsOfMade checks that the functions that C implements with other functions ask for faults
// with known names, meet each fault once, whatever its result, and leave faults of all functions to the others.
func TestFaultsOfMade(t *testing.T) {
	asked := 0
	for _, file := range []string{"build/stub/more.c", "build/stub/old.c"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(source), `cusim_begin("`)[1:] {
			name, _, _ := strings.Cut(part, `"`)
			asked++
			opts, err := environment.Options(fixed([]string{"CUSIM_FAULTS=" + name + "@2=1,*@3=46"}), io.Discard)
			if err != nil {
				t.Error(err)
				continue
			}
			l, th := newLibrary(sim.New(opts...)), new(driver.Thread)
			l.init(0)                                   // the first call
			ctx, _ := l.d.DevicePrimaryCtxRetain(th, 0) // the second one
			for i, want := range []driver.Result{driver.ResultInvalidContext, driver.ResultInvalidValue} {
				if i == 0 && firstChecks[name] == 0 {
					want = driver.ResultSuccess
				}
				if r := l.begin(th, name); r != want {
					t.Errorf("call %d of %s: %v, want %v", i+1, name, r, want)
				}
			}
			if r := l.d.CtxSetCurrent(th, ctx); r != 46 {
				t.Errorf("%s meets a fault of all functions: cuCtxSetCurrent returns %v", name, r)
			}
		}
	}
	if asked < 10 {
		t.Errorf("only %d functions ask for faults", asked)
	}
}

// TestOwnStreamFaults checks that a fault affects a call only once.
func TestOwnStreamFaults(t *testing.T) {
	d := sim.New(
		sim.Faults(sim.Fault{Function: "cuMemsetD8", Code: 2}, sim.Fault{Function: "cuMemsetD8Async", Code: 46}),
	)
	d.Init(nil, 0)
	for _, want := range []driver.Result{2, 46, driver.ResultInvalidContext} {
		if r := (ownStream{d}).MemsetD8(new(driver.Thread), 0, 0, 1); r != want {
			t.Errorf("got %v, want %v", r, want)
		}
	}
}

// TestNilResult checks that a call that creates an object is not made if the address for the result
// is nil. The call would find that the module is invalid, and return another error.
func TestNilResult(t *testing.T) {
	l := newLibrary(sim.New())
	l.init(0)
	if r := l.call(new(driver.Thread), numberOf(t, "cuModuleGetFunction"),
		&[maxWords]uint64{1: 0x1234560}); r != driver.ResultInvalidValue {
		t.Errorf("got %v", r)
	}
	if m := l.d.Misuses(); len(m) != 0 {
		t.Errorf("misuses: %v", m)
	}
}

// TestNilImage checks that textures and surfaces are not created if the address for the handle is nil: a program could
// not destroy them.
func TestNilImage(t *testing.T) {
	l := newLibrary(sim.New())
	l.init(0)
	th := new(driver.Thread)
	ctx, r := l.d.DevicePrimaryCtxRetain(th, 0)
	if r != driver.ResultSuccess || l.d.CtxSetCurrent(th, ctx) != driver.ResultSuccess {
		t.Fatal(r)
	}
	a, r := l.d.ArrayCreate(th, driver.ArrayDescriptor{Width: 4, Format: driver.CU_AD_FORMAT_FLOAT, NumChannels: 1})
	if r != driver.ResultSuccess {
		t.Fatal(r)
	}
	res, tex := new(driver.ResourceDesc), new(driver.TextureDesc)
	res.Res.Array().HArray = a
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(res)
	pins.Pin(tex)
	for name, words := range map[string]*[maxWords]uint64{
		"cuTexObjectCreate":  {1: uint64(uintptr(unsafe.Pointer(res))), 2: uint64(uintptr(unsafe.Pointer(tex)))},
		"cuSurfObjectCreate": {1: uint64(uintptr(unsafe.Pointer(res)))},
	} {
		if r := l.call(th, numberOf(t, name), words); r != driver.ResultInvalidValue {
			t.Errorf("%s: %v", name, r)
		}
	}
	if n := l.d.Census(); n["texture object"] != 0 || n["surface object"] != 0 {
		t.Errorf("open objects: %v", n)
	}
}

// TestTextWithoutMemory stores a string that C has no memory for, and then has.
func TestTextWithoutMemory(t *testing.T) {
	l, copied, to := newLibrary(sim.New()), uintptr(0), uintptr(1)
	l.copyText = func(string) uintptr { return copied }
	if r := l.storeText(driver.ResultSuccess, &to, "name"); r != driver.ResultOutOfMemory || to != 1 {
		t.Errorf("without memory: %v, %d", r, to)
	}
	copied = 2
	if r := l.storeText(driver.ResultSuccess, &to, "name"); r != driver.ResultSuccess || to != 2 {
		t.Errorf("with memory: %v, %d", r, to)
	}
}

// TestParts stores and loads values of which C has only the first bytes.
func TestParts(t *testing.T) {
	for _, size := range []int{
		pointerAttributeSize(driver.CU_POINTER_ATTRIBUTE_IS_MANAGED),
		memPoolAttributeSize(driver.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC),
		pointerAttributeSize(driver.CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
		shareableHandleSize(driver.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		memPoolAttributeSize(driver.CU_MEMPOOL_ATTR_USED_MEM_HIGH),
		graphMemAttributeSize(driver.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT),
		pointerAttributeSize(driver.CU_POINTER_ATTRIBUTE_RANGE_SIZE),
		shareableHandleSize(driver.CU_MEM_HANDLE_TYPE_WIN32),
		pointerAttributeSize(driver.CU_POINTER_ATTRIBUTE_P2P_TOKENS),
		shareableHandleSize(driver.CU_MEM_HANDLE_TYPE_FABRIC),
	} {
		memory := make([]byte, 72)
		value := driver.ShareableHandle{0x0101010101010101, 0x0101010101010101, 0x0101010101010101, 0x0101010101010101,
			0x0101010101010101, 0x0101010101010101, 0x0101010101010101, 0x0101010101010101}
		if r := storePart(driver.ResultSuccess, &memory[0], value, size); r != driver.ResultSuccess {
			t.Errorf("%d bytes: %v", size, r)
		}
		if n := bytes.Count(memory, []byte{1}); n != size || memory[size] != 0 {
			t.Errorf("of %d bytes %d were stored: %v", size, n, memory)
		}
		if v := loadPart[driver.ShareableHandle](&memory[0], size); v[0]&0xff != 1 || size < 8 && v[0]>>(8*size) != 0 {
			t.Errorf("%d bytes: loaded %v", size, v)
		}
	}
	if r := storePart(driver.ResultNotReady, nil, uint64(1), 8); r != driver.ResultNotReady {
		t.Errorf("after an error: %v", r)
	}
	if r := storePart(driver.ResultSuccess, nil, uint64(1), 8); r != driver.ResultInvalidValue {
		t.Errorf("nowhere: %v", r)
	}
}

// TestImage checks how much of an image is read.
func TestImage(t *testing.T) {
	// They are on the heap, where they do not move.
	images = [][]byte{[]byte("\x50\xed\x55\xba\x01\x00\x10\x00\x04\x00\x00\x00\x00\x00\x00\x00abcd, and more"),
		[]byte(".version\x00 more"), []byte("\x7fELF more")}
	fatbin, text, cubin := images[0], images[1], images[2]
	wrapper = []uint64{0x1_466243b1, address(fatbin)}
	for _, tt := range []struct {
		name string
		at   uint64
		want string
	}{
		{"text", address(text), ".version\x00"}, {"cubin", address(cubin), "\x7fELF"}, {"fatbin", address(fatbin), string(fatbin[:20])},
		{"wrapper", uint64(uintptr(unsafe.Pointer(&wrapper[0]))), string(fatbin[:20])},
	} {
		if got, there := image(&tt.at); !there || string(got) != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, there, tt.want)
		}
	}
}

var (
	images  [][]byte
	wrapper []uint64
)

// address returns where bytes are.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }

// TestEnds checks which calls are made while the process is short of memory.
func TestEnds(t *testing.T) {
	want := map[string]bool{"cuMemFree": true, "cuStreamDestroy": true, "cuEventQuery": true, "cuModuleUnload": true,
		"cuStreamSynchronize": true, "cuLogsDumpToMemory": true, "cuCtxGetCurrent": true,
		"cuMemAlloc": false, "cuLaunchKernel": false, "cuModuleLoadData": false, "cuLaunchHostFunc": false}
	for name, want := range want {
		if got := ends(uint32(slices.Index(callNames[:], name))); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if ends(uint32(len(callNames))) {
		t.Error("a number that no call has")
	}
}
