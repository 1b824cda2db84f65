package library_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

const linkHead = ".version 7.0\n.target sm_70\n.address_size 64\n"

// kernelText is a kernel that writes what its body has put into %v.
func kernelText(name, body string) string {
	return ".visible .entry " + name + "(.param .u64 p)\n{\n\t.reg .u64 %a, %b;\n\t.reg .u32 %v;\n\t.param .b32 r;\n" +
		"\tld.param.u64 %a, [p];\n\tcvta.to.global.u64 %a, %a;\n\t" + body + "\n\tst.global.u32 [%a], %v;\n\tret;\n}\n"
}

// functionText is a function that returns a number.
func functionText(linkage, name string, value int) string {
	return fmt.Sprintf("%s .func (.param .b32 r) %s()\n{\n\tst.param.b32 [r], %d;\n\tret;\n}\n", linkage, name, value)
}

const (
	declareF = ".extern .func (.param .b32 r) f;\n"
	callF    = "call (r), f;\n\tld.param.b32 %v, [r];"
	loadV    = "ld.global.u32 %v, [v];"
)

// linkCases are pairs of texts, with what an H200 answered (driver 580, CUDA 13.0): what the kernels ka
// and kb have written, or the linker's message.
var linkCases = []struct {
	name, a, b string
	ka, kb     uint32
	message    string
}{
	{"a function of the other", declareF + kernelText("ka", callF), functionText(".visible", "f", 2), 2, 0, ""},
	{"private functions of one name", functionText("", "f", 1) + kernelText("ka", callF),
		functionText("", "f", 2) + kernelText("kb", callF), 1, 2, ""},
	{"private variables of one name", ".global .u32 v = 1;\n" + kernelText("ka", loadV),
		".global .u32 v = 2;\n" + kernelText("kb", loadV), 1, 2, ""},
	{"a visible and a private function", functionText(".visible", "f", 1) + kernelText("ka", callF),
		functionText("", "f", 2) + kernelText("kb", callF), 1, 2, ""},
	{"weak functions", functionText(".weak", "f", 1) + kernelText("ka", callF),
		functionText(".weak", "f", 2) + kernelText("kb", callF), 1, 1, ""},
	{"a weak and a visible function", functionText(".weak", "f", 1) + kernelText("ka", callF),
		functionText(".visible", "f", 2) + kernelText("kb", callF), 2, 2, ""},
	{"weak variables", ".weak .global .u32 v = 1;\n" + kernelText("ka", loadV),
		".weak .global .u32 v = 2;\n" + kernelText("kb", loadV), 1, 1, ""},
	{"common variables", ".common .global .u32 v;\n" + kernelText("ka", loadV),
		".common .global .u32 v[4];\n" + kernelText("kb", loadV), 0, 0, ""},
	{"the address of a variable of the other", ".extern .global .u32 v;\n.global .u64 q = generic(v);\n" +
		kernelText("ka", "ld.global.u64 %b, [q];\n\tld.u32 %v, [%b];"), ".visible .global .u32 v = 9;\n", 9, 0, ""},
	{"dynamic shared memory of both", ".extern .shared .align 4 .b8 sh[];\n" + kernelText("ka", "mov.u32 %v, 3;"),
		".extern .shared .align 16 .b8 sh[];\n" + kernelText("kb", "mov.u32 %v, 4;"), 3, 4, ""},
	{"a constant of the other", ".extern .const .u32 v;\n" + kernelText("ka", "ld.const.u32 %v, [v];"),
		".visible .const .u32 v = 8;\n", 8, 0, ""},
	{"functions of each other", ".extern .func (.param .b32 r) g;\n" + functionText(".visible", "f", 1) +
		kernelText("ka", "call (r), g;\n\tld.param.b32 %v, [r];"),
		declareF + functionText(".visible", "g", 2) + kernelText("kb", callF), 2, 1, ""},
	{"a function that is declared and not used", declareF + kernelText("ka", "mov.u32 %v, 4;"),
		kernelText("kb", "mov.u32 %v, 5;"), 4, 5, ""},
	{"a kernel twice", kernelText("ka", "mov.u32 %v, 1;"), kernelText("ka", "mov.u32 %v, 2;"), 0, 0,
		"Multiple definition of 'ka' in 'b', first defined in 'a'"},
	{"another result", ".extern .func (.param .b64 r) f;\n.visible .func g()\n{\n\t.param .b64 r;\n\tcall (r), f;\n\tret;\n}\n" +
		kernelText("ka", "mov.u32 %v, 1;"),
		functionText(".visible", "f", 2), 0, 0, "Prototype doesn't match for 'f' in 'b'"},
	{"another size", ".extern .global .u64 v;\n" + kernelText("ka", loadV), ".visible .global .u32 v = 2;\n", 0, 0,
		"Size doesn't match for 'v' in 'b', first specified in 'a'"},
	{"another space", ".extern .const .u32 v;\n" + kernelText("ka", "ld.const.u32 %v, [v];"),
		".visible .global .u32 v = 2;\n", 0, 0, "Memory space doesn't match for 'v' in 'b', first specified in 'a'"},
	{"no such function", declareF + kernelText("ka", callF), kernelText("kb", "mov.u32 %v, 5;"), 0, 0,
		"Undefined reference to 'f' in 'a'"},
	{"no such variable", ".extern .global .u32 v;\n" + kernelText("ka", "mov.u32 %v, 4;"),
		kernelText("kb", "mov.u32 %v, 5;"), 0, 0, "Undefined reference to 'v' in 'a'"},
}

