package sim

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// linker returns a linker with a log of errors, which is destroyed at the end.
func (r *lab) linker() (l driver.LinkState, log func() string) {
	r.t.Helper()
	text := mem.NewBytes(2000)
	values := []uintptr{uintptr(unsafe.Pointer(&text[0])), uintptr(len(text))}
	l, res := r.LinkCreate(r.th, []uint32{driver.CU_JIT_ERROR_LOG_BUFFER, driver.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES}, values)
	r.must(res)
	r.t.Cleanup(func() { r.must(r.LinkDestroy(r.th, l)) })
	return l, func() string {
		s, _, _ := strings.Cut(string(text), "\x00")
		if values[1] != uintptr(len(s)+1) {
			r.t.Errorf("the log %q has length %d", s, values[1])
		}
		return s
	}
}

// TestLinkResults has the results of an H200 (driver 580, CUDA 13.0).
func TestLinkResults(t *testing.T) {
	r := newLab(t)
	const invalid, source, ptx = driver.ResultInvalidValue, driver.ResultInvalidSource, driver.CU_JIT_INPUT_PTX
	const help = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .func help() { ret; }\n"
	const call = ".version 7.0\n.target sm_70\n.address_size 64\n.extern .func help;\n" +
		".visible .entry main_kernel() { call help; ret; }\n"
	add := func(l driver.LinkState, text, name string) driver.Result {
		return r.LinkAddData(r.th, l, ptx, []byte(text), name, nil, nil)
	}
	complete := func(l driver.LinkState) driver.Result {
		_, _, res := r.LinkComplete(r.th, l)
		return res
	}
	l, log := r.linker()
	r.want("add", ok, add(l, call, "main.ptx"))
	r.want("add", ok, add(l, help, "help.ptx"))
	p, n, res := r.LinkComplete(r.th, l)
	r.want("complete", ok, res)
	r.want("complete twice", driver.ResultInvalidHandle, complete(l))
	r.want("add after complete", invalid, add(l, help, "again"))
	m, res := r.ModuleLoadData(r.th, foreignBytes(p, n))
	r.must(res)
	if _, res = r.ModuleGetFunction(r.th, m, "main_kernel"); res != ok || log() != "" {
		t.Errorf("the kernel: %v, log %q", res, log())
	}
	r.must(r.ModuleUnload(r.th, m))

	// A module can have as much shared memory as a block has, and a link 48 KiB.
	for size, want := range map[string]driver.Result{"49152": ok, "49153": source, "232448": source, "1048576": source} {
		l, _ := r.linker()
		text := header + ".entry own() { .reg .b32 a; .shared .b8 v[" + size + "]; mov.u32 a, v; st.shared.b32 [a], a; ret; }"
		r.want("add "+size, ok, add(l, text, "shared"))
		r.want("complete "+size, want, complete(l))
	}

	l, log = r.linker()
	r.must(add(l, call, "main.ptx"))
	r.want("undefined", source, complete(l))
	r.want("undefined, again", source, complete(l))
	if want := "error   : Undefined reference to 'help' in 'main.ptx'"; log() != want {
		t.Errorf("the log is %q", log())
	}

	l, log = r.linker()
	r.must(add(l, help, "a"))
	r.want("twice", source, add(l, help, "b"))
	if want := "error   : Multiple definition of 'help' in 'b', first defined in 'a'"; log() != want {
		t.Errorf("the log is %q", log())
	}
	r.want("complete after a mistake", source, complete(l))

	// The result is for the newest target, with what only that has.
	l, _ = r.linker()
	r.must(add(l, ".version 8.0\n.target sm_90a\n.address_size 64\n"+
		".visible .entry k() .maxnreg 64 { setmaxnreg.dec.sync.aligned.u32 24; ret; }\n", "k"))
	r.must(add(l, help, "help"))
	p, n, res = r.LinkComplete(r.th, l)
	r.must(res)
	m, res = r.ModuleLoadData(r.th, foreignBytes(p, n))
	r.must(res)
	r.must(r.ModuleUnload(r.th, m))

	l, _ = r.linker()
	r.want("garbage", driver.ResultInvalidImage, add(l, "hello", "g"))
	r.want("version", driver.ResultUnsupportedPTXVersion, add(l, ".version 99.0\n.target sm_70\n", "g"))
	r.want("target", driver.ResultInvalidPTX, add(l, ".version 8.7\n.target sm_120\n", "g"))
	r.want("type 99", invalid, r.LinkAddData(r.th, l, 99, []byte(help), "x", nil, nil))
	r.want("type -1", invalid, r.LinkAddData(r.th, l, -1, []byte(help), "x", nil, nil))
	r.want("no data", invalid, r.LinkAddData(r.th, l, ptx, nil, "x", nil, nil))
	path := filepath.Join(t.TempDir(), "help.ptx")
	r.want("no file", driver.ResultFileNotFound, r.LinkAddFile(r.th, l, ptx, path, nil, nil))
	if err := os.WriteFile(path, []byte(help), 0o600); err != nil {
		t.Fatal(err)
	}
	r.want("file", ok, r.LinkAddFile(r.th, l, ptx, path, nil, nil))
	r.want("complete without what was refused", ok, complete(l))

	second := func(_ any, res driver.Result) driver.Result { return res }
	bare := new(driver.Thread)
	r.want("no context", driver.ResultInvalidContext, second(r.LinkCreate(bare, nil, nil)))
	r.want("option", invalid, second(r.LinkCreate(r.th, []uint32{999}, []uintptr{0})))
	r.want("buffer without size", invalid,
		second(r.LinkCreate(r.th, []uint32{driver.CU_JIT_ERROR_LOG_BUFFER}, []uintptr{1})))
	r.want("destroy 0", driver.ResultInvalidHandle, r.LinkDestroy(r.th, 0))
	r.want("add to 0", driver.ResultInvalidHandle, add(0, help, "h"))
	r.want("complete 0", driver.ResultInvalidHandle, complete(0))
}

