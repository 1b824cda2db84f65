package cu_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// noContext makes calls that enqueue work, on a thread whose current context is none, or another one.
type noContext struct {
	t         *testing.T
	tab       *driver.Table
	th        *driver.Thread
	gpu       *core.Context
	s         driver.Stream
	mem, copy *DeviceMem
	far       *DeviceMem // of another context
	host      *HostMem
	add       *Function
	exec      *graph.Exec
}

// calls returns the calls, and what each leaves in the first 4 bytes of mem, or "" if that is not looked at. mem holds
// four times 1 before.
func (n *noContext) calls() []struct {
	name string
	make func(driver.At) driver.Result
	want string
} {
	m, h := core.Of(n.mem).Raw, core.Of(n.host).Host
	add := kernelParams(U64(uint64(m)), U32(1), F32(1))
	tab := n.tab
	return []struct {
		name string
		make func(driver.At) driver.Result
		want string
	}{
		{"cuLaunchKernel", func(at driver.At) driver.Result {
			return tab.LaunchKernel(at, RawFunction(n.add), 1, 1, 1, 1, 1, 1, 0, n.s, add)
		}, ""}, // see one
		{"cuLaunchCooperativeKernel", func(at driver.At) driver.Result {
			return tab.LaunchCooperativeKernel(at, RawFunction(n.add), 1, 1, 1, 1, 1, 1, 0, n.s, add)
		}, ""},
		{
			"cuMemcpyHtoDAsync",
			func(at driver.At) driver.Result { return tab.MemcpyHtoDAsync(at, m, h, 4, n.s) },
			"host",
		},
		{
			"cuMemcpyDtoHAsync",
			func(at driver.At) driver.Result { return tab.MemcpyDtoHAsync(at, h+8, m, 4, n.s) },
			"",
		},
		{
			"cuMemcpyDtoDAsync",
			func(at driver.At) driver.Result { return tab.MemcpyDtoDAsync(at, m, core.Of(n.copy).Raw, 4, n.s) },
			"copy",
		},
		{"cuMemcpyPeerAsync", func(at driver.At) driver.Result {
			return tab.MemcpyPeerAsync(at, m, n.gpu.Raw, core.Of(n.far).Raw, core.Of(n.far).Ctx.Raw, 4, n.s)
		}, "far "},
		{
			"cuMemsetD8Async",
			func(at driver.At) driver.Result { return tab.MemsetD8Async(at, m, 'x', 4, n.s) },
			"xxxx",
		},
		{
			"cuMemsetD32Async",
			func(at driver.At) driver.Result { return tab.MemsetD32Async(at, m, 0x7a797877, 1, n.s) },
			"wxyz",
		},
		{"cuGraphUpload", func(at driver.At) driver.Result { return tab.GraphUpload(at, driver.GraphExec(n.exec.Handle()), n.s) }, ""},
		{
			"cuGraphLaunch",
			func(at driver.At) driver.Result { return tab.GraphLaunch(at, driver.GraphExec(n.exec.Handle()), n.s) },
			"gggg",
		},
		{
			"cuStreamWriteValue32",
			func(at driver.At) driver.Result { return tab.StreamWriteValue32(at, n.s, m, 0x74697277, 0) },
			"writ",
		},
		{"cuLaunchHostFunc", func(at driver.At) driver.Result {
			called := make(chan struct{})
			f, err := tab.NewCallback(func() { close(called) })
			if err != nil {
				n.t.Fatal(err)
			}
			defer f.Drop()
			res := tab.LaunchHostFunc(at, n.s, f)
			if capturing, _ := tab.StreamIsCapturing(driver.At{Thread: n.th}, n.s); res == driver.ResultSuccess &&
				capturing == 0 {
				<-called
			}
			return res
		}, ""},
		{"cuMemAllocAsync, cuMemFreeAsync", func(at driver.At) driver.Result {
			p, res := tab.MemAllocAsync(at, 64, n.s)
			if res == driver.ResultSuccess {
				res = tab.MemFreeAsync(at, p, n.s)
			}
			return res
		}, ""},
	}
}