// testLinkCases links all pairs, and runs their kernels.
func testLinkCases(t *testing.T, gpu *Context) {
	for _, c := range linkCases {
		t.Run(c.name, func(t *testing.T) {
			linked, err := library.Link(gpu, []library.Input{{Name: "a", Data: []byte(linkHead + c.a)}, {Name: "b", Data: []byte(linkHead + c.b)}})
			if c.message != "" {
				if !errors.Is(err, ResultInvalidSource) || !strings.Contains(err.Error(), c.message) {
					t.Errorf("Link: %v\nwant %s", err, c.message)
				}
				return
			}
			NoErr(t, err)
			mod := Need(gpu.LoadModule(linked.Image))(t)
			defer mod.Close()
			for _, k := range []struct {
				name string
				want uint32
			}{{"ka", c.ka}, {"kb", c.kb}} {
				f, err := mod.Function(k.name)
				if errors.Is(err, ResultNotFound) && k.want == 0 {
					continue
				}
				NoErr(t, err)
				if got := launched(t, f, gpu); got != k.want {
					t.Errorf("%s has written %d, not %d", k.name, got, k.want)
				}
			}
		})
	}
}

// TestLink links texts that use each other's functions and variables.
func TestLink(t *testing.T) {
	r := NewSoft(t)
	testLinkCases(t, r.GPU)
	main := library.Input{Name: "main.ptx", Data: []byte(linkHead + declareF + kernelText("ka", callF))}
	linked := Need(library.Link(r.GPU, []library.Input{main, {Name: "f.ptx", Data: []byte(".version 8.0\n.target sm_80\n" +
		".address_size 64\n" + functionText(".visible", "f", 2))}}, JITVerbose()))(t)
	if !strings.Contains(linked.Log, "kernel ka") {
		t.Errorf("the log is %q", linked.Log)
	}
	l := Need(library.Load(r.Drv, linked.Image))(t)
	defer l.Close()
	if n := launched(t, Need(Need(l.Kernel("ka"))(t).Function(r.GPU))(t), r.GPU); n != 2 {
		t.Errorf("the kernel of the library has written %d", n)
	}
	if n := r.Sim.Census()["linker"]; n != 0 {
		t.Errorf("%d linkers are left", n)
	}
}

// unknownLinks is a driver that answers CUDA_ERROR_UNKNOWN to what cannot be linked, as an H200's
// sometimes does.
type unknownLinks struct{ Software driver.Software }

func unknown(r driver.Result) driver.Result {
	if r == driver.ResultInvalidSource {
		return driver.ResultUnknown
	}
	return r
}

func (d unknownLinks) LinkAddData(th *driver.Thread, l driver.LinkState, typ int32, data []byte, name string, options []uint32,
	values []uintptr) driver.Result {
	return unknown(d.Software.LinkAddData(th, l, typ, data, name, options, values))
}

