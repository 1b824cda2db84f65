package cu_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/internal/memstate"
	. "github.com/purecu/purecu/internal/testrig"
)

func (f *fake) host(c *Context, size uint64) *HostMem {
	f.t.Helper()
	m := Need(c.AllocHost(size, HostDefault))(f.t)
	f.t.Cleanup(func() { m.Close() })
	return m
}

// read returns what is in device memory.
func (f *fake) read(m *DeviceMem) string {
	f.t.Helper()
	b := make([]byte, m.Size())
	f.ok(m.CopyTo(b))
	return string(b)
}

// TestReaderAt uses memory as io.ReaderAt and io.WriterAt.
func TestReaderAt(t *testing.T) {
	r := newRig(t)
	dev, host := r.memory(r.gpu, 10), r.host(r.gpu, 10)
	for name, m := range map[string]interface {
		io.ReaderAt
		io.WriterAt
		Size() uint64
	}{"device": dev, "host": host} {
		if n, err := m.WriteAt([]byte("0123456789"), 0); n != 10 || err != nil {
			t.Fatalf("%s: WriteAt = %d, %v", name, n, err)
		}
		if n, err := m.WriteAt([]byte("xyz"), 4); n != 3 || err != nil {
			t.Fatalf("%s: WriteAt = %d, %v", name, n, err)
		}
		all := Need(io.ReadAll(io.NewSectionReader(m, 0, 100)))(t)
		if string(all) != "0123xyz789" {
			t.Errorf("%s: it holds %q", name, all)
		}
		b := make([]byte, 4)
		for _, c := range []struct {
			off  int64
			n    int
			want error
		}{{0, 4, nil}, {6, 4, nil}, {8, 2, io.EOF}, {10, 0, io.EOF}, {11, 0, ResultInvalidValue}, {-1, 0, ResultInvalidValue}} {
			if n, err := m.ReadAt(b, c.off); n != c.n || !errors.Is(err, c.want) {
				t.Errorf("%s: ReadAt(%d) = %d, %v; want %d, %v", name, c.off, n, err, c.n, c.want)
			}
		}
		for _, off := range []int64{-1, 8, 11, 1<<63 - 1} {
			if n, err := m.WriteAt(b, off); n != 0 || !errors.Is(err, ResultInvalidValue) {
				t.Errorf("%s: WriteAt(%d) = %d, %v", name, off, n, err)
			}
		}
	}
	r.ok(dev.Memset('-'))
	if got := r.read(dev); got != "----------" {
		t.Errorf("after Memset: %q", got)
	}
}

