package driver

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/purecu/purecu/internal/ccall"
)

// recorder is a Library of which every function is the same C function, which notes its words.
type recorder struct{ function uintptr }

func (r recorder) Version() int                            { return newest }
func (r recorder) Proc(string, int, bool) (uintptr, error) { return r.function, nil }
func (r recorder) Symbol(string) (uintptr, error)          { return r.function, nil }

// byAddress are the calls that pass the address of a number, and how many numbers come from there on.
var byAddress = map[string]int{"DeviceSetGraphMemAttribute": 1, "LogsDumpToMemory": 2, "MemPoolSetAttribute": 1,
	"PointerSetAttribute": 3, "ThreadExchangeStreamCaptureMode": 1}

// wide are the calls that the portable engine cannot make.
var wide = []string{"ParamSetf", "TexRefSetMipmapLevelBias", "TexRefSetMipmapLevelClamp",
	"TensorMapEncodeIm2col", "TensorMapEncodeIm2colWide"}

// abiLibrary builds a library for tests, and returns a function that returns the addresses of functions in it.
func abiLibrary(t *testing.T) func(name string) uintptr {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	path := filepath.Join(t.TempDir(), "libabi.so")
	build := exec.Command(cc, "-O1", "-shared", "-fPIC", "-pthread", "-o", path, "../internal/ccall/testdata/abi.c")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lib, err := ccall.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) uintptr {
		p, err := lib.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

// TestCallsBack calls functions that call back into Go, on stacks that are full to different degrees. The stack may
// move during the call, and the result must reach the caller.
func TestCallsBack(t *testing.T) {
	function := abiLibrary(t)
	table := New(recorder{function("make_kept_call")})
	back, err := table.NewCallback(func() {})
	if err != nil {
		t.Skip(err)
	}
	defer back.Drop()
	if _, err := ccall.Invoke(function("keep_call"), ccall.Hot, back.Addr, back.Data); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() Result{
		"GraphDestroy":      func() Result { return table.GraphDestroy(At{}, 1) },
		"GraphExecDestroy":  func() Result { return table.GraphExecDestroy(At{}, 1) },
		"UserObjectRelease": func() Result { return table.UserObjectRelease(At{}, 1, 1) },
		"GraphExecUpdateV2": func() Result { return second(table.GraphExecUpdateV2(At{}, 1, 1)) },
		"CallSymbol": func() Result {
			s, _ := FindSymbol("cuGraphDestroy")
			r, _ := table.CallSymbol(At{}, s, 1)
			return Result(int32(r))
		},
	} {
		lost := 0
		for depth := range 200 {
			done := make(chan Result)
			go func() { done <- atDepth(depth, call) }()
			if <-done != 700 {
				lost++
			}
		}
		if lost != 0 {
			t.Errorf("%s: %d of 200 results are lost", name, lost)
		}
	}
}

// atDepth makes a call on a stack with more frames.
//
//go:noinline
func atDepth(depth int, call func() Result) Result {
	var fill [32]byte
	if depth > 0 {
		fill[depth%32] = 1
		return atDepth(depth-1, call) + Result(fill[(depth+1)%32])
	}
	return call()
}

// TestCallsReachC makes every call with different numbers. C must receive them as they are, and in
// their order.
func TestCallsReachC(t *testing.T) {
	function := abiLibrary(t)
	seen := function("words_seen")
	table := New(recorder{function("quiet16")})
	methods := reflect.TypeFor[Software]()
	for i := range methods.NumMethod() {
		m := methods.Method(i)
		call := reflect.ValueOf(table).MethodByName(m.Name)
		switch m.Name {
		case "Clock", "BeginWait", "ModuleLoadLog", // they make no call, or return texts
			"GetErrorName", "GetErrorString", "FuncGetName", "KernelGetName":
			continue
		}
		for _, at := range []At{{}, {Context: 5}} {
			args, want := arguments(m.Name, call.Type(), at)
			call.Call(args)
			if at.Context != 0 {
				continue // the last call was that of cuCtxPopCurrent
			}
			f := struct {
				fn, r uintptr
				to    unsafe.Pointer
				_     [5]uintptr
				words [16]uint64
			}{fn: seen}
			f.to = unsafe.Pointer(&f.words)
			ccall.Call6(unsafe.Pointer(&f), ccall.Hot, nil)
			missing := len(want)
			for _, w := range f.words {
				if missing > 0 && w == want[len(want)-missing] {
					missing--
				}
			}
			notMade := ccall.Engine == "purego" && slices.Contains(wide, m.Name)
			if missing != 0 && missing != byAddress[m.Name] && !notMade {
				t.Errorf("%s: C received %#x, which does not have %#x in this order", m.Name, f.words, want)
			}
		}
	}
}

// arguments returns arguments for a method, and the words of those that are numbers.
func arguments(method string, typ reflect.Type, at At) (args []reflect.Value, want []uint64) {
	args = append(args, reflect.ValueOf(at))
	slicesSeen := 0
	for i := 1; i < typ.NumIn(); i++ {
		v := reflect.New(typ.In(i)).Elem()
		number := uint64(0x41 + i)
		switch v.Kind() {
		case reflect.Int32, reflect.Int64:
			v.SetInt(-int64(number)) // not sign-extended
			if number = uint64(-int64(number)); v.Kind() == reflect.Int32 {
				number = uint64(uint32(number))
			}
			want = append(want, number)
		case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
			if bits := v.Type().Bits(); bits > 8 {
				number |= number << (bits - 8)
			}
			v.SetUint(number)
			want = append(want, number)
		case reflect.String:
			v.SetString(fmt.Sprint(method, i))
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), lengthFor(method, slicesSeen), 8))
			slicesSeen++
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Struct:
			if c, ok := v.Addr().Interface().(*MemLocation); ok { // a word by value, or an address
				c.Type, c.ID = 1, 2
			}
		}
		args = append(args, v)
	}
	return args, want
}