// TestGPUWorkWithoutContext says which calls that enqueue work need the stream's context to be current. On an explicit
// stream none does: with no current context, or another one, each does what it does with the right one. The
// default streams are those of the current context.
func TestGPUWorkWithoutContext(t *testing.T) {
	gpu := GPUContext(t)
	two := Need(gpu.Device().NewContext(0))(t)
	defer CloseIt(t, two)
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer CloseIt(t, mod)
	n := &noContext{
		t: t, tab: core.Of(gpu).Context.Drv.Table(), gpu: core.Of(gpu).Context, mem: Need(gpu.Alloc(64))(t), copy: Need(gpu.Alloc(64))(t),
		far: Need(two.Alloc(64))(t), host: Need(gpu.AllocHost(64, 0))(t),
		add: Need(mod.Function("add"))(t),
	}
	defer CloseIt(t, n.mem)
	defer CloseIt(t, n.copy)
	defer CloseIt(t, n.far)
	defer CloseIt(t, n.host)
	if err := n.host.View(func(b []byte) error { copy(b, "host"); return nil }); err != nil {
		t.Fatal(err)
	}
	for mem, text := range map[*DeviceMem]string{n.copy: "copy", n.far: "far "} {
		if err := mem.CopyFrom([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	own := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer CloseIt(t, own)
	blocking := Need(gpu.NewStream(StreamDefault))(t)
	defer CloseIt(t, blocking)
	g := Need(graph.Capture(own, graph.CaptureRelaxed, func() error { return own.Memset(n.mem.Span(0, 4), 'g') }))(t)
	defer CloseIt(t, g)
	n.exec = Need(g.Instantiate())(t)
	defer CloseIt(t, n.exec)

	n.th = n.tab.Pin()
	defer n.th.Unpin()
	streams := map[string]driver.Stream{
		"non-blocking": core.Of(own).Raw, "blocking": core.Of(blocking).Raw, "legacy": driver.CU_STREAM_LEGACY,
		"per-thread": driver.CU_STREAM_PER_THREAD, "null": 0,
	}
	if parts, _, err := Need(green.DeviceSMs(gpu.Device()))(t).Split(8); err == nil {
		green := Need(green.New(gpu, parts[0]))(t)
		defer CloseIt(t, green)
		s := Need(green.NewStream(0))(t)
		defer CloseIt(t, s)
		streams["green context's"] = core.Of(s).Raw
	} else {
		t.Logf("no green context: %v", err)
	}
	others := map[string]driver.Context{"none": 0, "another": core.Of(two).Context.Raw}
	if dev, err := gpu.Device().Driver().Device(1); err == nil {
		far := Need(dev.PrimaryContext())(t)
		defer CloseIt(t, far)
		others["another device's"] = core.Of(far).Context.Raw
	} else {
		t.Logf("no second device: %v", err)
	}
	for name, s := range streams {
		explicit := s > driver.CU_STREAM_PER_THREAD
		for current, ctx := range others {
			for _, captured := range []bool{false, true} {
				if captured && !explicit {
					continue
				}
				n.s = s
				for _, c := range n.calls() {
					if captured && n.tab.Software() && strings.HasPrefix(c.name, "cuMemAllocAsync") {
						continue // the software driver's graphs allocate no memory
					}
					n.one(fmt.Sprintf("%s on a %s stream, current: %s, captured: %v", c.name, name, current, captured),
						c.name, c.make, c.want, ctx, captured, explicit)
				}
			}
		}
	}
}

// viewHost calls f with the host memory.
func (n *noContext) viewHost(f func(b []byte)) {
	if err := n.host.View(func(b []byte) error { f(b); return nil }); err != nil {
		n.t.Fatal(err)
	}
}

// one makes a call, and looks at what it did.
func (n *noContext) one(name, call string, make func(driver.At) driver.Result, want string, current driver.Context,
	captured, explicit bool) {
	t, tab, at := n.t, n.tab, driver.At{Thread: n.th}
	if err := n.mem.CopyFrom([]byte{1, 1, 1, 1}); err != nil {
		t.Fatal(err)
	}
	n.viewHost(func(b []byte) { clear(b[8:12]) })
	if res := tab.CtxSetCurrent(at, current); res != driver.ResultSuccess {
		t.Fatal(res)
	}
	defer tab.CtxSetCurrent(at, 0)
	if captured {
		if res := tab.StreamBeginCapture(at, n.s, driver.CU_STREAM_CAPTURE_MODE_RELAXED); res != driver.ResultSuccess {
			t.Fatalf("%s: begin: %v", name, res)
		}
	}
	res := make(at)
	if captured {
		g, end := tab.StreamEndCapture(at, n.s)
		switch {
		case call == "cuGraphLaunch" || call == "cuGraphUpload" || call == "cuMemcpyPeerAsync":
			if end == driver.ResultSuccess { // no capture takes these, whatever the current context is
				t.Errorf("%s: %v, and the capture gives a graph", name, res)
				tab.GraphDestroy(at, g)
			}
			return
		case res != driver.ResultSuccess || end != driver.ResultSuccess:
			t.Errorf("%s: %v, and the capture's end %v", name, res, end)
			return
		}
		x, r := tab.GraphInstantiateWithFlags(driver.At{Thread: n.th, Context: n.gpu.Raw}, g, 0)
		if r == driver.ResultSuccess {
			r = tab.GraphLaunch(driver.At{Thread: n.th, Context: n.gpu.Raw}, x, n.s)
		}
		if call == "cuLaunchHostFunc" { // whose function is dropped by now
			r = driver.ResultSuccess
		}
		if r != driver.ResultSuccess {
			t.Errorf("%s: the graph: %v", name, r)
		}
		defer tab.GraphDestroy(at, g)
		defer tab.GraphExecDestroy(at, x)
	}
	if !explicit {
		t.Logf("%s: %v", name, res)
		tab.CtxSetCurrent(at, current)
		tab.StreamSynchronize(at, n.s)
		return
	}
	if res != driver.ResultSuccess {
		t.Errorf("%s: %v", name, res)
		return
	}
	if res := tab.StreamSynchronize(driver.At{Thread: n.th, Context: n.gpu.Raw}, n.s); res != driver.ResultSuccess {
		t.Errorf("%s: synchronize: %v", name, res)
	}
	got := [4]byte{}
	if err := n.mem.CopyTo(got[:]); err != nil {
		t.Fatal(err)
	}
	if call == "cuMemcpyDtoHAsync" {
		n.viewHost(func(b []byte) {
			if !bytes.Equal(b[8:12], []byte{1, 1, 1, 1}) {
				t.Errorf("%s: the host memory holds %v", name, b[8:12])
			}
		})
	}
	if call == "cuLaunchKernel" || call == "cuLaunchCooperativeKernel" {
		if f := *(*float32)(unsafe.Pointer(&got)); f < 0.99 || f > 1.01 {
			t.Errorf("%s: the element is %v", name, f)
		}
	} else if want != "" && !bytes.Equal(got[:], []byte(want)) {
		t.Errorf("%s: memory holds %q, want %q", name, got, want)
	}
	if c, res := tab.CtxGetCurrent(at); res != driver.ResultSuccess || c != current {
		t.Errorf("%s: the current context is %#x then, %v", name, c, res)
	}
}

// kernelParams returns arguments for the driver. None of them is memory.
func kernelParams(args ...Arg) driver.KernelParams {
	k := new(core.KernelArgs)
	k.Grow(len(args))
	for i := range args {
		SetArg(&args[i], k, i)
	}
	return k.Params(len(args))
}