// TestStreamCopy copies in all directions, in parts.
func TestStreamCopy(t *testing.T) {
	r := newRig(t)
	a, b, h := r.memory(r.gpu, 8), r.memory(r.gpu, 8), r.host(r.gpu, 16)
	far := r.memory(r.context(r.drv, 1), 8)
	Need(h.WriteAt([]byte("abcdefghijklmnop"), 0))(t)
	r.ok(r.s.Copy(a, h.Span(4, 8)))            // host to device
	r.ok(r.s.Copy(b.Span(2, 6), a.Span(1, 4))) // within the device
	r.ok(r.s.Memset(b.Span(0, 2), '<'))
	r.ok(r.s.Memset(b.Span(6, 2), '>'))
	r.ok(r.s.Copy(far, b)) // to another device
	r.ok(r.s.Copy(h.Span(0, 8).Span(1, 3), b.Span(2, 3)))
	r.ok(r.s.Copy(a.Span(0, 0), h.Span(3, 0))) // nothing
	r.ok(r.s.Memset32(a.Span(4, 4), 0x44434241))
	var host string
	r.ok(h.View(func(b []byte) error { host = string(b); return nil }))
	got := []string{r.read(a), r.read(b), r.read(far), host}
	if diff := cmp.Diff([]string{"efghABCD", "<<fghi>>", "<<fghi>>", "afghefghijklmnop"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := r.calls("cuMemcpyPeerAsync"); n != 1 {
		t.Errorf("%d peer copies", n)
	}
	if h.Handle() == 0 || a.Handle() == 0 {
		t.Error("no handles")
	}
}

// TestStreamCopyMistakes looks at what is refused before the driver sees it.
func TestStreamCopyMistakes(t *testing.T) {
	r := newRig(t)
	a, h := r.memory(r.gpu, 8), r.host(r.gpu, 8)
	other := r.context(r.drv, 1)
	far, farther := r.memory(other, 8), r.memory(r.context(r.drv, 2), 8)
	foreign := r.memory(r.context(r.open(), 0), 8)
	closed, closedHost, closedStream := r.memory(r.gpu, 8), r.host(r.gpu, 8), r.stream(r.gpu)
	for _, c := range []io.Closer{closed, closedHost, closedStream} {
		r.ok(c.Close())
	}
	for name, c := range map[string]struct {
		err func() error
		is  error
	}{
		"no destination":      {func() error { return r.s.Copy(nil, a) }, ErrNil},
		"no source":           {func() error { return r.s.Copy(a, nil) }, ErrNil},
		"nil memory":          {func() error { return r.s.Copy(a, (*HostMem)(nil)) }, ErrNil},
		"nil stream":          {func() error { return (*Stream)(nil).Copy(a, h) }, ErrNil},
		"closed stream":       {func() error { return closedStream.Copy(a, h) }, ErrClosed},
		"closed destination":  {func() error { return r.s.Copy(closed, h) }, ErrClosed},
		"closed source":       {func() error { return r.s.Copy(a, closedHost) }, ErrClosed},
		"host to host":        {func() error { return r.s.Copy(h, h) }, ResultInvalidValue},
		"too much":            {func() error { return r.s.Copy(a.Span(1, 7), h) }, ResultInvalidValue},
		"beyond the end":      {func() error { return r.s.Copy(a.Span(4, 5), h.Span(0, 1)) }, ResultInvalidValue},
		"before the end":      {func() error { return r.s.Copy(a.Span(0, 2).Span(2, 1), h.Span(0, 1)) }, ResultInvalidValue},
		"overflow":            {func() error { return r.s.Copy(a, h.Span(1<<64-1, 2)) }, ResultInvalidValue},
		"another device's":    {func() error { return r.s.Copy(far, h) }, ErrDeviceMismatch},
		"two others' devices": {func() error { return r.s.Copy(far, farther) }, ErrDeviceMismatch},
		"another driver's":    {func() error { return r.s.Copy(foreign, h) }, ErrDriverMismatch},
		"set another's":       {func() error { return r.s.Memset(far, 0) }, ErrDeviceMismatch},
		"set nothing":         {func() error { return r.s.Memset(nil, 0) }, ErrNil},
		"set closed":          {func() error { return r.s.Memset(closed, 0) }, ErrClosed},
		"words at 2":          {func() error { return r.s.Memset32(a.Span(2, 4), 0) }, ResultInvalidValue},
		"words of 6 bytes":    {func() error { return r.s.Memset32(a.Span(0, 6), 0) }, ResultInvalidValue},
		"view closed":         {func() error { return closedHost.View(func([]byte) error { return nil }) }, ErrClosed},
		"view with nothing":   {func() error { return h.View(nil) }, ErrNil},
		"no host memory":      {func() error { _, err := r.gpu.AllocHost(0, 0); return err }, ResultInvalidValue},
		"unknown host flags":  {func() error { _, err := r.gpu.AllocHost(8, 1<<7); return err }, ResultInvalidValue},
		"enormous":            {func() error { _, err := r.gpu.AllocHost(1<<63, 0); return err }, ResultInvalidValue},
	} {
		calls := r.ask("fake_all_calls")
		if err := c.err(); !errors.Is(err, c.is) {
			t.Errorf("%s: %v; want one that matches %v", name, err, c.is)
		}
		if r.ask("fake_all_calls") != calls {
			t.Errorf("%s: the driver was called", name)
		}
	}
	if _, err := r.gpu.Alloc(1 << 40); !errors.Is(err, ResultOutOfMemory) {
		t.Errorf("out of memory: %v", err)
	}
	sentinel := errors.New("f's own")
	if err := h.View(func([]byte) error { return sentinel }); err != sentinel {
		t.Errorf("View returned %v", err)
	}
	// Memory that the device cannot reach is good for copies, and no more.
	r.fail("cuMemHostGetDevicePointer_v2", 1, ResultNotSupported)
	unmapped := r.host(r.gpu, 8)
	r.ok(r.s.Copy(a, unmapped))
	if err := r.s.Memset(unmapped, 0); !errors.Is(err, memstate.ErrUnmapped) {
		t.Errorf("a set of unmapped memory: %v", err)
	}
	noop := Need(r.module(r.gpu).Function("axpy"))(t)
	if err := noop.Launch(r.s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(unmapped), F32(0), U64(0)); !errors.Is(err, memstate.ErrUnmapped) {
		t.Errorf("a launch on unmapped memory: %v", err)
	}
}

// TestMemoryStaysForTheGPU closes memory while the GPU has work to do with it:
// it is freed when that is done, whoever closes it, and in whichever context the
// work is.
func TestMemoryStaysForTheGPU(t *testing.T) {
	one := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}
	for name, set := range map[string]func(r *rig, other *Context) (io.Closer, *Stream, func() error){
		"host": func(r *rig, _ *Context) (io.Closer, *Stream, func() error) {
			d, h := r.memory(r.gpu, 8), r.host(r.gpu, 8)
			return h, r.s, func() error { return r.s.Copy(d, h.Span(4, 4)) }
		},
		"host of another context": func(r *rig, other *Context) (io.Closer, *Stream, func() error) {
			d, h, s := r.memory(other, 8), r.host(r.gpu, 8), r.stream(other)
			return h, s, func() error { return s.Copy(h, d) }
		},
		"device": func(r *rig, _ *Context) (io.Closer, *Stream, func() error) {
			d, h := r.memory(r.gpu, 8), r.host(r.gpu, 8)
			return d, r.s, func() error { return r.s.Copy(d, h) }
		},
		"peer": func(r *rig, other *Context) (io.Closer, *Stream, func() error) {
			d, far := r.memory(r.gpu, 8), r.memory(other, 8)
			return far, r.s, func() error { return r.s.Copy(d, far) }
		},
		"argument": func(r *rig, _ *Context) (io.Closer, *Stream, func() error) {
			d, axpy := r.memory(r.gpu, 8), Need(r.module(r.gpu).Function("axpy"))(r.t)
			return d, r.s, func() error { return axpy.Launch(r.s, one, Ptr(d), F32(0), U64(0)) }
		},
		"host argument": func(r *rig, _ *Context) (io.Closer, *Stream, func() error) {
			h, axpy := r.host(r.gpu, 8), Need(r.module(r.gpu).Function("axpy"))(r.t)
			return h, r.s, func() error { return axpy.Launch(r.s, one, Ptr(h), F32(0), U64(0)) }
		},
		"peer's argument": func(r *rig, other *Context) (io.Closer, *Stream, func() error) {
			r.ok(r.gpu.EnablePeerAccess(other))
			far, axpy := r.memory(other, 8), Need(r.module(r.gpu).Function("axpy"))(r.t)
			return far, r.s, func() error { return axpy.Launch(r.s, one, Ptr(far.Span(4, 4)), F32(0), U64(0)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			other := r.context(r.drv, 1)
			mem, s, work := set(r, other)
			r.hold(s)
			r.ok(work())
			r.ok(other.Close())
			done := make(chan error)
			go func() { done <- mem.Close() }()
			// The driver would notice if the memory was gone too soon.
			if !Eventually(func() bool { return r.ask("fake_waiting") != 0 || r.relaxed("cuEventQuery") > 10 }) {
				t.Error("Close does not wait")
			}
			if n := r.census(kindMemory) + r.census(kindHost); n == 0 {
				t.Error("the memory is gone")
			}
			r.release(s)
			r.ok(<-done)
			if n := r.ask("fake_trapped"); n != 0 {
				t.Errorf("the driver has noticed %d mistakes", n)
			}
		})
	}
}

// TestHostMemAbandoned abandons pinned memory, and closes some in a View.
func TestHostMemAbandoned(t *testing.T) {
	r := newRig(t)
	Need(r.gpu.AllocHost(8, HostPortable))(t)
	if diff := cmp.Diff([]string{"host memory abandoned"}, r.leaked(1)); diff != "" {
		t.Errorf("leaks (-want +got):\n%s", diff)
	}
	h := r.host(r.gpu, 8)
	r.ok(h.View(func(b []byte) error {
		if err := h.Close(); err != nil {
			return err
		}
		copy(b, "still it") // a fault, if it was freed
		if !bytes.Equal(b, []byte("still it")) {
			return errors.New("the memory has changed")
		}
		return nil
	}))
	if n := r.census(kindHost); n != 2 {
		t.Errorf("%d pieces of memory are left, and nobody has made a call that may wait", n)
	}
	r.ok(r.gpu.Synchronize())
	if r.census(kindHost) != 0 || r.relaxed("cuMemFreeHost") != 2 {
		t.Error("it was not freed after the View, or not in relaxed mode")
	}
}

// TestGlobal reads a module's variable, which keeps the module.
func TestGlobal(t *testing.T) {
	r := newRig(t)
	m := r.module(r.gpu)
	v := Need(m.Global("counter"))(t)
	if v.Size() != 8 {
		t.Errorf("Size = %d", v.Size())
	}
	r.ok(v.CopyFrom([]byte("12345678")))
	r.ok(m.Close())
	if got := r.read(v); got != "12345678" || r.census(kindModule) != 1 {
		t.Errorf("it holds %q, of %d modules", got, r.census(kindModule))
	}
	r.ok(v.Close())
	if r.census(kindModule) != 0 || r.calls("cuMemFree_v2") != 0 {
		t.Error("the module was not unloaded with it, or the variable was freed")
	}
	if _, err := m.Global("counter"); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed module's variable: %v", err)
	}
	other := r.module(r.gpu)
	if _, err := other.Global("nonsense"); !errors.Is(err, ResultNotFound) {
		t.Errorf("an unknown variable: %v", err)
	}
	Need(other.Global("counter"))(t) // abandoned: it lets the module go
	r.ok(other.Close())
}

// TestEmbeddedMemory passes a type that has the methods of memory because it embeds some.
func TestEmbeddedMemory(t *testing.T) {
	r := newRig(t)
	mem := r.memory(r.gpu, 8)
	tensor := struct {
		*DeviceMem
		shape []int
	}{DeviceMem: mem}
	for name, err := range map[string]error{
		"Copy":   r.s.Copy(tensor, mem),
		"Memset": r.s.Memset(&tensor, 0),
		"AddMemset": func() error {
			_, err := Need(graph.New(r.gpu))(t).Add(&graph.Memset{Dst: tensor, Value: 0})
			return err
		}(),
	} {
		if err == nil || !strings.Contains(err.Error(), "x.DeviceMem") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var none *Span
	if err := r.s.Memset(none, 0); !errors.Is(err, ErrNil) {
		t.Errorf("a nil *Span: %v", err)
	}
	r.ok(r.s.Copy(tensor.DeviceMem, mem))
}