// TestLinkWithoutLock calls the driver while a linker works.
func TestLinkWithoutLock(t *testing.T) {
	r := newLab(t)
	h, _ := r.linker()
	object, _ := r.objects.find(uintptr(h))
	l := object.(*link)
	l.mu.Lock()
	added := make(chan driver.Result)
	go func() {
		added <- r.LinkAddData(nil, h, driver.CU_JIT_INPUT_PTX,
			[]byte(header+".visible .func f() { ret; }"), "f", nil, nil)
	}()
	for range 100 {
		_, _, res := r.MemGetInfo(r.th)
		r.must(res)
		runtime.Gosched()
	}
	select {
	case res := <-added:
		t.Errorf("the linker was used by two calls: %v", res)
	default:
	}
	l.mu.Unlock()
	r.must(<-added)
	_, _, res := r.LinkComplete(r.th, h)
	r.must(res)
}

// TestLinkAlias links a text that defines a function with two names with one that calls it by the second.
func TestLinkAlias(t *testing.T) {
	r := newLab(t)
	const head = ".version 7.0\n.target sm_70\n.address_size 64\n"
	l, log := r.linker()
	for name, text := range map[string]string{
		"names": head + ".visible .func second;\n.func first() { ret; }\n.visible .func second;\n.alias second, first;\n",
		"main": head + ".extern .func second;\n.func first() { ret; }\n.visible .entry k() " +
			"{ call first; call second; ret; }\n",
	} {
		r.must(r.LinkAddData(r.th, l, driver.CU_JIT_INPUT_PTX, []byte(text), name, nil, nil))
	}
	p, n, res := r.LinkComplete(r.th, l)
	if res != ok {
		t.Fatalf("%v, %q", res, log())
	}
	m, res := r.ModuleLoadData(r.th, foreignBytes(p, n))
	r.must(res)
	f, res := r.ModuleGetFunction(r.th, m, "k")
	r.must(res)
	r.must(r.LaunchKernel(r.th, f, 1, 1, 1, 1, 1, 1, 0, 0, driver.KernelParams{}))
	r.must(r.CtxSynchronize(r.th))
	r.must(r.ModuleUnload(r.th, m))
}