func (d unknownLinks) LinkComplete(th *driver.Thread, l driver.LinkState) (driver.HostPtr, uint64, driver.Result) {
	p, n, r := d.Software.LinkComplete(th, l)
	return p, n, unknown(r)
}

// TestLinkUnknown checks that results of the linker do not count as a loss of the device.
func TestLinkUnknown(t *testing.T) {
	sim := cusim.New()
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(unknownLinks{sim.Software()})))))(t)
	defer drv.Close()
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	testLinkCases(t, gpu)
	if err := gpu.Err(); err != nil {
		t.Errorf("the context has an error: %v", err)
	}
}

// TestLinkMistakes links what cannot be linked.
func TestLinkMistakes(t *testing.T) {
	r := NewSoft(t)
	var none *Context
	_, err := library.Link(none, nil)
	r.Is(err, ErrNil)
	_, err = library.Link(r.GPU, nil)
	r.Is(err, drivercall.ErrInvalid)
	_, err = library.Link(r.GPU, []library.Input{{Name: "x", Data: nil}})
	r.Is(err, drivercall.ErrInvalid)
	cubin := make([]byte, 64)
	copy(cubin, "\x7fELF")
	cubin[18] = 190
	for _, c := range []struct {
		what   string
		data   []byte
		result Result
		words  string
	}{
		{"a mistake", []byte(badPTX), ResultInvalidPTX, "the compiler says:"},
		{"no PTX", []byte("hello"), ResultInvalidImage, "neither a text in PTX nor code for a GPU"},
		{"a cubin", cubin, ResultNoBinaryForGPU, "cannot be linked without one"},
		{"an archive", []byte("!<arch>\n"), ResultNoBinaryForGPU, "cannot be linked without one"},
	} {
		_, err := library.Link(r.GPU, []library.Input{{Name: "good", Data: []byte(PutPTX)}, {Name: c.what, Data: c.data}})
		r.Is(err, c.result)
		if want := fmt.Sprintf("input 1, %q", c.what); c.what != "a mistake" &&
			(err == nil || !strings.Contains(err.Error(), want)) || err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// testLinkThreads links in goroutines that change threads between calls. A linker needs one thread:
// NVIDIA's driver crashes if another one completes it.
func testLinkThreads(t *testing.T, gpu *Context) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			inputs := []library.Input{{Name: "a", Data: []byte(linkHead + kernelText(fmt.Sprint("k", g), "mov.u32 %v, 1;"))},
				{Name: "b", Data: []byte(linkHead + functionText(".visible", "f", 1))}}
			for range 20 {
				if _, err := library.Link(gpu, inputs); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// linkThreads is a driver that counts the calls about a linker by another thread than its creator.
type linkThreads struct {
	Software driver.Software
	threads  sync.Map // of linkers
	others   atomic.Int32
}

func (d *linkThreads) LinkCreate(th *driver.Thread, options []uint32,
	values []uintptr) (driver.LinkState, driver.Result) {
	l, r := d.Software.LinkCreate(th, options, values)
	d.threads.Store(l, driver.CurrentThread())
	time.Sleep(time.Microsecond) // a goroutine that is not locked to its thread often goes on with another one
	return l, r
}

// check counts a call by a thread that did not create the linker.
func (d *linkThreads) check(l driver.LinkState) {
	if creator, _ := d.threads.Load(l); creator != driver.CurrentThread() {
		d.others.Add(1)
	}
}

func (d *linkThreads) LinkComplete(th *driver.Thread, l driver.LinkState) (driver.HostPtr, uint64, driver.Result) {
	d.check(l)
	return d.Software.LinkComplete(th, l)
}

func (d *linkThreads) LinkDestroy(th *driver.Thread, l driver.LinkState) driver.Result {
	d.check(l)
	return d.Software.LinkDestroy(th, l)
}

// TestLinkThreads checks that one thread creates, completes and destroys a linker.
func TestLinkThreads(t *testing.T) {
	d := &linkThreads{Software: cusim.New().Software()}
	drv := Need(Open(WithSoftware(driver.Provide(override.Driver(d)))))(t)
	defer drv.Close()
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	defer gpu.Close()
	testLinkThreads(t, gpu)
	if n := d.others.Load(); n > 0 {
		t.Errorf("%d calls were made by another thread than that which created the linker", n)
	}
}