// lengthFor returns the length of a slice, the nth of a method's. Those of tensor maps depend on the
// rank.
func lengthFor(method string, n int) int {
	switch {
	case method == "TensorMapEncodeIm2col":
		return []int{5, 4, 3, 3, 5}[n]
	case strings.HasPrefix(method, "TensorMapEncode") && n == 1:
		return 4
	case strings.HasPrefix(method, "TensorMapEncode"):
		return 5
	}
	return 3
}

// TestChecks makes calls with slices and strings that C could not be given.
func TestChecks(t *testing.T) {
	table := New(recorder{}) // no call reaches C
	three, ones, nodes := make([]uint64, 3), make([]uint32, 3), make([]GraphNode, 2)
	for what, res := range map[string]Result{
		"strides":   second(table.TensorMapEncodeTiled(At{}, 0, 0, three, three, ones, ones, 0, 0, 0, 0)),
		"no rank":   second(table.TensorMapEncodeTiled(At{}, 0, 0, nil, make([]uint64, 1), nil, nil, 0, 0, 0, 0)),
		"edges":     table.GraphAddDependenciesV2(At{}, 0, nodes, nodes, make([]GraphEdgeData, 1)),
		"no source": table.GraphAddDependencies(At{}, 0, nodes, nil),
		"a name":    second(table.LibraryGetKernel(At{}, 0, "a\x00b")),
	} {
		if res != ResultInvalidValue {
			t.Errorf("%s: %v", what, res)
		}
	}
}

func second[T any](_ T, res Result) Result { return res }

// TestMethods checks that a Table has a method for each of a software driver's, and no arguments
// other than those.
func TestMethods(t *testing.T) {
	methods, table := reflect.TypeFor[Software](), reflect.TypeFor[*Table]()
	for i := range methods.NumMethod() {
		m := methods.Method(i)
		if slices.Contains([]string{"Clock", "BeginWait", "ModuleLoadLog"}, m.Name) {
			continue
		}
		have, ok := table.MethodByName(m.Name)
		if !ok || have.Type.NumIn() != m.Type.NumIn()+1 || have.Type.NumOut() != m.Type.NumOut() {
			t.Errorf("Table's %s does not fit: %v", m.Name, have.Type)
		}
	}
}
